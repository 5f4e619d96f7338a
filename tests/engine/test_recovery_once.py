"""What recovery does to have read the log once, and to have the disk at work meanwhile: the same comes of it."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.open import log_sync, recovery
from flightlog.index.queue.queue_table import CONSUME_QUEUE_FOLDER
from flightlog.store.errors import DiskError
from flightlog.store.log import log_reader
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import process
from flightlog.tools.counting_disk import CountingDisk

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

    Copy = Callable[[Path, Path], Path]

NEVER_MS = 3_600_000
COUNT = 120
LIGHT = "INNER_MULTI_DISPATCH"


def unflushed(**changes: Any) -> StoreSettings:
    """Everything since the store was made is to be recovered."""
    sizes: dict[str, Any] = {"segment_size": 1 << 20, "queue_file_entries": 50, "index_slots": 50, "index_entries": 100}
    never = dict.fromkeys(
        ("flush_interval_ms", "queue_flush_interval_ms", "index_flush_interval_ms", "flush_thorough_interval_ms"),
        NEVER_MS,
    )
    return StoreSettings(**(sizes | never | changes))


def put_all_kinds(store: flightlog.Store, with_batches: bool) -> None:
    for i in range(COUNT):
        properties = {LIGHT: "%LMQ%one,%LMQ%two"} if i % 7 == 3 else {}
        store.put(
            Message("t", b"%d" % i + bytes(i * 7), tags="tag", keys=f"k{i}", queue_id=i % 3, properties=properties)
        )
        if i % 10 == 5:
            store.put(Message("late", b"%d" % i, delay_level=18))
        if with_batches and i % 40 == 20:
            store.put_batch([Message("b", b"%d" % n) for n in range(5)])


def queue_files(path: Path) -> dict[str, bytes]:
    folder = path / CONSUME_QUEUE_FOLDER
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("extended", [False, True], ids=["plain queues", "extended queues"])
@pytest.mark.parametrize("with_batches", [False, True], ids=["no batch", "batches"])
@pytest.mark.parametrize("most", [0, COUNT // 2, recovery.MOST_KEPT], ids=["none", "half", "all"])
def test_queues_made_from_what_was_noted_are_those_of_the_log(
    most: int,
    with_batches: bool,
    extended: bool,
    tmp_path: Path,
    copy_as_killed: Copy,
    monkeypatch: pytest.MonkeyPatch,
    assert_clean: AssertClean,
) -> None:
    monkeypatch.setattr(recovery, "MOST_KEPT", most)
    monkeypatch.setattr(log_reader, "READ_SIZE", 4096)
    settings = unflushed(queue_extension=extended)
    with flightlog.open(tmp_path / "live", settings) as store:
        put_all_kinds(store, with_batches)
        ends = store.queues()
        killed = copy_as_killed(tmp_path / "live", tmp_path / "killed")
    shutil.rmtree(killed / CONSUME_QUEUE_FOLDER)
    with flightlog.open_read_only(killed) as view:
        assert view.queues() == ends
    with flightlog.open(killed, settings) as store:
        assert store.queues() == ends
        assert [found.body for found in store.query("t", "k7").messages] == [b"7" + bytes(49)]
    assert queue_files(killed) == queue_files(tmp_path / "live")
    report = assert_clean(killed)
    assert report.index_entries == COUNT


def test_a_recovery_reads_the_log_once(tmp_path: Path, copy_as_killed: Copy, assert_clean: AssertClean) -> None:
    """A view once; who opens it for writing once more, to write again what may be in the page cache alone."""
    settings = unflushed()
    with flightlog.open(tmp_path / "live", settings) as store:
        for i in range(60):
            store.put(Message("t", bytes(100_000), keys=f"k{i}", queue_id=i % 3))
        store.queues()
        killed = copy_as_killed(tmp_path / "live", tmp_path / "killed")
    disk = CountingDisk()
    with flightlog.open_read_only(killed, disk=disk) as view:
        log_size = view.end_physical_offset
        assert log_size <= disk.read_size < 1.25 * log_size
    disk = CountingDisk(may_write=True)
    with flightlog.open(killed, settings, disk=disk) as store:
        assert store.recovery_report.records_scanned == 60
        assert 2 * log_size <= disk.read_size < 2.25 * log_size
    assert_clean(killed)


@pytest.mark.parametrize("much", [-1, log_sync.MUCH], ids=["a thread", "no thread"])
@pytest.mark.parametrize("operation", ["write", "sync"])
def test_what_keeps_the_log_from_the_disk_ends_the_open(
    operation: str,
    much: int,
    tmp_path: Path,
    copy_as_killed: Copy,
    monkeypatch: pytest.MonkeyPatch,
    assert_clean: AssertClean,
) -> None:
    """The log is written again beside all else: who opens the store is told of what went wrong there, and nothing is
    left running."""
    monkeypatch.setattr(log_sync, "MUCH", much)
    settings = unflushed()
    with flightlog.open(tmp_path / "live", settings) as store:
        put_all_kinds(store, with_batches=True)
        ends = store.queues()
        killed = copy_as_killed(tmp_path / "live", tmp_path / "killed")
    disk, before = FaultyDisk(), process.threads()
    fault = disk.fail(operation, "commitlog", errno.EIO)
    with pytest.raises(DiskError, match="commitlog"):
        flightlog.open(killed, settings, disk=disk)
    assert fault.hits and process.threads() <= before
    disk.heal()
    with flightlog.open(killed, settings, disk=disk) as store:
        assert store.queues() == ends
    assert_clean(killed)
