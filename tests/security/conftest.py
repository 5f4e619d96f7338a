"""What the tests of hostile stores share.

- `make_store`: a small store, cleanly closed, killed, or as if RocketMQ had left it.
- `put_record`: one more record at the end of its log, with any topic, queue and properties, as no put would make it.
- `use_everything`: whatever can be done with a store, of which nothing may do harm.
- `watch`: proof that nothing outside a store's folder was made, changed, removed or read.
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlightlogError, Message, ReadOnlyStore, Store, StoreSettings
from flightlog.store.format.frame import MAGIC_V1, MAGIC_V2

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    Make = Callable[..., Path]
    PutRecord = Callable[..., int]
    UseEverything = Callable[..., list[str]]
    Watch = Callable[[Path], AbstractContextManager[None]]

NEVER_MS = 3_600_000
SEGMENT_SIZE = 256 << 10
SETTINGS = StoreSettings(
    segment_size=SEGMENT_SIZE,
    queue_file_entries=10,
    index_slots=5,
    index_entries=50,
    allocate_step_size=4096,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    index_flush_interval_ms=NEVER_MS,
)
COUNT = 12
STORE_MS = 1_700_000_000_000


@pytest.fixture
def make_store(tmp_path: Path) -> Make:
    """`make_store()` holds twelve messages; `foreign=True`: no trace of flightlog in it, and not closed."""

    def make(name: str = "store", *, foreign: bool = False) -> Path:
        root = tmp_path / "around" / name
        with flightlog.open(root, SETTINGS) as store:
            store.put_many([Message("t", b"%d" % i, keys=f"k{i}", tags="tag") for i in range(COUNT)])
        if foreign:
            shutil.rmtree(root / "flightlog")
            (root / "abort").write_bytes(b"4711")
            os.truncate(root / "checkpoint", 0)
        return root

    return make


def record(
    physical_offset: int,
    topic: bytes,
    *,
    queue_id: int = 0,
    queue_offset: int = 0,
    sys_flag: int = 0,
    body: bytes = b"hostile",
    properties: bytes = b"",
) -> bytes:
    """One whole record; V2 for a topic that V1 cannot name."""
    head = struct.pack(">iqq", 0, queue_offset, physical_offset)
    topic_size = struct.pack(">B", len(topic)) if len(topic) <= 127 else struct.pack(">h", len(topic))
    rest = (
        struct.pack(">iq4si", sys_flag, STORE_MS, bytes([10, 0, 0, 1]), 1)
        + struct.pack(">q4siiq", STORE_MS, bytes([10, 0, 0, 1]), 1, 0, 0)
        + struct.pack(">i", len(body))
        + body
        + topic_size
        + topic
        + struct.pack(">h", len(properties))
        + properties
    )
    magic = MAGIC_V1 if len(topic) <= 127 else MAGIC_V2
    size = 16 + len(head) + len(rest)
    return struct.pack(">iiii", size, magic, zlib.crc32(body) & 0x7FFFFFFF, queue_id) + head + rest


@pytest.fixture
def make_record() -> Callable[..., bytes]:
    """`make_record(physical_offset, b"topic", body=b"..")`: its bytes."""
    return record


@pytest.fixture
def put_record() -> PutRecord:
    """`put_record(root, b"..")` appends it by hand, and returns its physical offset."""

    def put(root: Path, topic: bytes, **fields: object) -> int:
        segment = root / "commitlog" / f"{0:020d}"
        raw = segment.read_bytes()
        end = 0
        while size := int.from_bytes(raw[end : end + 4], "big"):
            end += size
        made = record(end, topic, **fields)  # type: ignore[arg-type]
        with open(segment, "r+b") as file:
            file.seek(end)
            file.write(made)
        return end

    return put


def _ask(store: Store | ReadOnlyStore, names: Sequence[str]) -> None:
    for topic, queue_id in (*store.queues(), *((name, 0) for name in names)):
        list(store.read(topic, queue_id, on_corrupt="skip"))
        with suppress(FlightlogError):
            store.get(topic, queue_id, 0)
        store.query(topic, "k1", on_corrupt="skip")
        with suppress(FlightlogError):
            store.offset_at(topic, queue_id, STORE_MS)
    store.verify()
    with suppress(FlightlogError):
        store.topics()
    store.statistics()


@pytest.fixture
def use_everything() -> UseEverything:
    """`use_everything(root)` returns the names of the errors that it met, all of them flightlog's own."""

    def use(root: Path, names: Sequence[str] = ()) -> list[str]:
        met: list[str] = []
        try:
            with flightlog.open_read_only(root) as view:
                _ask(view, names)
                view.refresh()
        except FlightlogError as e:
            met.append(type(e).__name__)
        try:
            with flightlog.open(root, SETTINGS) as store:
                _ask(store, names)
                for name in (*store.topics(), *names):
                    with suppress(FlightlogError):
                        store.put(Message(name, b"more"))
                    with suppress(FlightlogError):
                        store.create_topic(name)
                    with suppress(FlightlogError):
                        store.delete_topic(name)
                store.clean_up(0)
        except FlightlogError as e:
            met.append(type(e).__name__)
        try:
            flightlog.open(root, SETTINGS).close()
            with flightlog.open_read_only(root) as view:
                _ask(view, names)
        except FlightlogError as e:
            met.append(type(e).__name__)
        return met

    return use


_watched: list[tuple[str, str, list[str]]] = []
EVENTS = {
    *("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod"),
    *("os.listdir", "os.scandir"),
}


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _watched and event in EVENTS:
        for around, root, met in _watched:
            for path in arguments[:2]:
                if isinstance(path, str | bytes | os.PathLike):
                    real = os.path.realpath(os.fsdecode(path))
                    if real.startswith(around) and not f"{real}/".startswith(f"{root}/"):
                        met.append(f"{event} {os.fsdecode(path)!r}")


@pytest.fixture(scope="session")
def watch() -> Watch:
    """`with watch(root):` fails if a file or folder beside the store (below the parent of its folder) was opened,
    listed, made, changed or removed meanwhile, by whichever name."""
    sys.addaudithook(_note)  # stays for the life of the process, as audit hooks do

    @contextmanager
    def watched(root: Path) -> Iterator[None]:
        around, met = os.path.realpath(root.parent), []  # type: tuple[str, list[str]]
        before = _around(root)
        _watched.append((around, os.path.realpath(root), met))
        try:
            yield
        finally:
            _watched.pop()
        assert met == []
        assert _around(root) == before

    return watched


def _around(root: Path) -> dict[str, object]:
    """What lies beside a store: names, times, contents."""
    found: dict[str, object] = {}
    for path in sorted(root.parent.rglob("*")):
        if path != root and root not in path.parents:
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (status.st_mtime_ns, status.st_mode, status.st_size, content)
    return found
