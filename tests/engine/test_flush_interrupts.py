"""KeyboardInterrupt while futures are pending: close may be called again, and every future is completed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, Message, PutStatus, StoreSettings
from flightlog.engine.services.wake_up import WakeUp
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import process
from flightlog.tests.support.interrupts import InterruptAt

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

SYNC = StoreSettings.small(flush_mode=FlushMode.SYNC, flush_interval_ms=3_600_000, sync_flush_timeout_ms=240_000)


pytestmark = pytest.mark.usefixtures("nothing_stays")


@pytest.mark.ci
def test_interrupted_close_with_futures_pending(
    tmp_path: Path, scale: Scale, interrupt_at: type[InterruptAt], assert_clean: AssertClean
) -> None:
    step = scale.pick(ci=17, full=1)
    path, points, stored = tmp_path / "store", 1, 0
    while True:
        store = flightlog.open(path, SYNC)
        futures = [store.put_async(Message("t", b"%d" % points)) for _ in range(5)]
        with interrupt_at(points) as point:
            store.close()
        if point.fired:
            store.close()
        assert all(future.done() for future in futures), point.place
        assert {future.result().status for future in futures} == {PutStatus.PUT_OK}
        stored += len(futures)
        if not point.fired:
            break
        points += step
    assert points > 300
    assert assert_clean(path).records == stored


@pytest.mark.ci
def test_the_first_future_of_a_store_interrupted(
    tmp_path: Path, scale: Scale, interrupt_at: type[InterruptAt], assert_clean: AssertClean
) -> None:
    """The one whose call starts the threads: whatever is left half done, none runs twice, and the next call works."""
    step = scale.pick(ci=3, full=1)
    before = process.threads()
    points = 1
    while True:
        path = tmp_path / f"store-{points}"
        with flightlog.open(path, SYNC) as store:
            store.put(Message("t", b"first"))
            with interrupt_at(points) as point:
                store.put_async(Message("t", b"interrupted"))
            assert store.put_async(Message("t", b"last")).result(60).status is PutStatus.PUT_OK
            assert len(list(store.read("t"))) in (2, 3)
            # Where the start was interrupted there is a second one, which ends at once.
            process.wait_until(lambda: process.names_since(before).count("flightlog-sync") == 1)
            process.wait_until(lambda: process.names_since(before).count("flightlog-pending") == 1)
        process.wait_until(lambda: process.threads() <= before)
        assert_clean(path)
        if not point.fired:
            break
        points += step
    assert points > 50


def test_a_close_that_is_interrupted_in_its_wait_for_a_sync(
    tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    """By real signals; the sync goes on without the closer, and completes the futures."""
    path = tmp_path / "store"
    store = flightlog.open(path, SYNC, disk=disk)
    store.put(Message("t", b"first"))
    disk.hold("sync", "/commitlog/")
    future = store.put_async(Message("t", b"second"))
    assert disk.held.acquire(timeout=60)
    main = threading.get_ident()
    for _ in range(3):
        came = threading.Event()

        def interrupt_the_wait(number: int, frame: FrameType | None) -> None:
            # Nowhere else: before it, more than the close would end; in a callback of the garbage collector, nothing.
            if frame is not None and frame.f_code is WakeUp.wait.__code__:
                came.set()
                raise KeyboardInterrupt

        def send_until_it_came() -> None:
            while not came.wait(0.01):
                signal.pthread_kill(main, signal.SIGINT)

        before = signal.signal(signal.SIGINT, interrupt_the_wait)
        sender = threading.Thread(target=send_until_it_came)
        sender.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                store.close()
        finally:
            came.set()
            sender.join()
            signal.signal(signal.SIGINT, before)
        assert store.is_closed and not future.done()
    disk.release()
    assert future.result(60).status is PutStatus.PUT_OK
    store.close()
    assert assert_clean(path).records == 2


def test_an_interrupted_sync_refuses_nobodys_put(
    tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that syncs for all is interrupted; another one puts after each step that it takes from there."""
    path, puts = tmp_path / "store", 0
    with flightlog.open(path, SYNC, disk=disk) as store, ThreadPoolExecutor(1) as others:
        store.put(Message("t", b"first"))
        meet = disk.meet

        def interrupt(operation: str, place: Path) -> None:
            if operation == "sync" and threading.current_thread() is threading.main_thread():
                sys.settrace(look)
                for frame in frames(sys._getframe()):
                    frame.f_trace = look
                raise KeyboardInterrupt
            meet(operation, place)

        def look(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal puts
            if event == "line" and frame.f_code.co_filename.endswith(("commit_log.py", "poison.py")):
                message = Message("t", b"beside", wait_store_ok=False)
                assert others.submit(store.put, message).result(60).status is PutStatus.PUT_OK
                puts += 1
            return look

        with monkeypatch.context() as patch:
            patch.setattr(disk, "meet", interrupt)
            try:
                with pytest.raises(KeyboardInterrupt):
                    store.put(Message("t", b"interrupted"))
            finally:
                sys.settrace(None)
        assert puts > 5
        store.put(Message("t", b"last"))
        assert len(list(store.read("t"))) == 3 + puts
    assert assert_clean(path).records == 3 + puts


def frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
