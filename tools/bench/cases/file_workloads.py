"""What is measured beside plain reading of the same files.

    plain read, cold    the log's files from the device, by read calls of 1 MiB
    read, cold          open a view and read every message, body copied and checked, from the device; the queues
                        abreast, as a consumer of all of them does: the log is read in order, and once
    plain read          the log's files from the page cache, by read calls of 1 MiB
    seals               the same bytes against the seals of their segments; the last one, which has none, read plainly
    verify              the whole store against itself, from the page cache: seals, records, queues, key index

The store to verify has at least four segments; all but the last are sealed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ....engine.message_store import open_store
from ....engine.read_only import ReadOnlyStore, open_read_only
from ....store.disk.disk import RealDisk
from ....store.seal.seal import broken_blocks, read_seal
from ..machine.page_cache import forget
from .case import Work
from .workloads import ASYNC, BATCH, QUEUES, SEGMENT_SIZE, TOPIC, kept_store, make_messages, record_size

PLAIN_COLD, READ_COLD = "plain read, cold", "read, cold"
PLAIN, SEALS, VERIFY = "plain read", "seals", "verify"
READ_SIZE = 1 << 20
SEGMENTS_MIN = 4
SEGMENT_SIZE_MIN = 64 << 10


@contextmanager
def plain_read_cold(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    store = kept_store(folder, body_size, count)
    pieces = _pieces(store)
    forget(store)
    yield lambda: _read_plainly(pieces)


@contextmanager
def read_cold(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    store = kept_store(folder, body_size, count)
    forget(store)

    def work() -> None:
        found = 0
        with open_read_only(store) as view:
            readers = deque(view.read(TOPIC, queue_id) for queue_id in range(QUEUES))
            while readers:
                messages = list(islice(readers[0], BATCH))
                for message in messages:
                    found += len(message.body)
                if messages:
                    readers.rotate(-1)
                else:
                    readers.popleft()
        if found != body_size * count:
            raise RuntimeError(f"read {found} bytes of bodies, expected {body_size * count}")

    yield work


@contextmanager
def plain_read(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    pieces = _pieces(_sealed_store(folder, body_size, count))
    _read_plainly(pieces)
    yield lambda: _read_plainly(pieces)


@contextmanager
def seals(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    store = _sealed_store(folder, body_size, count)
    _read_plainly(_pieces(store))
    disk = RealDisk()
    with open_read_only(store) as view:
        found = [(segment, read_seal(disk, store, segment)) for segment in view.segments]
        sealed = [(segment, seal) for segment, seal in found if seal is not None]
        bare = [piece for piece, (_, seal) in zip(_pieces_of(view), found, strict=True) if seal is None]
        if len(bare) > 1:
            raise RuntimeError(f"{store}: {len(bare)} segments have no seal")

        def work() -> None:
            if any(broken_blocks(segment, seal) for segment, seal in sealed):
                raise RuntimeError(f"{store}: a segment differs from its seal")
            _read_plainly(bare)

        yield work


@contextmanager
def verify(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    store = _sealed_store(folder, body_size, count)
    _read_plainly(_pieces(store))
    with open_read_only(store) as view:

        def work() -> None:
            report = view.verify()
            if not report.is_clean or report.records != count or report.sealed_segments < report.segments - 1:
                raise RuntimeError(f"{store}: {report}")

        yield work


def _sealed_store(folder: Path, body_size: int, count: int) -> Path:
    """A closed store with these messages in several segments, made at the first call."""
    path = folder / f"sealed-{body_size}-{count}"
    if not path.exists():
        each = count * record_size(body_size) // SEGMENTS_MIN // SEGMENT_SIZE_MIN * SEGMENT_SIZE_MIN
        size = min(max(each, SEGMENT_SIZE_MIN), SEGMENT_SIZE)
        messages = make_messages(body_size, count)
        with open_store(path, replace(ASYNC, segment_size=size)) as store:
            for i in range(0, count, BATCH):
                store.put_many(messages[i : i + BATCH])
    return path


def _pieces(store: Path) -> list[tuple[Path, int]]:
    """The log's files, and how many bytes of each are written."""
    with open_read_only(store) as view:
        return _pieces_of(view)


def _pieces_of(view: ReadOnlyStore) -> list[tuple[Path, int]]:
    end = view.end_physical_offset
    return [(segment.path, min(segment.size, end - segment.base)) for segment in view.segments if segment.base < end]


def _read_plainly(pieces: list[tuple[Path, int]]) -> None:
    buffer = memoryview(bytearray(READ_SIZE))
    for path, size in pieces:
        with path.open("rb", buffering=0) as file:
            while size > 0:
                got = file.readinto(buffer[: min(size, READ_SIZE)])
                if not got:
                    raise RuntimeError(f"{path} is shorter than it was")
                size -= got
