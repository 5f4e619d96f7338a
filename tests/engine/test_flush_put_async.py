"""put_async: futures that one sync completes, that keep their deadline while a sync hangs, and that close waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, Message, PutResult, PutStatus, StoreSettings
from flightlog.store.errors import BodyTooLargeError, InvalidMessageError, StoreClosedError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

NEVER_MS = 3_600_000


pytestmark = pytest.mark.usefixtures("nothing_stays")


def settings(**changes: Any) -> StoreSettings:
    usual: dict[str, Any] = {"flush_interval_ms": NEVER_MS, "sync_flush_timeout_ms": 240_000}
    return StoreSettings.small(flush_mode=FlushMode.SYNC, **usual | changes)


@pytest.fixture
def store(tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> Iterator[flightlog.Store]:
    """Under sync flush, its segment made by a first message."""
    with flightlog.open(tmp_path / "store", settings(), disk=disk) as store:
        store.put(Message("t", b"first"))
        yield store
        disk.release()
    assert_clean(tmp_path / "store")


def messages(count: int) -> list[Message]:
    return [Message("t", b"%d" % i) for i in range(count)]


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.001)


def log_syncs(disk: FaultyDisk) -> int:
    return disk.count("sync", "/commitlog/")


def test_under_async_flush_it_is_done_when_it_is_returned(tmp_path: Path, assert_clean: AssertClean) -> None:
    before = process.threads()
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        futures = [store.put_async(message) for message in messages(10)]
        assert all(future.done() for future in futures)
        assert [future.result().queue_offset for future in futures] == list(range(10))
        assert len(list(store.read("t"))) == 10
        assert [thread.name for thread in process.threads() - before] == ["flightlog-flush"]
    assert assert_clean(tmp_path / "store").records == 10


def test_it_is_durable_and_visible_once_it_is_done(store: flightlog.Store, disk: FaultyDisk) -> None:
    before = process.threads()
    disk.hold("sync", "/commitlog/")
    future = store.put_async(Message("t", b"second"))
    assert process.names_since(before) == ["flightlog-pending", "flightlog-sync"]
    assert disk.held.acquire(timeout=60)
    assert not future.done() and store.queues()["t", 0] == (0, 1)
    disk.release()
    result = future.result(60)
    assert (result.status, result.queue_offset) == (PutStatus.PUT_OK, 1)
    assert inside.log(store).flushed >= result.physical_offset + result.size
    assert [message.body for message in store.read("t")] == [b"first", b"second"]


def test_it_cannot_be_cancelled(store: flightlog.Store, disk: FaultyDisk) -> None:
    disk.hold("sync", "/commitlog/")
    future = store.put_async(Message("t", b"second"))
    assert future.running()
    assert not future.cancel()
    disk.release()
    assert future.result(60).status is PutStatus.PUT_OK
    assert not future.cancel() and not future.cancelled()


def test_one_sync_serves_a_hundred_futures_and_the_puts_beside_them(store: flightlog.Store, disk: FaultyDisk) -> None:
    disk.hold("sync", "/commitlog/")
    before = log_syncs(disk)
    futures = [store.put_async(Message("t", b"the sync that is under way"))]
    assert disk.held.acquire(timeout=60)
    futures += [store.put_async(message) for message in messages(100)]
    with ThreadPoolExecutor(8) as pool:
        puts = [pool.submit(store.put, message) for message in messages(8)]
        wait_until(lambda: inside.log(store).queue_offsets["t", 0] == 1 + 1 + 100 + 8)
        assert not any(future.done() for future in (*futures, *puts))
        disk.release()
        results = [future.result(60) for future in (*futures, *puts)]
    assert log_syncs(disk) == before + 2
    assert {result.status for result in results} == {PutStatus.PUT_OK}
    assert sorted(result.queue_offset for result in results) == list(range(1, 110))


def test_an_ordinary_put_that_syncs_completes_them_too(store: flightlog.Store, disk: FaultyDisk) -> None:
    """Whoever leads: here the thread of a put, while the service waits behind it."""
    disk.hold("sync", "/commitlog/")
    with ThreadPoolExecutor(1) as pool:
        leading = pool.submit(store.put, Message("t", b"leads"))
        assert disk.held.acquire(timeout=60)
        future = store.put_async(Message("t", b"follows"))
        assert not future.done()
        disk.release()
        assert leading.result(60).queue_offset == 1
        assert future.result(60).queue_offset == 2


def test_they_are_completed_in_the_order_of_the_log(store: flightlog.Store) -> None:
    done: list[int] = []
    futures = []
    for message in messages(300):
        future = store.put_async(message)
        future.add_done_callback(lambda future: done.append(future.result().queue_offset))
        futures.append(future)
    wait(futures, 60)
    wait_until(lambda: len(done) == 300)
    assert sorted(done) == list(range(1, 301))
    # A callback that comes too late for the thread that completes runs where it is added, so they may cross; each
    # thread's own come in order.
    assert [future.result().queue_offset for future in futures] == list(range(1, 301))


def test_many_threads_put_and_wait(tmp_path: Path, kernel: str, assert_clean: AssertClean) -> None:
    puts, threads = 200, 8
    with flightlog.open(tmp_path / "store", settings(segment_size=64 << 10)) as store:

        def put(me: int) -> list[PutResult]:
            results: list[PutResult] = []
            line: list[Future[PutResult]] = []
            for i in range(puts):
                line.append(store.put_async(Message(f"own-{me}", b"%d" % i * 20)))
                if i % 7 == me % 7:
                    results += [future.result(60) for future in line]
                    line.clear()
                    assert store.queues()[f"own-{me}", 0] == (0, i + 1)
            return results + [future.result(60) for future in line]

        with ThreadPoolExecutor(threads) as pool:
            for results in pool.map(put, range(threads)):
                assert [result.queue_offset for result in results] == list(range(puts))
                assert {result.status for result in results} == {PutStatus.PUT_OK}
    assert assert_clean(tmp_path / "store").records == threads * puts


def test_a_future_keeps_its_deadline_while_a_sync_hangs(
    tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, settings(sync_flush_timeout_ms=60), disk=disk) as store:
        store.put(Message("t", b"first"))
        disk.hold("sync", "/commitlog/")
        begin = time.monotonic()
        futures = [store.put_async(message) for message in messages(20)]
        results = [future.result(60) for future in futures]
        assert time.monotonic() - begin >= 0.06
        assert disk.held.acquire(timeout=60)
        assert {result.status for result in results} == {PutStatus.FLUSH_DISK_TIMEOUT}
        assert [result.queue_offset for result in results] == list(range(1, 21))
        assert store.queues()["t", 0] == (0, 1), "visible before it is durable"
        late = store.put_async(Message("t", b"late")).result(60)  # the line was empty meanwhile
        assert late.status is PutStatus.FLUSH_DISK_TIMEOUT
        disk.release()
        wait_until(lambda: store.queues()["t", 0] == (0, 22))  # without another put
        last = 1
        while store.put_async(Message("t", b"last")).result(60).status is not PutStatus.PUT_OK:
            last += 1  # a busy machine may take longer than the deadline
            assert last < 1000
        bodies = [b"first", *(b"%d" % i for i in range(20)), b"late", *([b"last"] * last)]
        assert [m.body for m in store.read("t")] == bodies
    assert assert_clean(path).records == 22 + last


def test_what_cannot_be_appended_is_raised_by_the_call(store: flightlog.Store, disk: FaultyDisk) -> None:
    with pytest.raises(BodyTooLargeError):
        store.put_async(Message("t", bytes(5 << 20)))
    with pytest.raises(InvalidMessageError):
        store.put_async(Message("", b""))
    with pytest.raises(InvalidMessageError, match="delay level"):
        store.put_async(Message("t", b"", properties={"DELAY": "3s"}))
    assert inside.log(store).queue_offsets["t", 0] == 1
    store.close()
    with pytest.raises(StoreClosedError):
        store.put_async(Message("t", b"late"))


def test_a_system_without_threads_refuses_before_the_append(
    store: flightlog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            store.put_async(Message("t", b"second"))
    assert inside.log(store).queue_offsets["t", 0] == 1
    assert store.put_async(Message("t", b"second")).result(60).queue_offset == 1
