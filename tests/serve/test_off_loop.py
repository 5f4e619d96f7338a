"""What other threads complete, awaited in the event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from flightlog.serve.brokers.off_loop import OffLoop


@pytest.fixture
def off_loop() -> Iterator[OffLoop]:
    found = OffLoop()
    yield found
    found.close()


async def until_waiting(off_loop: OffLoop, futures: list[Future[int]]) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(off_loop.outcome(future)) for future in futures]
    await asyncio.sleep(0)
    return tasks


def in_a_thread(work: Callable[[], Any]) -> None:
    """Return once it has ended: the loop, in the caller's thread, stands still."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def complete(futures: list[Future[int]]) -> None:
    for number, future in enumerate(futures):
        future.set_result(number)


def failed() -> Future[int]:
    future = Future[int]()
    future.set_exception(OSError("full"))
    return future


def test_futures_that_one_sync_completes_wake_the_loop_once(off_loop: OffLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    futures = [Future[int]() for _ in range(100)]
    wakes: list[asyncio.Handle] = []

    async def program() -> list[int]:
        loop, tasks = asyncio.get_running_loop(), await until_waiting(off_loop, futures)
        woken = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda call: wakes.append(woken(call)))
        in_a_thread(lambda: complete(futures[:60]))
        first = await asyncio.gather(*tasks[:60])
        in_a_thread(lambda: complete(futures[60:]))
        return [*first, *await asyncio.gather(*tasks[60:])]

    assert asyncio.run(program()) == [*range(60), *range(40)]
    assert len(wakes) == 2


def test_an_error_is_raised_where_it_is_awaited(off_loop: OffLoop) -> None:
    futures = [Future[int](), Future[int]()]

    async def program() -> list[int | BaseException]:
        tasks = await until_waiting(off_loop, futures)
        in_a_thread(lambda: futures[0].set_exception(OSError("full")))
        in_a_thread(lambda: futures[1].set_result(1))
        return await asyncio.gather(*tasks, return_exceptions=True)

    failed, done = asyncio.run(program())
    assert isinstance(failed, OSError)
    assert done == 1


def test_what_a_failed_call_had_is_free_at_once(off_loop: OffLoop) -> None:
    """Not at the next collection of circles: it may be a request of megabytes."""

    class Asked:
        """A request."""

    async def call() -> weakref.ref[Asked]:
        request = Asked()
        try:
            await off_loop.outcome(failed())
        except OSError:
            return weakref.ref(request)
        raise AssertionError("it failed")

    gc.disable()
    try:
        assert asyncio.run(call())() is None
    finally:
        gc.enable()


def test_what_is_done_already_is_there_at_once(off_loop: OffLoop) -> None:
    future = Future[int]()
    future.set_result(7)
    assert asyncio.run(off_loop.outcome(future)) == 7


def test_a_cancelled_wait_cancels_what_has_not_begun(off_loop: OffLoop) -> None:
    futures = [Future[int](), Future[int]()]
    futures[1].set_running_or_notify_cancel()  # as a message that is in a log

    async def program() -> None:
        tasks = await until_waiting(off_loop, futures)
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in found)
        in_a_thread(lambda: futures[1].set_result(1))

    asyncio.run(program())
    assert futures[0].cancelled()
    assert futures[1].result() == 1


def test_what_ends_after_its_loop_is_no_error(off_loop: OffLoop, caplog: pytest.LogCaptureFixture) -> None:
    late, next_one = Future[int](), Future[int]()
    late.set_running_or_notify_cancel()

    async def give_up() -> None:
        (task,) = await until_waiting(off_loop, [late])
        task.cancel()

    async def go_on() -> int:
        (task,) = await until_waiting(off_loop, [next_one])
        in_a_thread(lambda: next_one.set_result(2))
        return await task

    asyncio.run(give_up())
    late.set_result(1)  # an error of a callback would be logged, and raised nowhere
    assert not [record for record in caplog.records if record.name == "concurrent.futures"]
    assert asyncio.run(go_on()) == 2
