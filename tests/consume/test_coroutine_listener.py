"""A listener may be a coroutine function: it is awaited in one event loop, and acknowledges as any other listener."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from flightlog import Consumer, Message, ReceivedMessage
from flightlog.consume.deliver.back_off import BackOff
from flightlog.store.errors import UsageError
from flightlog.tests.support import process

if TYPE_CHECKING:
    from flightlog.consume.store import Store

LIMIT_S = 240.0
AT_ONCE = BackOff(0.0, 0.0)
Opened = Callable[[], "Store"]


def put(store: Store, count: int) -> None:
    for number in range(count):
        store.put(Message("orders", b"%d" % number, queue_id=None))


class Seen:
    """Ends when so many messages were taken."""

    def __init__(self, expected: int) -> None:
        self.expected, self.numbers, self.loops = expected, Counter[int](), set[asyncio.AbstractEventLoop]()
        self.all_there = threading.Event()

    async def __call__(self, given: ReceivedMessage | list[ReceivedMessage]) -> None:
        await asyncio.sleep(0)
        self.loops.add(asyncio.get_running_loop())
        for message in given if isinstance(given, list) else [given]:
            self.numbers[int(message.body)] += 1
        if len(self.numbers) == self.expected:
            self.all_there.set()


@pytest.mark.parametrize(("batch_size", "ordered"), [(1, False), (7, False), (1, True), (7, True)])
def test_every_message_is_awaited_once_and_acknowledged(opened: Opened, batch_size: int, ordered: bool) -> None:
    before = process.threads()
    store, seen = opened(), Seen(40)
    put(store, 40)
    with Consumer(store, "orders", "g", seen, batch_size=batch_size, ordered=ordered):
        assert seen.all_there.wait(LIMIT_S)
    assert seen.numbers == Counter(range(40)) and len(seen.loops) == 1
    assert sum(store.group_offsets("g", "orders").values()) == 40
    assert not process.consumer_threads(before)
    assert all(loop.is_closed() for loop in seen.loops)


def test_as_many_at_once_as_there_are_threads(opened: Opened) -> None:
    store, count, done = opened(), 0, threading.Event()
    put(store, 16)
    here: asyncio.Event | None = None

    async def listener(message: ReceivedMessage) -> None:
        nonlocal count, here
        here = here or asyncio.Event()
        count += 1
        if count == 16:
            here.set()
        async with asyncio.timeout(LIMIT_S):
            await here.wait()
        done.set()

    with Consumer(store, "orders", "g", listener, threads=16) as consumer:
        assert done.wait(LIMIT_S)
    assert consumer.statistics().consumed == 16


def test_one_that_fails_has_its_messages_again(opened: Opened) -> None:
    store, done = opened(), threading.Event()
    attempts: list[int] = []
    put(store, 1)

    async def listener(prefix: str, message: ReceivedMessage) -> str:
        attempts.append(message.attempt)
        await asyncio.sleep(0)
        if message.attempt == 1:
            raise ValueError("not yet")
        if message.attempt == 2:
            raise asyncio.CancelledError
        if message.attempt == 3:
            return "RECONSUME_LATER"
        done.set()
        return f"{prefix}_SUCCESS"

    with Consumer(store, "orders", "g", functools.partial(listener, "CONSUME"), back_off=AT_ONCE) as consumer:
        assert done.wait(LIMIT_S)
    statistics = consumer.statistics()
    assert attempts == [1, 2, 3, 4]
    assert (statistics.consumed, statistics.failed) == (1, 3)
    assert sorted(cause.split()[0] for cause in statistics.causes) == [
        "CancelledError",
        "RECONSUME_LATER",
        "ValueError",
    ]


def test_async_with_runs_it_in_the_loop_that_is_there(opened: Opened) -> None:
    before = process.threads()
    store, seen = opened(), Seen(20)
    put(store, 20)

    async def main() -> None:
        async with Consumer(store, "orders", "g", seen) as consumer:
            assert len([name for name in process.consumer_threads(before) if name.endswith("-loop")]) == 0
            await asyncio.to_thread(seen.all_there.wait, LIMIT_S)
            with pytest.raises(UsageError, match="to_thread"):
                consumer.close()
        assert seen.loops == {asyncio.get_running_loop()}

    asyncio.run(main())
    assert sum(store.group_offsets("g", "orders").values()) == 20
    assert not process.consumer_threads(before)


def test_async_with_and_a_listener_that_is_a_function(opened: Opened) -> None:
    store, done = opened(), threading.Event()
    put(store, 1)

    async def main() -> None:
        async with Consumer(store, "orders", "g", lambda _: done.set()):
            await asyncio.to_thread(done.wait, LIMIT_S)

    asyncio.run(main())
    assert sum(store.group_offsets("g", "orders").values()) == 1


def test_close_waits_for_what_is_awaited(opened: Opened) -> None:
    before = process.threads()
    store, is_called = opened(), threading.Event()
    put(store, 1)

    async def listener(message: ReceivedMessage) -> None:
        is_called.set()
        await asyncio.to_thread(is_closing.wait, LIMIT_S)

    is_closing = threading.Event()
    consumer = Consumer(store, "orders", "g", listener).start()
    assert is_called.wait(LIMIT_S)
    assert not consumer.close(0), "its coroutine goes on, and its loop with it"
    [loop] = [thread for thread in process.threads() - before if thread.name.endswith("-loop")]
    is_closing.set()
    loop.join(LIMIT_S)
    assert not loop.is_alive()
    assert consumer.close()
    with Consumer(store, "orders", "g", listener):
        pass
    assert sum(store.group_offsets("g", "orders").values()) == 1


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_a_listener_that_closes_its_consumer(opened: Opened, in_a_thread: bool) -> None:
    store, done = opened(), threading.Event()
    answers: list[object] = []
    put(store, 1)

    async def listener(message: ReceivedMessage) -> None:
        try:
            answers.append(await asyncio.to_thread(consumer.close, LIMIT_S) if in_a_thread else consumer.close())
        except UsageError as e:
            answers.append(e)
        done.set()

    consumer = Consumer(store, "orders", "g", listener)
    consumer.start()  # not before the listener has its name: a call that fails comes again 10 s later
    assert done.wait(LIMIT_S)
    assert consumer.close(LIMIT_S)
    assert answers == [True] if in_a_thread else isinstance(answers[0], UsageError)
