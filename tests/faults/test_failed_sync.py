"""A sync that fails: nothing is acknowledged after it, no sync is tried again, reads go on until the store is
reopened."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.store.errors import DiskError, SegmentRemovedError, StorePoisonedError, SyncFailedError
from flightlog.store.log import poison
from flightlog.store.log.poison import failed_sync_behind
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import Acknowledged, AssertClean


def settings(mode: FlushMode, **changes: int) -> StoreSettings:
    sizes: dict[str, Any] = {
        "segment_size": 16 << 10,
        "queue_file_entries": 50,
        "flush_interval_ms": 5,
        "queue_flush_interval_ms": 10,
        "flush_least_pages": 0,
        "queue_flush_least_pages": 0,
        "sync_flush_timeout_ms": 240_000,
    }
    return StoreSettings(flush_mode=mode, **(sizes | changes))


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.002)


def refuses_and_recovers(
    store: flightlog.Store, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    """A poisoned store refuses puts and flushes by name, goes on reading, and is whole after it was opened again."""
    syncs = disk.count("sync", "commitlog/")
    for attempt in (lambda: store.put(acknowledged.message()), lambda: store.put_many([acknowledged.message()] * 2)):
        with pytest.raises(StorePoisonedError, match="takes no more puts since.*Input/output error.*open it again"):
            attempt()
    disk.heal()  # the disk is well again; the store must not believe it
    with pytest.raises(StorePoisonedError):
        store.put(acknowledged.message())
    with pytest.raises(StorePoisonedError):
        store.flush()
    acknowledged.check(store)
    assert store.verify().is_clean
    store.close()
    assert disk.count("sync", "commitlog/") == syncs, "a failed sync was tried again"
    with flightlog.open_read_only(store.path) as view:
        acknowledged.check(view)
    with flightlog.open(store.path) as again:
        acknowledged.check(again)
        acknowledged.put(again, acknowledged.message())
        there = acknowledged.check(again)
    assert assert_clean(store.path).records == there


@pytest.mark.parametrize("skip", [0, 3])
def test_the_put_whose_sync_fails_is_not_acknowledged(
    skip: int, kernel: str, tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    quiet = settings(FlushMode.SYNC, flush_interval_ms=60_000)
    store = flightlog.open(tmp_path / "store", quiet, disk=disk)
    acknowledged.put(store, acknowledged.message())
    disk.fail("sync", "commitlog/", errno.EIO, skip=skip)
    for _ in range(skip):
        acknowledged.put(store, acknowledged.message())
    with pytest.raises(SyncFailedError) as caught:
        store.put(acknowledged.message())
    for part in ("store/commitlog/", "Input/output error", "no sync is tried again", "open it again"):
        assert part in str(caught.value)
    assert acknowledged.check(store) == 1 + skip, "an unsynced message is visible"
    refuses_and_recovers(store, disk, acknowledged, assert_clean)


def test_under_async_flush_the_next_put_hears_of_it(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    store = flightlog.open(tmp_path / "store", settings(FlushMode.ASYNC), disk=disk)
    disk.fail("sync", "commitlog/", errno.EIO, skip=1)  # the one before makes the segment
    acknowledged.put(store, acknowledged.message())
    wait_until(lambda: inside.log(store).poison)
    refuses_and_recovers(store, disk, acknowledged, assert_clean)


@pytest.mark.parametrize("operation", ["sync", "sync_folder"])
@pytest.mark.parametrize("mode", FlushMode)
def test_a_segment_whose_name_may_not_be_durable_takes_no_message(
    mode: FlushMode,
    operation: str,
    tmp_path: Path,
    disk: FaultyDisk,
    acknowledged: Acknowledged,
    assert_clean: AssertClean,
) -> None:
    """Else a power cut could take the whole segment away, with acknowledged messages in it."""
    store = flightlog.open(tmp_path / "store", settings(mode, flush_interval_ms=60_000), disk=disk)
    acknowledged.put(store, acknowledged.message(size=9000))
    disk.fail(operation, "store/commitlog", errno.EIO)
    with pytest.raises(SyncFailedError, match=r"store/commitlog.*Input/output error"):
        store.put(acknowledged.message(size=9000))
    assert acknowledged.check(store) == 1
    refuses_and_recovers(store, disk, acknowledged, assert_clean)


def test_a_segment_that_is_gone_fails_its_sync_by_name(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    """A taken over store opens its last segment at the first append; a disk that died meanwhile may not know it."""
    path = tmp_path / "store"
    with flightlog.open(path, settings(FlushMode.SYNC)) as store:
        acknowledged.put(store, acknowledged.message())
    store = flightlog.open(path, settings(FlushMode.SYNC, flush_interval_ms=60_000), disk=disk)
    disk.fail("*", "store/commitlog", errno.ENOENT)
    with pytest.raises(DiskError, match=r"store/commitlog"):
        store.put(acknowledged.message())
    disk.heal()
    store.close()
    with flightlog.open(path) as again:
        acknowledged.put(again, acknowledged.message())
        there = acknowledged.check(again)
    assert assert_clean(path).records == there


def test_a_store_whose_folder_is_gone(tmp_path: Path, acknowledged: Acknowledged, assert_clean: AssertClean) -> None:
    """Moved away under an open store: the next put finds it, none after it is taken, and nothing is lost."""
    path, moved = tmp_path / "store", tmp_path / "moved"
    store = flightlog.open(path, settings(FlushMode.SYNC, flush_interval_ms=60_000))
    acknowledged.put(store, acknowledged.message())
    path.rename(moved)
    with pytest.raises(SegmentRemovedError, match="store/commitlog.*moved away"):
        acknowledged.put(store, acknowledged.message(size=3000))
    with pytest.raises(StorePoisonedError, match="moved away"):
        acknowledged.put(store, acknowledged.message(size=3000))
    store.close()
    with flightlog.open(moved) as again:
        acknowledged.put(again, acknowledged.message())
        there = acknowledged.check(again)
    assert assert_clean(moved).records == there


DERIVED = [
    ("sync", "consumequeue/"),
    ("sync", "store/checkpoint"),
    ("sync", "flightlog/progress"),
    ("sync", "flightlog/seals"),
    ("sync_folder", "flightlog/seals"),
    ("write", "consumequeue/"),
    ("write", "store/checkpoint"),
]


@pytest.mark.parametrize("place", DERIVED, ids=" ".join)
@pytest.mark.parametrize("mode", FlushMode)
def test_a_derived_file_that_fails_stops_puts_and_not_reads(
    mode: FlushMode,
    place: tuple[str, str],
    tmp_path: Path,
    disk: FaultyDisk,
    acknowledged: Acknowledged,
    assert_clean: AssertClean,
) -> None:
    """What a disk does to one file it may do to all."""
    store = flightlog.open(tmp_path / "store", settings(mode), disk=disk)
    disk.fail(*place, errno.EIO)
    deadline = time.monotonic() + 240
    with pytest.raises(StorePoisonedError):
        while time.monotonic() < deadline:
            acknowledged.put(store, acknowledged.message(size=500))
            time.sleep(0.0005)
    if place != ("write", "consumequeue/"):  # what could not be dispatched cannot be read by this handle
        acknowledged.check(store)
    disk.heal()
    store.close()
    with flightlog.open_read_only(store.path) as view:
        acknowledged.check(view)
    with flightlog.open(store.path) as again:
        there = acknowledged.check(again)
    assert assert_clean(store.path).records == there


def test_of_many_threads_only_those_with_a_successful_sync_are_acknowledged(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    store = flightlog.open(tmp_path / "store", settings(FlushMode.SYNC, flush_interval_ms=60_000), disk=disk)
    disk.sync_delay_s = 0.002
    disk.fail("sync", "commitlog/", errno.EIO, skip=20)
    outcomes: list[type[BaseException]] = []
    lock = threading.Lock()

    def put() -> None:
        while True:
            with lock:
                message = acknowledged.message()
            try:
                results = [store.put(message)]
            except DiskError as e:
                with lock:
                    outcomes.append(type(e))
                return
            with lock:
                acknowledged.note(results, (message,))

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes, key=str) == [StorePoisonedError] * 7 + [SyncFailedError]
    for place, _ in acknowledged.bodies.items():
        assert place[2] < store.queues()["orders", 0][1]
    assert acknowledged.check(store) == len(acknowledged.bodies), "a message that nobody acknowledged is visible"
    refuses_and_recovers(store, disk, acknowledged, assert_clean)


@pytest.mark.parametrize("operation", ["sync", "sync_folder"])
@pytest.mark.parametrize("part", ["commitlog", "store/abort", "store", "flightlog/progress"])
def test_a_sync_that_fails_while_opening(
    part: str,
    operation: str,
    tmp_path: Path,
    disk: FaultyDisk,
    acknowledged: Acknowledged,
    assert_clean: AssertClean,
    leave_as_killed: Callable[[flightlog.Store], None],
) -> None:
    path = tmp_path / "store"
    store = flightlog.open(path, settings(FlushMode.ASYNC))
    acknowledged.put(store, acknowledged.message(), acknowledged.message())
    leave_as_killed(store)
    fault = disk.fail(operation, part, errno.EIO)
    try:
        flightlog.open(path, disk=disk).close()
    except SyncFailedError as e:
        assert "Input/output error" in str(e)
    else:
        assert not fault.hits
    with flightlog.open_read_only(path) as view:
        assert acknowledged.check(view) == 2
    disk.heal()
    with flightlog.open(path, disk=disk) as store:
        assert acknowledged.check(store) == 2
    assert assert_clean(path).records == 2


def test_a_failed_sync_that_is_noted_while_an_interrupt_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    """One thread asks whether an interrupt came upon a failed sync; the other one's sync fails before it is through."""
    is_judging, is_noted, is_judged = threading.Event(), threading.Event(), threading.Event()
    find, tell = failed_sync_behind, poison.Poison._tell

    def find_slowly(error: BaseException, outer: BaseException | None) -> BaseException | None:
        if isinstance(error, KeyboardInterrupt):
            is_judging.set()
            assert is_noted.wait(60)
        return find(error, outer)

    def tell_late(found: poison.Poison) -> None:
        if threading.current_thread() is failing:
            is_noted.set()
            assert is_judged.wait(60)
        tell(found)

    monkeypatch.setattr(poison, "failed_sync_behind", find_slowly)
    monkeypatch.setattr(poison.Poison, "_tell", tell_late)
    path = tmp_path / "store"
    store = flightlog.open(path, settings(FlushMode.ASYNC))
    store.put(Message("t", b"before"))
    failure = SyncFailedError(path, "Input/output error")
    failing = threading.Thread(target=inside.poison(store).judge, args=(failure, None))
    interrupted = threading.Thread(target=inside.poison(store).judge, args=(KeyboardInterrupt(), None))
    interrupted.start()
    assert is_judging.wait(60)
    failing.start()
    interrupted.join(60)
    is_judged.set()
    failing.join(60)
    assert inside.log(store).poison is failure
    with pytest.raises(StorePoisonedError):
        store.put(Message("t", b"after"))
    store.close()
    assert_clean(path)
