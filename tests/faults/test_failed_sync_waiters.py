"""One sync that fails under everybody who waits: putters, batches, futures, flushes, and those who did not wait.

    caller                   before the failure        after it
    put, put_many, flush     wait                      SyncFailedError (whose sync it was) or StorePoisonedError
    put_async                a future                  StorePoisonedError in the future; raised by the next call
    put with WAIT=false      PUT_OK, not visible       not visible; StorePoisonedError from the next one
    reads                    go on                     go on, with what was durable

Until the store is opened again: then everything that was acknowledged is there.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, PutResult, PutStatus, StoreSettings
from flightlog.store.errors import DiskError, StorePoisonedError, SyncFailedError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import Acknowledged, AssertClean

SYNC = StoreSettings(
    segment_size=1 << 20,
    queue_file_entries=1000,
    flush_mode=FlushMode.SYNC,
    flush_interval_ms=3_600_000,
    sync_flush_timeout_ms=240_000,
)
THREADS, FUTURES, BEFORE = 16, 100, 20


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.002)


def reopens_with_what_was_acknowledged(
    path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    disk.heal()
    with flightlog.open_read_only(path) as view:
        acknowledged.check(view)
    with flightlog.open(path, SYNC, disk=disk) as again:
        acknowledged.check(again)
        acknowledged.note([again.put_async(message := acknowledged.message()).result(60)], (message,))
        there = acknowledged.check(again)
    assert assert_clean(path).records == there


@pytest.mark.parametrize("who_leads", ["put", "put_async", "put that does not wait"])
def test_every_waiter_gets_the_error(
    who_leads: str, tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    path, before = tmp_path / "store", process.threads()
    store = flightlog.open(path, SYNC, disk=disk)
    for _ in range(BEFORE):
        acknowledged.put(store, acknowledged.message())
    messages = [acknowledged.message() for _ in range(1 + 4 * THREADS + FUTURES)]
    offered = iter(messages)
    disk.hold("sync", "/commitlog/", error=errno.EIO)
    syncs = disk.count("sync", "/commitlog/")
    futures: list[Future[PutResult]] = []
    with ThreadPoolExecutor(2 * THREADS + 2) as pool:
        calls: list[Future[object]] = []
        if who_leads == "put":
            calls.append(pool.submit(store.put, next(offered)))
        elif who_leads == "put_async":
            futures.append(store.put_async(next(offered)))
        else:
            assert store.put(replace(next(offered), wait_store_ok=False)).status is PutStatus.PUT_OK
        assert disk.held.acquire(timeout=60)
        futures += [store.put_async(next(offered)) for _ in range(FUTURES)]
        calls += [pool.submit(store.put, next(offered)) for _ in range(THREADS)]
        calls += [
            pool.submit(store.put_many, [replace(next(offered), wait_store_ok=False), next(offered), next(offered)])
            for _ in range(THREADS - 1)
        ]
        calls.append(pool.submit(store.flush))
        wait_until(
            lambda: inside.log(store).queue_offsets["orders", 0] == BEFORE + 1 + THREADS + 3 * (THREADS - 1) + FUTURES
        )
        assert store.put(replace(next(offered), wait_store_ok=False)).status is PutStatus.PUT_OK
        assert not any(call.done() for call in calls) and not any(future.done() for future in futures)
        assert acknowledged.check(store) == BEFORE, "a message is visible before its sync"
        disk.release()
        errors = [call.exception(60) for call in calls]
        outcomes = [future.exception(60) for future in futures]
    assert {type(error) for error in outcomes} == {StorePoisonedError}
    assert all(
        isinstance(error, StorePoisonedError) and error.__cause__ is inside.log(store).poison for error in outcomes
    )
    assert len(set(map(id, outcomes))) == len(outcomes), "each raises an error of its own"
    assert isinstance(inside.log(store).poison, SyncFailedError) and "Input/output error" in str(outcomes[0])
    kinds = [type(error) for error in errors]
    assert kinds.count(SyncFailedError) == (1 if who_leads == "put" else 0), "only in the thread whose sync it was"
    assert set(kinds) - {SyncFailedError} == {StorePoisonedError}
    assert disk.count("sync", "/commitlog/") == syncs + 1, "a failed sync was tried again"

    for attempt in (
        lambda: store.put(acknowledged.message()),
        lambda: store.put(replace(acknowledged.message(), wait_store_ok=False)),
        lambda: store.put_many([acknowledged.message()] * 2),
        lambda: store.put_async(acknowledged.message()),
        lambda: store.flush(),
    ):
        with pytest.raises(StorePoisonedError, match="takes no more puts since.*Input/output error.*open it again"):
            attempt()
    assert acknowledged.check(store) == BEFORE, "a message that nobody acknowledged is visible"
    store.close()
    assert disk.count("sync", "/commitlog/") == syncs + 1
    assert not {"flightlog-sync", "flightlog-pending"} & set(process.names_since(before))
    assert (path / "abort").exists()
    reopens_with_what_was_acknowledged(path, disk, acknowledged, assert_clean)


def test_close_gives_the_error_to_futures_that_still_wait(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    store = flightlog.open(path, SYNC, disk=disk)
    acknowledged.put(store, acknowledged.message())
    disk.hold("sync", "/commitlog/", error=errno.EIO)
    futures = [store.put_async(acknowledged.message()) for _ in range(FUTURES)]
    assert disk.held.acquire(timeout=60)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(store.close)
        wait_until(lambda: store.is_closed)
        assert not closing.done() and not any(future.done() for future in futures)
        disk.release()
        assert closing.exception(60) is None, "a poisoned store is closed as one that was killed"
    assert all(future.done() for future in futures)
    assert {type(future.exception()) for future in futures} == {StorePoisonedError}
    reopens_with_what_was_acknowledged(path, disk, acknowledged, assert_clean)


def test_what_was_durable_before_is_acknowledged(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    """Futures on both sides of the failure: each says what is true of its own message."""
    path = tmp_path / "store"
    store = flightlog.open(path, SYNC, disk=disk)
    acknowledged.put(store, acknowledged.message())
    disk.sync_delay_s = 0.002
    disk.fail("sync", "/commitlog/", errno.EIO, skip=10)
    pairs = []
    with pytest.raises(StorePoisonedError):
        while True:
            message = acknowledged.message()
            pairs.append((store.put_async(message), message))
            time.sleep(0.0002)
    outcomes = [future.exception(60) for future, _ in pairs]
    durable = outcomes.count(None)
    assert durable and outcomes == [None] * durable + outcomes[durable:]
    assert {type(error) for error in outcomes[durable:]} <= {StorePoisonedError}
    for future, message in pairs[:durable]:
        acknowledged.note([future.result()], (message,))
    assert acknowledged.check(store) == 1 + durable
    store.close()
    reopens_with_what_was_acknowledged(path, disk, acknowledged, assert_clean)


def test_a_future_that_timed_out_before_the_failure_keeps_its_answer(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    store = flightlog.open(path, replace(SYNC, sync_flush_timeout_ms=30), disk=disk)
    acknowledged.put(store, acknowledged.message())
    disk.hold("sync", "/commitlog/", error=errno.EIO)
    early = store.put_async(acknowledged.message())
    assert early.result(60).status is PutStatus.FLUSH_DISK_TIMEOUT
    assert disk.held.acquire(timeout=60)  # the future's 30 ms can end before the sync begins
    disk.release()
    with pytest.raises(DiskError):
        for _ in range(1000):
            store.put_async(acknowledged.message()).result(60)
    assert early.result().status is PutStatus.FLUSH_DISK_TIMEOUT
    assert acknowledged.check(store) == 1
    store.close()
    reopens_with_what_was_acknowledged(path, disk, acknowledged, assert_clean)


def test_a_queue_that_fails_poisons_futures_too(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    """No sync of the log has failed, and none is begun any more."""
    path = tmp_path / "store"
    store = flightlog.open(path, SYNC, disk=disk)
    acknowledged.put(store, acknowledged.message())
    disk.hold("sync", "/commitlog/")
    first = acknowledged.message()
    under_way = store.put_async(first)
    assert disk.held.acquire(timeout=60)
    waiting = store.put_async(acknowledged.message())
    inside.maintenance(store).poison(DiskError("a queue could not be written"))
    disk.release()
    acknowledged.note([under_way.result(60)], (first,))
    with pytest.raises(StorePoisonedError, match="a queue could not be written"):
        waiting.result(60)
    store.close()
    reopens_with_what_was_acknowledged(path, disk, acknowledged, assert_clean)
