"""A disk that takes its time: one sync serves all who wait for it, and who waits too long is told so."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, PutStatus, StoreSettings

if TYPE_CHECKING:
    from tests.faults.conftest import Acknowledged, AssertClean
    from tests.support.disks import FaultyDisk

THREADS = 8
SYNC = StoreSettings(segment_size=1 << 20, queue_file_entries=1000, flush_mode=FlushMode.SYNC, flush_interval_ms=60_000)


def test_one_sync_serves_all_who_wait(kernel: str, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    """Eight threads on a sync of 10 ms: while one half waits for a sync, the other half fills the next one."""
    puts = 10
    with flightlog.open(tmp_path / "store", SYNC, disk=disk) as store:
        store.put(Message("orders", b"the segment is made"))
        before = disk.count("sync", "commitlog/")
        disk.sync_delay_s = 0.01

        def put(me: int) -> None:
            for i in range(puts):
                assert store.put(Message("orders", b"%d %d" % (me, i))).status is PutStatus.PUT_OK

        begin = time.monotonic()
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(put, range(THREADS)))
        took_s = time.monotonic() - begin
        syncs = disk.count("sync", "commitlog/") - before
        disk.sync_delay_s = 0.0
        print(f"{THREADS * puts} puts, {syncs} syncs, {took_s * 1000:.0f} ms")
        assert puts <= syncs <= THREADS * puts * 2 // 5
    assert assert_clean(tmp_path / "store").records == THREADS * puts + 1


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
        disk.held.acquire()
        begin = time.monotonic()
        late = [store.put(acknowledged.message()), *store.put_many([acknowledged.message(), acknowledged.message()])]
        assert 0.1 <= time.monotonic() - begin < 5
        assert [result.status for result in late] == [PutStatus.FLUSH_DISK_TIMEOUT] * 3
        assert [result.queue_offset for result in late] == [2, 3, 4]
        assert acknowledged.check(store) == 1, "visible before it is durable"
        assert not leading.done()
        disk.release()
        acknowledged.note([leading.result(10)], (leading_message,))
        assert [m.queue_offset for m in store.read("orders")][:2] == [0, 1]
        store.flush()
        assert acknowledged.check(store) == 5
        acknowledged.put(store, acknowledged.message())
        assert acknowledged.check(store) == 6
    assert assert_clean(path).records == 6


def test_what_timed_out_becomes_durable_without_another_put(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
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
            disk.held.acquire()
            disk.release()
            leading.result(10)
            disk.hold("sync", "commitlog/0", times=1)
            leading = pool.submit(store.put, acknowledged.message())
            disk.held.acquire()
            assert store.put(acknowledged.message()).status is PutStatus.FLUSH_DISK_TIMEOUT
            disk.release()
            leading.result(10)
        deadline = time.monotonic() + 10
        while store.queues()["orders", 0][1] < 3:
            assert time.monotonic() < deadline, "nobody synced it"
            time.sleep(0.005)
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
        assert disk.held.acquire(timeout=10)
        begin = time.monotonic()
        for _ in range(100):
            acknowledged.put(store, acknowledged.message())
        assert acknowledged.check(store) == 102
        assert time.monotonic() - begin < 5
        disk.release()
    assert assert_clean(path).records == 102


@pytest.mark.parametrize("mode", FlushMode)
def test_close_waits_for_the_sync_that_is_under_way(
    mode: FlushMode, tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    settings = StoreSettings(segment_size=1 << 20, flush_mode=mode, flush_interval_ms=5, flush_least_pages=0)
    store = flightlog.open(path, settings, disk=disk)
    acknowledged.put(store, acknowledged.message())
    disk.hold("sync", "commitlog/")
    with ThreadPoolExecutor(2) as pool:
        message = acknowledged.message()
        put = pool.submit(store.put, message)
        assert disk.held.acquire(timeout=10)
        closing = pool.submit(store.close)
        time.sleep(0.1)
        assert not closing.done() and (path / "abort").exists()
        with pytest.raises(flightlog.FlightlogError, match="this process"):
            flightlog.open(path)
        disk.release()
        closing.result(10)
        acknowledged.note([put.result(10)], (message,))
    assert threading.active_count() == 1
    with flightlog.open_read_only(path) as view:
        assert acknowledged.check(view) == 2
    assert assert_clean(path).last_writer.value == "flightlog, closed"
