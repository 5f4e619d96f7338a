"""`async for message in store.subscribe(...)`: no thread waits, and who is cancelled loses and leaves nothing."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings, Subscription
from flightlog.consume.deliver.async_subscription import LoopWakeUp
from flightlog.consume.deliver.process_queue import FlowLimits
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.consume.store import Store

LIMIT_S = 240.0
Opened = Callable[[], "Store"]


def put(store: Store, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        store.put(Message("orders", b"%d" % number, queue_id=None))


def wake_ups(store: Store, subscription: Subscription) -> int:
    """How many wait, by what wakes them."""
    return inside.waiting_for_arrivals(store) + inside.waiting_for_messages(subscription)


async def turns(count: int) -> None:
    """Let all others have so many turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until_waiting(store: Store, subscription: Subscription, count: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while wake_ups(store, subscription) < 2 * count:
            await asyncio.sleep(0)


def test_messages_come_as_they_are_put(opened: Opened) -> None:
    store = opened()
    put(store, 20)
    found: list[int] = []

    async def consume() -> None:
        async with store.subscribe("orders", "g") as messages:
            async for message in messages:
                found.append(int(message.body))
                assert message.ack()
                if len(found) in (20, 25):  # all that are there: the next is waited for
                    threading.Thread(target=put, args=(store, 5, len(found))).start()
                if len(found) == 30:
                    return

    asyncio.run(asyncio.wait_for(consume(), LIMIT_S))
    assert Counter(found) == Counter(range(30))
    assert sum(store.group_offsets("g", "orders").values()) == 30, "written when it was closed"


@pytest.mark.parametrize("mode", list(flightlog.FlushMode))
def test_a_put_wakes_who_waits(tmp_path: Path, mode: flightlog.FlushMode) -> None:
    """With rounds of the flush service that never come, only the arrival itself can have woken it."""
    settings = StoreSettings.small(flush_mode=mode, flush_interval_ms=3_600_000)

    async def consume(store: Store) -> None:
        subscription = store.subscribe("orders", "g")
        for number in range(20):
            waiting = asyncio.ensure_future(subscription.receive_async())
            await until_waiting(store, subscription, 1)
            await asyncio.to_thread(put, store, 1, number)
            message = await waiting
            assert message is not None and int(message.body) == number and message.ack()

    with flightlog.open(tmp_path, settings) as store:
        asyncio.run(asyncio.wait_for(consume(store), LIMIT_S))
    with flightlog.open_read_only(tmp_path) as view:
        assert view.verify().is_clean


def test_hundreds_wait_without_a_thread_and_without_looking(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flightlog.consume.deliver.subscription.WAIT_S", LIMIT_S)  # else who waits looks then
    store = opened()
    subscription = store.subscribe("orders", "g")
    looks = Counter[str]()
    poll = subscription.poll

    def counted(count: int = 1) -> object:
        looks["poll"] += 1
        return poll(count)

    async def consume() -> None:
        first = asyncio.ensure_future(subscription.receive_async())
        await until_waiting(store, subscription, 1)
        threads = set(threading.enumerate())
        others = [asyncio.ensure_future(subscription.receive_async()) for _ in range(299)]
        await until_waiting(store, subscription, 300)
        begun = {thread.name for thread in set(threading.enumerate()) - threads}
        assert not [name for name in begun if name.startswith(("flightlog", "asyncio"))]
        monkeypatch.setattr(subscription, "poll", counted)
        await turns(1_000)
        assert not looks["poll"], "they wait"
        put(store, 300)
        received = await asyncio.gather(first, *others)
        assert Counter(int(message.body) for message in received if message) == Counter(range(300))
        assert not wake_ups(store, subscription)

    asyncio.run(asyncio.wait_for(consume(), LIMIT_S))


def test_who_is_cancelled_has_taken_nothing_and_leaves_nothing_behind(opened: Opened) -> None:
    store = opened()
    subscription = store.subscribe("orders", "g")

    async def consume() -> None:
        tasks = asyncio.all_tasks()
        waiting = asyncio.ensure_future(subscription.receive_async())
        await until_waiting(store, subscription, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not wake_ups(store, subscription)
        put(store, 1)
        message = await subscription.receive_async()
        assert message is not None and message.body == b"0" and message.ack()
        assert asyncio.all_tasks() == tasks

    asyncio.run(asyncio.wait_for(consume(), LIMIT_S))
    assert subscription.receive(0) is None


def test_cancelled_at_any_moment_no_message_is_lost(opened: Opened) -> None:
    """One that had been read, and not come out, would never be acknowledged, nor come again."""
    store = opened()
    rng = random.Random(int(os.environ["FLIGHTLOG_SEED"]))
    count = 150
    subscription = store.subscribe("orders", "g")
    found: list[int] = []

    async def work() -> None:
        async for message in subscription:
            found.append(int(message.body))
            message.ack()

    async def consume() -> None:
        for number in range(count):
            tasks = [asyncio.ensure_future(work()) for _ in range(rng.randint(1, 3))]
            await turns(rng.randint(0, 6))
            putting = asyncio.ensure_future(asyncio.to_thread(put, store, 1, number))
            await turns(rng.randint(0, 6))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert not wake_ups(store, subscription)
            await putting
        last = asyncio.ensure_future(work())
        async with asyncio.timeout(LIMIT_S):
            while len(found) < count:
                await asyncio.sleep(0)
        last.cancel()

    asyncio.run(asyncio.wait_for(consume(), LIMIT_S))
    assert Counter(found) == Counter(range(count))
    assert not sum(subscription.lag().values())


def test_a_backlog_leaves_turns_to_others(opened: Opened) -> None:
    store = opened()
    put(store, 100)
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            ticks.append(len(ticks))
            await asyncio.sleep(0)

    async def consume() -> None:
        ticking = asyncio.ensure_future(tick())
        async for message in store.subscribe("orders", "g", idle_s=0):
            message.ack()
        ticking.cancel()

    asyncio.run(asyncio.wait_for(consume(), LIMIT_S))
    assert len(ticks) >= 100


def test_it_ends_when_nothing_comes_and_when_it_or_the_store_is_closed(opened: Opened) -> None:
    store = opened()
    put(store, 3)

    async def consume() -> None:
        idle = store.subscribe("orders", "idle", idle_s=0.01)
        assert len([message.ack() async for message in idle]) == 3
        closed, others = store.subscribe("orders", "closed"), store.subscribe("orders", "others")
        tasks = [asyncio.ensure_future(drain(each)) for each in (closed, others)]
        await until_waiting(store, closed, 1)
        await until_waiting(store, others, 1)
        closed.close()
        assert await tasks[0] == 3
        await asyncio.to_thread(store.close)
        assert await tasks[1] == 3
        assert await closed.receive_async() is None

    async def drain(subscription: Subscription) -> int:
        return len([message.ack() async for message in subscription])

    asyncio.run(asyncio.wait_for(consume(), LIMIT_S))


def test_what_is_given_back_and_what_waits_for_an_acknowledgement_wakes_too(opened: Opened) -> None:
    store = opened()
    store.put(Message("t", b"0"))
    store.put(Message("t", b"1"))

    async def consume() -> None:
        subscription = store.subscribe("t", "g", limits=FlowLimits(max_count=1))
        first = await subscription.receive_async()
        assert first is not None
        waiting = asyncio.ensure_future(subscription.receive_async())
        await turns(20)
        assert first.retry_later(0.01) and await waiting is first and first.attempt == 2
        waiting = asyncio.ensure_future(subscription.receive_async())
        await turns(20)
        assert not waiting.done() and first.ack()
        second = await waiting
        assert second is not None and second.body == b"1"

    asyncio.run(asyncio.wait_for(consume(), LIMIT_S))


def test_in_order(opened: Opened) -> None:
    store = opened()
    put(store, 40)
    worked_off: list[tuple[int, int]] = []

    async def work(subscription: Subscription) -> None:
        async for message in subscription:
            await turns(int(message.body) % 5)
            worked_off.append((message.queue_id, message.queue_offset))
            message.ack()

    async def consume() -> None:
        subscription = store.subscribe("orders", "g", ordered=True)
        tasks = [asyncio.ensure_future(work(subscription)) for _ in range(4)]
        async with asyncio.timeout(LIMIT_S):
            while len(worked_off) < 40:
                await asyncio.sleep(0)
        subscription.close()
        await asyncio.gather(*tasks)

    asyncio.run(asyncio.wait_for(consume(), LIMIT_S))
    for queue_id in range(4):
        assert [offset for each, offset in worked_off if each == queue_id] == [*range(10)]


def test_a_wake_up_of_a_loop_that_is_over_is_notified_in_vain() -> None:
    async def make() -> LoopWakeUp:
        return LoopWakeUp()

    asyncio.run(make()).notify()
