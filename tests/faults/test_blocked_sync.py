"""A disk that takes its time: one sync serves all who wait for it, and who waits too long is told so."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, PutStatus, StoreSettings
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import Acknowledged, AssertClean

    WaitUntil = Callable[[Callable[[], object]], None]

THREADS = 8
SYNC = StoreSettings(
    segment_size=1 << 20,
    queue_file_entries=1000,
    flush_mode=FlushMode.SYNC,
    flush_interval_ms=60_000,
    sync_flush_timeout_ms=240_000,
)


def test_one_sync_serves_all_who_wait(
    kernel: str, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean, wait_until: WaitUntil
) -> None:
    """Eight threads put while a sync hangs: the next one serves all that it did not cover."""
    rounds = 10
    with flightlog.open(tmp_path / "store", SYNC, disk=disk) as store:
        store.put(Message("orders", b"the segment is made"))
        with ThreadPoolExecutor(THREADS) as pool:
            for i in range(rounds):
                before, appended = disk.count("sync", "commitlog/"), 1 + (i + 1) * THREADS
                disk.hold("sync", "commitlog/", times=1)
                puts = [pool.submit(store.put, Message("orders", b"%d" % i)) for _ in range(THREADS)]
                wait_until(lambda: inside.log(store).queue_offsets["orders", 0] == appended)
                disk.release()
                assert {put.result(60).status for put in puts} == {PutStatus.PUT_OK}
                assert 1 <= disk.count("sync", "commitlog/") - before <= 2
    assert assert_clean(tmp_path / "store").records == THREADS * rounds + 1


def test_a_put_of_many_takes_one_sync(tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", SYNC, disk=disk) as store:
        store.put(Message("orders", b"the segment is made"))
        before = disk.count("sync", "commitlog/")
        store.put_many([Message("orders", b"%d" % i) for i in range(500)])
        assert disk.count("sync", "commitlog/") == before + 1
    assert assert_clean(tmp_path / "store").records == 501


def test_a_put_that_waits_too_long_is_stored_once_and_says_so(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    settings = StoreSettings(
        segment_size=1 << 20, flush_mode=FlushMode.SYNC, flush_interval_ms=60_000, sync_flush_timeout_ms=50
    )
    with flightlog.open(path, settings, disk=disk) as store, ThreadPoolExecutor(1) as pool:
        acknowledged.put(store, acknowledged.message())
        disk.hold("sync", "commitlog/")
        leading_message = acknowledged.message()
        leading = pool.submit(store.put, leading_message)
        disk.held.acquire(timeout=60)
        begin = time.monotonic()
        late = [store.put(acknowledged.message()), *store.put_many([acknowledged.message(), acknowledged.message()])]
        assert time.monotonic() - begin >= 0.1
        assert [result.status for result in late] == [PutStatus.FLUSH_DISK_TIMEOUT] * 3
        assert [result.queue_offset for result in late] == [2, 3, 4]
        assert acknowledged.check(store) == 1, "visible before it is durable"
        assert not leading.done()
        disk.release()
        acknowledged.note([leading.result(60)], (leading_message,))
        assert [m.queue_offset for m in store.read("orders")][:2] == [0, 1]
        store.flush()
        assert acknowledged.check(store) == 5
        acknowledged.put(store, acknowledged.message())
        assert acknowledged.check(store) == 6
    assert assert_clean(path).records == 6


def test_what_timed_out_becomes_durable_without_another_put(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean, wait_until: WaitUntil
) -> None:
    path = tmp_path / "store"
    settings = StoreSettings(
        segment_size=1 << 20,
        flush_mode=FlushMode.SYNC,
        flush_interval_ms=5,
        queue_flush_interval_ms=10,
        sync_flush_timeout_ms=20,
    )
    with flightlog.open(path, settings, disk=disk) as store:
        disk.hold("sync", "commitlog/0", times=2)  # of the new segment, then of the first put
        with ThreadPoolExecutor(2) as pool:
            leading = pool.submit(store.put, acknowledged.message())
            disk.held.acquire(timeout=60)
            disk.release()
            leading.result(60)
            disk.hold("sync", "commitlog/0", times=1)
            leading = pool.submit(store.put, acknowledged.message())
            disk.held.acquire(timeout=60)
            assert store.put(acknowledged.message()).status is PutStatus.FLUSH_DISK_TIMEOUT
            disk.release()
            leading.result(60)
        wait_until(lambda: store.queues()["orders", 0][1] == 3)
        assert acknowledged.check(store) == 3
    assert assert_clean(path).records == 3


def test_reads_and_async_puts_do_not_wait_for_a_sync(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    settings = StoreSettings(segment_size=1 << 20, queue_file_entries=1000, flush_interval_ms=5, flush_least_pages=0)
    with flightlog.open(path, settings, disk=disk) as store:
        acknowledged.put(store, acknowledged.message())
        disk.hold("sync", "commitlog/")
        acknowledged.put(store, acknowledged.message())
        assert disk.held.acquire(timeout=60)
        for _ in range(100):
            acknowledged.put(store, acknowledged.message())
        assert acknowledged.check(store) == 102
        disk.release()
    assert assert_clean(path).records == 102


@pytest.mark.parametrize("mode", FlushMode)
def test_close_waits_for_the_sync_that_is_under_way(
    mode: FlushMode,
    tmp_path: Path,
    disk: FaultyDisk,
    acknowledged: Acknowledged,
    assert_clean: AssertClean,
    wait_until: WaitUntil,
) -> None:
    path = tmp_path / "store"
    settings = StoreSettings(
        segment_size=1 << 20,
        flush_mode=mode,
        flush_interval_ms=5,
        flush_least_pages=0,
        sync_flush_timeout_ms=240_000,
    )
    threads = process.threads()
    store = flightlog.open(path, settings, disk=disk)
    acknowledged.put(store, acknowledged.message())
    disk.hold("sync", "commitlog/")
    with ThreadPoolExecutor(2) as pool:
        message = acknowledged.message()
        put = pool.submit(store.put, message)
        assert disk.held.acquire(timeout=60)
        closing = pool.submit(store.close)
        wait_until(lambda: store.is_closed)
        assert not closing.done() and (path / "abort").exists()
        with pytest.raises(flightlog.FlightlogError, match="this process"):
            flightlog.open(path)
        disk.release()
        closing.result(60)
        acknowledged.note([put.result(60)], (message,))
    assert process.threads() <= threads
    with flightlog.open_read_only(path) as view:
        assert acknowledged.check(view) == 2
    assert assert_clean(path).last_writer.value == "flightlog, closed"
