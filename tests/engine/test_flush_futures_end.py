"""How futures end: callbacks that misbehave or use the store, close, and handles that are dropped."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, PutResult, PutStatus, StoreSettings
from flightlog.store.errors import StoreClosedError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import process

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SYNC = StoreSettings.small(flush_mode=FlushMode.SYNC, flush_interval_ms=3_600_000, sync_flush_timeout_ms=240_000)


pytestmark = pytest.mark.usefixtures("nothing_stays")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


def open_store(path: Path, disk: FaultyDisk) -> flightlog.Store:
    """Its segment is made by a first message; whatever comes now waits for a sync that hangs."""
    store = flightlog.open(path, SYNC, disk=disk)
    store.put(Message("t", b"first"))
    disk.hold("sync", "/commitlog/")
    return store


def put_with(store: flightlog.Store, callback: Callable[[Future[PutResult]], object]) -> Future[PutResult]:
    future = store.put_async(Message("t", b"with a callback"))
    future.add_done_callback(callback)
    return future


def bodies(path: Path) -> int:
    with flightlog.open_read_only(path) as view:
        return len(list(view.read("t")))


def test_callbacks_that_raise_hold_up_nobody(
    path: Path, disk: FaultyDisk, assert_clean: AssertClean, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Future[PutResult]) -> None:
        raise ValueError("the callback's own")

    def leave(_: Future[PutResult]) -> None:
        sys.exit(3)

    with open_store(path, disk) as store, caplog.at_level(logging.ERROR):
        futures = [put_with(store, callback) for callback in (fail, leave, fail)]
        futures.append(store.put_async(Message("t", b"after them")))
        disk.release()
        assert {future.result(60).status for future in futures} == {PutStatus.PUT_OK}
        assert store.put_async(Message("t", b"later")).result(60).status is PutStatus.PUT_OK
    assert sum("callback" in record.getMessage() for record in caplog.records) == 3
    assert assert_clean(path).records == 6


def test_callbacks_may_use_the_store(path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    done = threading.Semaphore(0)
    found: list[object] = []

    def use(future: Future[PutResult]) -> None:
        found.append(store.get("t", 0, future.result().queue_offset).messages[0].body)
        found.append(store.put(Message("other", b"from a callback")).status)
        store.put_async(Message("other", b"and a future")).add_done_callback(lambda _: done.release())
        store.flush()
        found.append(store.put(Message("other", b"x", wait_store_ok=False)).status)

    with open_store(path, disk) as store:
        future = put_with(store, use)
        disk.release()
        future.result(60)
        assert done.acquire(timeout=60)
        assert found == [b"with a callback", PutStatus.PUT_OK, PutStatus.PUT_OK]
    assert assert_clean(path).records == 5


def test_close_completes_every_future(path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    store = open_store(path, disk)
    futures = [store.put_async(Message("t", b"%d" % i)) for i in range(100)]
    assert disk.held.acquire(timeout=60)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(store.close)
        process.wait_until(lambda: store.is_closed)
        with pytest.raises(StoreClosedError):
            store.put(Message("t", b"late"))
        assert not closing.done() and not any(future.done() for future in futures)
        disk.release()
        closing.result(60)
    assert all(future.done() for future in futures)
    assert [future.result().queue_offset for future in futures] == list(range(1, 101))
    assert {future.result().status for future in futures} == {PutStatus.PUT_OK}
    assert bodies(path) == 101
    assert assert_clean(path).last_writer.value == "flightlog, closed"


def test_futures_keep_their_deadline_while_close_waits(path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    settings = StoreSettings.small(flush_mode=FlushMode.SYNC, sync_flush_timeout_ms=50)
    store = flightlog.open(path, settings, disk=disk)
    store.put(Message("t", b"first"))
    disk.hold("sync", "/commitlog/")
    future = store.put_async(Message("t", b"second"))
    assert disk.held.acquire(timeout=60)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(store.close)
        assert future.result(60).status is PutStatus.FLUSH_DISK_TIMEOUT
        assert not closing.done()
        disk.release()
        closing.result(60)
    assert assert_clean(path).records == bodies(path) == 2


def test_a_callback_may_close(path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    store = open_store(path, disk)
    closed = threading.Semaphore(0)

    def close(_: Future[PutResult]) -> None:
        store.close()
        assert all(future.done() for future in futures[1:])
        closed.release()

    futures = [put_with(store, close)]
    futures += [store.put_async(Message("t", b"%d" % i)) for i in range(50)]
    disk.release()
    assert closed.acquire(timeout=60)
    assert {future.result(60).status for future in futures} == {PutStatus.PUT_OK}
    with pytest.raises(StoreClosedError):
        store.put(Message("t", b"late"))
    assert assert_clean(path).records == 52
    store.close()


def test_callbacks_and_others_close_at_the_same_time(path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    """The closer waits for the callback, which must not wait for the closer."""
    store = open_store(path, disk)
    is_closing = threading.Event()

    def close(_: Future[PutResult]) -> None:
        assert is_closing.wait(60)
        store.close()

    futures = [put_with(store, close) for _ in range(3)]
    with ThreadPoolExecutor(2) as pool:
        disk.release()
        closing = [pool.submit(store.close) for _ in range(2)]
        while not store.is_closed:
            time.sleep(0.001)
        is_closing.set()
        for closer in closing:
            closer.result(60)
    assert {future.result(60).status for future in futures} == {PutStatus.PUT_OK}
    assert assert_clean(path).records == 4


@pytest.mark.ci
def test_close_while_threads_put_futures(path: Path, assert_clean: AssertClean) -> None:
    """Every future that was handed out is done when its store is closed, and what it says is true."""
    stored = 0
    for round_ in range(10):
        store = flightlog.open(path, SYNC)
        futures: list[Future[PutResult]] = []
        start = threading.Barrier(5)

        def put(
            store: flightlog.Store = store,
            futures: list[Future[PutResult]] = futures,
            start: threading.Barrier = start,
        ) -> None:
            start.wait()
            try:
                while True:
                    futures.append(store.put_async(Message("t", b"x" * 50)))
            except StoreClosedError:
                pass

        putters = [threading.Thread(target=put) for _ in range(4)]
        for putter in putters:
            putter.start()
        start.wait()
        while len(futures) < round_:
            time.sleep(0.001)
        store.close()
        for putter in putters:
            putter.join()
        assert all(future.done() for future in futures)
        assert {future.result().status for future in futures} <= {PutStatus.PUT_OK}
        stored += len(futures)
        assert bodies(path) == stored
    assert assert_clean(path).records == stored


def test_a_dropped_handle_completes_its_futures(path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    store = open_store(path, disk)
    futures = [store.put_async(Message("t", b"%d" % i)) for i in range(20)]
    assert disk.held.acquire(timeout=60)
    disk.release()
    with pytest.warns(ResourceWarning, match="never closed"):
        del store
        gc.collect()
    assert {future.result(0).status for future in futures} == {PutStatus.PUT_OK}
    assert assert_clean(path).last_writer.value == "flightlog, closed"
    assert bodies(path) == 21


def test_a_handle_may_be_dropped_by_a_callback(path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    """Then the thread that runs the callback closes the store, after it."""
    others = process.threads()
    holder = [open_store(path, disk)]
    dropped = threading.Semaphore(0)

    def drop(_: Future[PutResult]) -> None:
        with pytest.warns(ResourceWarning, match="never closed"):
            holder.clear()
            gc.collect()
        dropped.release()

    futures = [put_with(holder[0], drop)]
    futures += [holder[0].put_async(Message("t", b"%d" % i)) for i in range(20)]
    threads = process.threads() - others
    assert len(threads) == 3
    disk.release()
    assert dropped.acquire(timeout=60)
    for thread in threads:
        thread.join(60)
    assert {future.result(60).status for future in futures} == {PutStatus.PUT_OK}
    assert assert_clean(path).last_writer.value == "flightlog, closed"
    assert bodies(path) == 22


@pytest.mark.parametrize("name", ["flightlog-flush", "flightlog-sync"])
def test_a_handle_may_be_collected_in_a_thread_of_its_own_store(
    name: str, path: Path, disk: FaultyDisk, assert_clean: AssertClean, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A garbage collection comes wherever it comes: here in the middle of a sync."""
    before = process.threads()
    holder = [open_store(path, disk)]
    disk.release()
    future = holder[0].put_async(Message("t", b"second"))
    assert future.result(60).status is PutStatus.PUT_OK
    [thread] = [thread for thread in process.threads() - before if thread.name == name]
    meet, is_back = disk.meet, threading.Event()

    def drop(operation: str, place: Path) -> None:
        if threading.current_thread() is thread and holder:
            assert is_back.wait(process.LIMIT_S), "a put that is under way holds the handle, too"
            with pytest.warns(ResourceWarning, match="never closed"):
                holder.clear()
                gc.collect()
        meet(operation, place)

    monkeypatch.setattr(disk, "meet", drop)
    if name == "flightlog-sync":
        future = holder[0].put_async(Message("t", b"third"))
        is_back.set()
        assert future.result(60).status is PutStatus.PUT_OK
    else:
        holder[0].put(Message("t", b"third", wait_store_ok=False))
        is_back.set()
    thread.join(60)
    assert not thread.is_alive()
    assert assert_clean(path).last_writer.value == "flightlog, closed"
    assert bodies(path) == 3


PROGRAM = """
import sys, flightlog
settings = flightlog.StoreSettings.small(flush_mode=flightlog.FlushMode.SYNC, sync_flush_timeout_ms=240_000)
store = flightlog.open(sys.argv[1], settings)
for i in range(200):
    store.put_async(flightlog.Message("t", b"%d" % i)).add_done_callback(lambda f: print(f.result().status.name))
"""


def test_a_program_that_ends_with_futures_pending(path: Path, assert_clean: AssertClean) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=process.LIMIT_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["PUT_OK"] * 200
    assert assert_clean(path).last_writer.value == "flightlog, closed"
    assert bodies(path) == 200
