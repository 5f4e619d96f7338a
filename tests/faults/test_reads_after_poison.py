"""Reads after the disk has failed a writer: what is visible is found, also where it had not been dispatched yet."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.store.errors import DiskError, StorePoisonedError, SyncFailedError
from flightlog.testing.faulty_disk import FaultyDisk

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

COUNT = 100
CHANGES = ("create", "link", "write", "resize", "allocate", "sync", "sync_folder", "sync_all", "rename", "make_folder")
SETTINGS = StoreSettings(
    flush_mode=FlushMode.SYNC, segment_size=1 << 20, flush_interval_ms=3_600_000, sync_flush_timeout_ms=240_000
)
"""The service never comes round: reads alone dispatch."""


def message(number: int) -> Message:
    return Message("t", b"%d" % number, queue_id=0, keys="k")


def bodies(store: flightlog.Store | flightlog.ReadOnlyStore) -> list[int]:
    return [int(found.body) for found in store.read("t", 0)]


def turn_read_only(disk: FaultyDisk) -> None:
    """As ext4 does with `errors=remount-ro`: nothing can be changed from here on."""
    for operation in CHANGES:
        disk.fail(operation, "", errno.EROFS)


def is_whole_when_opened_again(path: Path, count: int, assert_clean: AssertClean) -> None:
    with flightlog.open_read_only(path) as view:
        assert bodies(view) == list(range(count))
    with flightlog.open(path, SETTINGS) as store:
        assert bodies(store) == list(range(count))
        assert len(store.query("t", "k", max_count=2 * count).messages) == count
    assert_clean(path)


@pytest.mark.parametrize("dispatched", [0, 40])
def test_a_read_only_remount_hides_no_durable_message(
    dispatched: int, kernel: str, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    store = flightlog.open(tmp_path / "s", SETTINGS, disk=disk)
    for number in range(dispatched):
        store.put(message(number))
    assert bodies(store) == list(range(dispatched))
    begun = store.read("t", 0)
    first = [int(next(begun).body) for _ in range(min(dispatched, 1))]
    for number in range(dispatched, COUNT):
        store.put(message(number))
    turn_read_only(disk)
    assert bodies(store) == list(range(COUNT))
    if dispatched:
        assert first + [int(found.body) for found in begun] == list(range(COUNT)), "an iterator that had begun before"
    assert store.get("t", 0, COUNT - 1).messages[0].body == b"%d" % (COUNT - 1)
    assert store.queues() == {("t", 0): (0, COUNT)}
    with pytest.raises(DiskError, match="Read-only file system"):
        store.query("t", "k")
    with pytest.raises(StorePoisonedError):
        store.put(message(COUNT))
    assert store.verify().is_clean
    assert bodies(store) == list(range(COUNT))
    store.close()
    disk.heal()
    is_whole_when_opened_again(tmp_path / "s", COUNT, assert_clean)


@pytest.mark.parametrize("operation", ["create", "make_folder", "resize", "allocate", "write"])
@pytest.mark.parametrize("skip", range(4))
def test_a_fault_at_each_call_of_a_dispatch_hides_nothing(
    operation: str, skip: int, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    """Each call fails once, in the middle of what is written of several queues."""
    settings = StoreSettings(
        flush_mode=FlushMode.SYNC, segment_size=1 << 20, flush_interval_ms=3_600_000, queue_file_entries=10
    )
    path = tmp_path / "s"
    store = flightlog.open(path, settings, disk=disk)
    for number in range(COUNT):
        store.put(Message("t", b"%d" % number, queue_id=number % 3))
    disk.fail(operation, "consumequeue", errno.EIO, skip=skip, times=1)

    def read(reader: flightlog.Store | flightlog.ReadOnlyStore) -> list[int]:
        return sorted(int(found.body) for key in reader.queues() for found in reader.read(*key))

    assert read(store) == list(range(COUNT))
    assert store.verify().is_clean and read(store) == list(range(COUNT))
    store.close()
    disk.heal()
    with flightlog.open_read_only(path) as view:
        assert read(view) == list(range(COUNT))
    with flightlog.open(path, settings) as again:
        assert read(again) == list(range(COUNT))
    assert_clean(path)


def test_inner_batches_are_found_too(kernel: str, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    path = tmp_path / "s"
    store = flightlog.open(path, SETTINGS, disk=disk)
    store.put_batch([Message("b", b"%d" % number, queue_id=0) for number in range(5)])
    turn_read_only(disk)
    assert [found.body for found in store.read("b", 0)] == [b"0", b"1", b"2", b"3", b"4"]
    store.close()
    disk.heal()
    with flightlog.open(path, SETTINGS) as again:
        assert len(list(again.read("b", 0))) == 5
    assert_clean(path)


def test_a_failed_sync_shows_what_was_durable_and_no_more(
    kernel: str, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    path = tmp_path / "s"
    store = flightlog.open(path, SETTINGS, disk=disk)
    for number in range(COUNT):
        store.put(message(number))
    turn_read_only(disk)
    disk.fail("sync", "commitlog/", errno.EIO)
    with pytest.raises((SyncFailedError, StorePoisonedError)):
        store.put(message(COUNT))
    assert bodies(store) == list(range(COUNT)), "the last one is not durable"
    with flightlog.open_read_only(path) as view:
        assert bodies(view) == list(range(COUNT)), "nor is it for a view beside the poisoned writer"
    store.close()
    disk.heal()
    with flightlog.open(path, SETTINGS) as again:
        assert bodies(again) == list(range(COUNT + 1)), "whole, and made durable by the recovery"
    assert_clean(path)


@pytest.mark.parametrize("ask", [lambda store: bodies(store), lambda store: store.get("t", 0, 0), lambda s: s.queues()])
def test_a_log_that_cannot_be_read_is_an_error_and_no_short_answer(
    ask: Callable[[flightlog.Store], object],
    tmp_path: Path,
    disk: FaultyDisk,
    monkeypatch: pytest.MonkeyPatch,
    assert_clean: AssertClean,
) -> None:
    path = tmp_path / "s"
    store = flightlog.open(path, SETTINGS, disk=disk)
    for number in range(COUNT):
        store.put(message(number))

    def fail(*arguments: object, **how: object) -> None:
        raise DiskError(f"{path}: reading: Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("flightlog.engine.dispatch.dispatcher.dispatch_range", fail)
        for _ in range(2):
            with pytest.raises(DiskError, match="Input/output error"):
                ask(store)
    assert bodies(store) == list(range(COUNT)), "the next read dispatches it"
    store.close()
    is_whole_when_opened_again(path, COUNT, assert_clean)
