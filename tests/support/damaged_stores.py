"""Stores with damage drawn by lot, read in every way there is, then opened for writing.

Nothing may crash, hang, read or allocate without bound, raise what is no error of flightlog, or give a message that was
never stored: what comes back is looked up among the records of the sound store, by place and body.

As a program: see damage_cases.py.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import flightlog
from flightlog import FlightlogError, Message, PutResult, ReadOnlyStore, Store, StoredMessage, StoreSettings
from flightlog.engine.columns.schema import batch_schema
from flightlog.spark.options.read_options import ON_CORRUPT, ReadOptions
from flightlog.spark.read.reading import RangeReader
from flightlog.spark.schema import ARROW_TYPES, CORRUPT
from flightlog.store import native
from flightlog.store.errors import CorruptBodyError, DiskError, StoreNotFoundError
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_V1, MAGIC_V2
from flightlog.store.format.inner_batch import unwrapped
from flightlog.tests.support.damage_cases import Try, run_cases
from flightlog.tests.support.limited_disk import LimitedDisk
from flightlog.tests.support.planning import plan
from flightlog.tests.support.sound_records import stored_message

MAX_READS, MAX_READ_SIZE, MAX_ONE_READ = 100_000, 256 << 20, 16 << 20
"""Limits of one call; a sound store of these sizes takes a thousandth of it."""
MAX_MESSAGES = 100_000
NEW = "new-topic"
KEYS = ("Aa", "BB", "k1", "k2", "k3", "n7", "U00042", "b39", "order-000000")
COLUMNS = ("physicalOffset", "batchIndex", "value")
Place = tuple[int, int | None]


class InventedError(AssertionError):
    """A message that was never stored."""


def new_disk() -> LimitedDisk:
    return LimitedDisk(MAX_READS, MAX_READ_SIZE, MAX_ONE_READ)


def stored_in(root: Path) -> dict[Place, bytes]:
    """Body digests of every intact record in the log, by place; those of inner batches beside the batch itself."""
    found: dict[Place, bytes] = {}
    row: Any = np.empty(1, FRAME_DTYPE)
    magics = [magic.to_bytes(4, "big", signed=True) for magic in (MAGIC_V1, MAGIC_V2)]
    for path in (root / "commitlog").iterdir():
        raw = path.read_bytes()
        for at in (at for magic in magics for at in _places(raw, magic)):
            if at >= 4 and native.walk(raw, at - 4, len(raw), int(path.name), True, row)[0] and row["crc_ok"][0]:
                record = stored_message(raw, row[0].item())
                found[record.physical_offset, None] = _digest(record.body)
                try:
                    inner = unwrapped(record)
                except CorruptBodyError:
                    continue
                found |= {(m.physical_offset, m.batch_index): _digest(m.body) for m in inner}
    return found


def _places(raw: bytes, magic: bytes) -> Iterator[int]:
    at = raw.find(magic)
    while at >= 0:
        yield at
        at = raw.find(magic, at + 1)


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=8).digest()


class Case:
    """One damaged store."""

    def __init__(self, root: Path, stored: dict[Place, bytes]) -> None:
        self.root, self.stored = root, dict(stored)
        self.disk = new_disk()
        self.now_ms = 1_900_000_000_000
        self.told: Counter[str] = Counter()
        """Errors by name, and what went well."""

    def run(self) -> None:
        view = self._try(lambda: flightlog.open_read_only(self.root, disk=self.disk), StoreNotFoundError, DiskError)
        if view is not None:
            with view:
                self._read(view)
                self._verify(view)
        self._read_as_spark()
        self._write()

    def _try(self, call: Callable[[], Any], *errors: type[FlightlogError]) -> Any:
        """What it gives; None where it raises one of these, any error of flightlog by default."""
        self.disk.begin()
        try:
            return call()
        except FlightlogError as e:
            if errors and not isinstance(e, errors):
                raise
            self.told[type(e).__name__] += 1
            return None

    def _check(self, messages: Iterable[StoredMessage]) -> None:
        for count, message in enumerate(messages):
            self._look_up((message.physical_offset, message.batch_index), message.body)
            assert count <= MAX_MESSAGES, "messages without end"

    def _look_up(self, place: Place, body: bytes) -> None:
        if self.stored.get(place) != _digest(body):
            raise InventedError(f"{place}: {body[:60]!r}")

    def _read(self, store: Store | ReadOnlyStore) -> None:
        """Ask everything that can be asked."""
        self._try(store.statistics)
        self._try(store.topics)
        queues = store.queues()
        for key, (first, end) in queues.items():
            assert 0 <= first <= end
            self._try(lambda: self._check(store.read(*key, on_corrupt="skip")), DiskError)
            self._try(lambda: self._check(store.read(*key)))
            self._try(lambda: self._check(store.read(*key, tags="A || B", on_corrupt="skip")))
            for offset in (first, (first + end) // 2):
                self._try(lambda: self._check(store.get(*key, offset, 32).messages))
            self._try(lambda: store.offset_at(*key, self.now_ms))
            self._try(lambda: store.estimate_count(*key, first, end, tags="A"))
            self._try(lambda: self._check_batch(store.read_batch(*key, on_corrupt="skip", columns=COLUMNS)))
        for topic in sorted({topic for topic, _ in queues}):
            for word in KEYS:
                self._try(lambda: self._check(store.query(topic, word, on_corrupt="skip").messages), DiskError)
            self._try(lambda: self._check(store.query(topic, "Aa", 5, self.now_ms).messages))
        for offset, index in list(self.stored)[::20]:
            found = self._try(lambda: store.message_at(offset, index))
            self._check([found] if found is not None else [])

    def _read_again(self, store: Store | ReadOnlyStore, result: PutResult) -> None:
        """Read every queue; the message that was put is the last one of its own."""
        self.disk.begin()
        for key in store.queues():
            self._check(store.read(*key, on_corrupt="skip"))
        assert [m.physical_offset for m in store.read(NEW, 0)][-1:] == [result.physical_offset]
        assert result.physical_offset in [m.physical_offset for m in store.query(NEW, "new").messages]

    def _verify(self, view: ReadOnlyStore) -> None:
        report = self._try(view.verify, DiskError)
        if report is not None:
            self.told["clean" if report.is_clean else "findings"] += 1

    def _read_as_spark(self) -> None:
        packs = self._try(lambda: plan(self.root, 4096, self.disk)) or []
        schema = batch_schema(None).append(pa.field(CORRUPT.name, ARROW_TYPES[CORRUPT.type]))
        for on_corrupt in ON_CORRUPT:
            reader = RangeReader(schema, ReadOptions(on_corrupt=on_corrupt, include_internal=True), self.disk)
            for piece in (piece for pack in packs for piece in pack):
                self._try(lambda: self._check_rows(reader, piece))

    def _check_rows(self, reader: RangeReader, piece: Any) -> None:
        for batch in reader.read(piece):
            self._check_batch(batch.filter(batch.column(CORRUPT.name).is_null()))

    def _check_batch(self, batch: Any) -> None:
        columns = (batch.column(name).to_pylist() for name in COLUMNS)
        for offset, index, body in zip(*columns, strict=True):
            self._look_up((offset, index), body)

    def _write(self) -> None:
        """Open it, which may be refused by name; then it is a store like any other."""
        settings = StoreSettings(
            rocketmq_strict=False,
            flush_interval_ms=3_600_000,
            allocate_step_size=4096,
            accept_future_store_time=True,
            deliver_delayed=False,  # what is delivered would be taken for invented
        )
        store = self._try(lambda: flightlog.open(self.root, settings, disk=self.disk))
        if store is None:
            return
        self.told["opened"] += 1
        with store:
            self.disk.begin()
            result = self._try(lambda: store.put(Message(NEW, b"after the damage", keys="new")), DiskError)
            if result is None:  # a folder stands where the next file is to come
                return
            self.stored[result.physical_offset, None] = _digest(b"after the damage")
            self._read_again(store, result)
            self._try(store.close, DiskError)  # it seals full segments, and a folder may stand where a seal is to come
        with flightlog.open(self.root, settings, disk=self.disk) as again:
            self._read_again(again, result)
        with flightlog.open_read_only(self.root, disk=self.disk) as view:
            self._read_again(view, result)
            self._verify(view)


def prepare(store: Path) -> Try:
    """See run_cases."""
    stored = stored_in(store)

    def try_damaged(root: Path) -> Counter[str]:
        case = Case(root, stored)
        case.run()
        return case.told

    return try_damaged


if __name__ == "__main__":
    sys.exit(min(run_cases(prepare), 100))
