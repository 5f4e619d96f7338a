"""The service's thread: what wakes it, what does not, and that it sleeps when there is nothing to do.

Times are short intervals that the thread waits for, or far longer ones that it must not wait for; the tests wait for
what comes of it.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.engine.services.flush_service import FlushService
from flightlog.store.disk.clock import SystemClock
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

NEVER_MS = 3_600_000
WaitUntil = Callable[[Callable[[], object]], None]


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


class CountingClock(SystemClock):
    """Counts how often it is asked: a service that does anything at all asks it."""

    def __init__(self) -> None:
        self.looks = 0

    def monotonic_s(self) -> float:
        self.looks += 1
        return super().monotonic_s()


def settings(**changes: Any) -> StoreSettings:
    sizes: dict[str, Any] = {"segment_size": 1 << 20, "queue_file_entries": 1000, "flush_interval_ms": 1}
    return StoreSettings(**(sizes | changes))


@pytest.fixture
def wait_until() -> WaitUntil:
    return process.wait_until


@pytest.fixture
def wait_until_still() -> WaitUntil:
    return process.wait_until_still


def wait_for_rounds(store: flightlog.Store, wait_until: WaitUntil) -> None:
    """Until a round has dispatched everything."""
    wait_until(lambda: inside.dispatcher(store).position == inside.log(store).visible)


@pytest.mark.parametrize("mode", FlushMode)
def test_it_sleeps_when_everything_is_flushed(
    mode: FlushMode, tmp_path: Path, assert_clean: AssertClean, wait_until: WaitUntil, wait_until_still: WaitUntil
) -> None:
    clock = CountingClock()
    every_byte = settings(
        flush_mode=mode,
        flush_least_pages=0,
        queue_flush_interval_ms=1,
        queue_flush_least_pages=0,
        index_flush_interval_ms=1,
    )
    with flightlog.open(tmp_path / "store", every_byte, clock=clock) as store:
        for _ in range(20):
            store.put(Message("t", b"x", keys="k"))
        wait_until(lambda: inside.next_round_s(store) == float("inf"))
        wait_until_still(lambda: clock.looks)  # for a hundred intervals, once the round that is under way has ended
        before = clock.looks
        store.put(Message("t", b"y"))
        wait_until(lambda: clock.looks > before)
    assert assert_clean(tmp_path / "store").records == 21


def test_it_sleeps_through_what_is_too_little(
    tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean, wait_until: WaitUntil, wait_until_still: WaitUntil
) -> None:
    clock = CountingClock()
    much = settings(flush_thorough_interval_ms=NEVER_MS, key_index=False)
    with flightlog.open(tmp_path / "store", much, disk=disk, clock=clock) as store:
        store.put(Message("t", b"1"))
        wait_until(lambda: disk.count("sync", "/checkpoint") == 2)  # of the open, and of the first round
        store.put(Message("t", b"2"))
        wait_for_rounds(store, wait_until)
        wait_until_still(lambda: (clock.looks, disk.count("sync")))
        assert inside.log(store).is_dirty()
    assert assert_clean(tmp_path / "store").records == 2


def test_what_was_too_little_is_synced_without_another_put(
    tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean, wait_until: WaitUntil
) -> None:
    with flightlog.open(
        tmp_path / "store",
        settings(flush_thorough_interval_ms=50, queue_flush_interval_ms=NEVER_MS, key_index=False),
        disk=disk,
    ) as store:
        store.put(Message("t", b"1"))
        wait_until(lambda: not inside.log(store).is_dirty())
        store.put(Message("t", b"2"))
        wait_until(lambda: not inside.log(store).is_dirty())
    assert assert_clean(tmp_path / "store").records == 2


def test_queues_follow_after_their_own_thorough_interval(
    tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean, wait_until: WaitUntil
) -> None:
    quick = settings(queue_flush_interval_ms=1, queue_flush_thorough_interval_ms=50, key_index=False)
    with flightlog.open(tmp_path / "store", quick, disk=disk) as store:
        for number in range(2, 5):  # one of the open
            store.put(Message("t", b"x"))
            wait_until(lambda: disk.count("sync", "/checkpoint") == number)
    assert assert_clean(tmp_path / "store").records == 3


def test_appends_do_not_wake_it_one_by_one(tmp_path: Path, assert_clean: AssertClean, wait_until: WaitUntil) -> None:
    clock = CountingClock()
    with flightlog.open(tmp_path / "store", settings(flush_interval_ms=60_000), clock=clock) as store:
        store.put(Message("t", b"first"))
        wait_until(lambda: clock.looks == 5)  # two of the open; woken, and back to sleep until the round
        for _ in range(500):
            store.put(Message("t", b"x"))
        time.sleep(0.05)
        assert clock.looks == 5
    assert assert_clean(tmp_path / "store").records == 501


def test_a_long_sync_does_not_make_the_next_one_follow_at_once(
    tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean, wait_until: WaitUntil
) -> None:
    """The interval runs from the end of a sync: a slow disk is not synced without a pause."""
    slow = settings(flush_interval_ms=100, flush_least_pages=0, queue_flush_interval_ms=NEVER_MS, key_index=False)
    with flightlog.open(tmp_path / "store", slow, disk=disk) as store:
        store.put(Message("t", b"1"))
        wait_until(lambda: disk.count("sync", "/checkpoint") == 2)  # of the open, and at the end of the first round
        disk.hold("sync", "/commitlog/")
        store.put(Message("t", b"2"))
        assert disk.held.acquire(timeout=60)
        store.put(Message("t", b"3"))
        time.sleep(0.15)  # longer than the interval
        syncs = disk.count("sync", "/commitlog/")
        released_s = time.monotonic()
        disk.release()
        wait_until(lambda: disk.count("sync", "/commitlog/") > syncs)
        assert time.monotonic() - released_s >= 0.09
    assert assert_clean(tmp_path / "store").records == 3


def test_what_lacks_room_is_tried_again_without_another_put(
    tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean, wait_until: WaitUntil
) -> None:
    path = tmp_path / "store"
    quiet = settings(flush_thorough_interval_ms=NEVER_MS, key_index=False)
    with flightlog.open(path, quiet, disk=disk) as store:
        store.put(Message("t", b"1"))
        wait_until(lambda: disk.count("sync", "/checkpoint") == 2)  # nothing else is due for a minute
        disk.fail("write", "/consumequeue/", errno.ENOSPC)
        store.put(Message("t", b"2"))
        wait_until(lambda: inside.dispatcher(store).is_stalled)
        disk.heal()
        wait_for_rounds(store, wait_until)
        wait_until(lambda: not inside.dispatcher(store).is_stalled)
    assert assert_clean(path).records == 2


@pytest.mark.parametrize("mode", FlushMode)
def test_there_is_no_other_thread(mode: FlushMode, tmp_path: Path, assert_clean: AssertClean) -> None:
    """Futures alone need more of them, and only under sync flush."""
    before = process.threads()
    with flightlog.open(tmp_path / "store", settings(flush_mode=mode)) as store:
        store.put(Message("t", b"1"))
        store.put_many([Message("t", b"2"), Message("t", b"3", wait_store_ok=False)])
        store.put(Message("t", b"4", wait_store_ok=False))
        store.flush()
        assert [thread.name for thread in process.threads() - before] == ["flightlog-flush"]
    assert process.threads() <= before
    assert assert_clean(tmp_path / "store").records == 4


def test_intervals_of_the_settings_are_milliseconds() -> None:
    store = cast("Any", SimpleNamespace(expect_puts=lambda notify: None))
    service = FlushService(StoreSettings(flush_interval_ms=250, clean_interval_ms=1500), CountingClock(), store)
    assert inside.flush_intervals_s(service) == (0.25, 1.5)
