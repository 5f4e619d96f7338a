"""Sends that do not wait in the call, as a future and as a coroutine, and the timeout of a send."""

from __future__ import annotations

import asyncio
import errno
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import pytest

from flightlog import (
    FlushMode,
    InvalidMessageError,
    Message,
    Producer,
    PutStatus,
    SendResult,
    SendTimeoutError,
    Store,
    StoreClosedError,
    StorePoisonedError,
    StoreSettings,
)
from flightlog.store.errors import DiskError, DiskFullError, SyncFailedError
from flightlog.testing.faulty_disk import FaultyDisk

if TYPE_CHECKING:
    from flightlog.tests.produce.conftest import ManualClock, Stores

TOPIC = "orders"
LIMIT_S = 240.0
SYNC = StoreSettings(
    segment_size=1 << 20,
    queue_file_entries=1000,
    flush_mode=FlushMode.SYNC,
    flush_interval_ms=3_600_000,
    sync_flush_timeout_ms=240_000,
)
SMALL_STEPS = StoreSettings(segment_size=16 << 10, queue_file_entries=50, allocate_step_size=4096)


def message(number: int = 0) -> Message:
    return Message(TOPIC, b"%d" % number)


def run_full(disk: FaultyDisk) -> None:
    for operation in ("allocate", "create", "resize"):
        disk.fail(operation, "commitlog/", errno.ENOSPC)


def test_under_async_flush_a_future_is_done_and_queues_take_turns(stores: Stores) -> None:
    producer = Producer(stores.add("a"))
    futures = [producer.send_async(message(number)) for number in range(40)]
    assert all(future.done() for future in futures)
    results = [future.result() for future in futures]
    first = results[0].queue.queue_id
    assert [each.queue.queue_id for each in results] == [(first + i) % 4 for i in range(40)]
    assert all(stores.open["a"].was_stored(each.uniq_key) for each in results)
    assert stores.bodies().total() == 40


def test_a_group_and_a_selector_choose_the_queue_as_in_a_send(stores: Stores) -> None:
    producer = Producer(stores.add("a"))
    queue = producer.send(message(), group="g").queue
    assert producer.send_async(message(1), group="g").result().queue == queue
    assert producer.send_async(message(2), selector=lambda queues, _: queues[3]).result().queue.queue_id == 3
    found = list(stores.open["a"].read(TOPIC, queue.queue_id))
    assert [each.properties.get("__SHARDINGKEY") for each in found][:2] == ["g", "g"]


def test_futures_wait_for_one_sync_and_the_caller_does_not(stores: Stores) -> None:
    store = stores.add("a", SYNC)
    producer = Producer(store)
    producer.send(message())
    with stores.disks["a"].held_syncs():
        futures = [producer.send_async(message(number), group="g") for number in range(1, 50)]
        assert not any(future.done() for future in futures)
        assert not futures[0].cancel(), "its message is in the log"
    results = [future.result(LIMIT_S) for future in futures]
    assert {each.put.status for each in results} == {PutStatus.PUT_OK}
    assert [each.put.queue_offset for each in results] == sorted(each.put.queue_offset for each in results)


def test_what_is_refused_before_the_append_is_raised_in_the_call(stores: Stores) -> None:
    producer = Producer(stores.add("a"))
    with pytest.raises(InvalidMessageError):
        producer.send_async(Message(TOPIC, b"x", keys="with space"))
    run_full(stores.disks["a"])
    with pytest.raises(DiskFullError):
        for number in range(2000):
            producer.send_async(Message(TOPIC, b"x" * 50_000, keys=str(number)))
    stores.disks["a"].heal()


def test_a_full_store_is_left_for_another_one(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name, SMALL_STEPS)
    producer = Producer(stores.open, clock=clock)
    run_full(stores.disks["a"])
    results = [producer.send_async(message(number)).result(LIMIT_S) for number in range(600)]
    assert [(each.queue.broker_name, each.tries) for each in results if each.tries > 1] == [("b", 2)]
    assert stores.bodies().total() == 600


def test_a_message_whose_sync_failed_is_not_made_two(stores: Stores, clock: ManualClock) -> None:
    """It is in the log of the store whose sync failed: no other store gets it, and the future says so."""
    for name in "ab":
        stores.add(name, SYNC)
    producer = Producer(stores.open, clock=clock)
    for number in range(8):
        producer.send(message(number))
    for disk in stores.disks.values():
        disk.fail("sync", "commitlog/", errno.EIO)
    future = producer.send_async(message(8))
    error = future.exception(LIMIT_S)
    assert isinstance(error, (SyncFailedError, StorePoisonedError))
    assert "is in the log of" in "".join(error.__notes__)
    found = stores.bodies()
    assert max(found.values()) == 1 and found.keys() >= {b"%d" % number for number in range(8)}


def test_a_callback_may_send_and_a_store_that_closes_completes_its_futures(stores: Stores) -> None:
    store = stores.add("a", SYNC)
    producer = Producer(store)
    producer.send(message())
    second: Future[SendResult] = Future()
    disk = stores.disks["a"]
    disk.hold("sync", "commitlog/", times=1)
    future = producer.send_async(message(1))

    def send_again(_: Future[SendResult]) -> None:
        second.set_result(producer.send(message(2)))

    future.add_done_callback(send_again)
    disk.release()
    assert second.result(LIMIT_S).put.status is PutStatus.PUT_OK
    last = producer.send_async(message(3))
    store.close()
    assert last.done() and last.result().put.status is PutStatus.PUT_OK
    with pytest.raises(StoreClosedError):
        producer.send_async(message(4))


def test_coroutines_share_a_sync_and_run_beside_others(stores: Stores) -> None:
    store = stores.add("a", SYNC)
    producer = Producer(store)
    producer.send(message())
    disk = stores.disks["a"]

    async def main() -> list[SendResult]:
        disk.hold("sync", "commitlog/", times=1)
        sends = [asyncio.create_task(producer.send_coroutine(message(n), group="g")) for n in range(1, 30)]
        async with asyncio.timeout(LIMIT_S):
            while store.statistics().puts.messages < 30:  # type: ignore[union-attr]
                await asyncio.sleep(0)  # this task runs while they wait
        assert not any(each.done() for each in sends)
        disk.release()
        return await asyncio.gather(*sends)

    results = asyncio.run(main())
    assert [each.put.queue_offset for each in results] == sorted(each.put.queue_offset for each in results)
    assert stores.bodies().total() == 30


def test_a_cancelled_coroutine_has_stored_its_message_once(stores: Stores) -> None:
    store = stores.add("a", SYNC)
    producer = Producer(store)
    producer.send(message())
    disk = stores.disks["a"]

    async def main() -> None:
        disk.hold("sync", "commitlog/", times=1)
        sending = asyncio.create_task(producer.send_coroutine(message(1)))
        async with asyncio.timeout(LIMIT_S):
            while store.statistics().puts.messages < 2:  # type: ignore[union-attr]
                await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        disk.release()

    asyncio.run(main())
    assert stores.bodies() == {b"0": 1, b"1": 1}


def test_a_loop_that_only_sends_leaves_other_tasks_their_turn(stores: Stores) -> None:
    producer = Producer(stores.add("a"))
    turns: list[None] = []

    async def main() -> None:
        async def other() -> None:
            while True:
                turns.append(None)
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        for number in range(20):
            await producer.send_coroutine(message(number))
        task.cancel()

    asyncio.run(main())
    assert len(turns) >= 19


# -- the timeout


@pytest.mark.parametrize("of", ["the producer", "the call"])
def test_a_send_does_not_wait_for_a_hanging_sync_beyond_its_timeout(of: str, stores: Stores) -> None:
    store = stores.add("a", SYNC)
    Producer(store).send(message())
    producer = Producer(store, timeout_s=0.05 if of == "the producer" else 120)
    timeout_s = None if of == "the producer" else 0.05
    with stores.disks["a"].held_syncs():
        with pytest.raises(SendTimeoutError, match=r"timeout_s=0.05.*not known to be durable") as caught:
            producer.send(message(1), timeout_s=timeout_s)
        with pytest.raises(SendTimeoutError) as second:
            asyncio.run(producer.send_coroutine(message(2), timeout_s=timeout_s))
        for error in (caught.value, second.value):
            assert error.may_be_stored and error.queue is not None and isinstance(error, TimeoutError)
            assert store.was_stored(error.uniq_key)
    assert producer.send(message(3), timeout_s=LIMIT_S).put.status is PutStatus.PUT_OK
    assert stores.bodies() == {b"0": 1, b"1": 1, b"2": 1, b"3": 1}


def test_a_store_that_answers_flush_disk_timeout_first_gives_a_result(stores: Stores) -> None:
    settings = StoreSettings(
        segment_size=1 << 20, flush_mode=FlushMode.SYNC, flush_interval_ms=3_600_000, sync_flush_timeout_ms=1
    )
    producer = Producer(stores.add("a", settings), timeout_s=LIMIT_S)
    producer.send(message(3))  # the segment is made
    with stores.disks["a"].held_syncs():
        assert producer.send(message()).put.status is PutStatus.FLUSH_DISK_TIMEOUT
        assert producer.send_async(message(1)).result(LIMIT_S).put.status is PutStatus.FLUSH_DISK_TIMEOUT
        assert asyncio.run(producer.send_coroutine(message(2))).put.status is PutStatus.FLUSH_DISK_TIMEOUT


@pytest.mark.parametrize(("timeout_s", "tries"), [(None, 2), (1.0, 1), (3.5, 2), (10.0, 3)])
def test_no_try_begins_after_the_timeout(
    timeout_s: float | None, tries: int, stores: Stores, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try takes 2 s and fails: 3 s, as RocketMQ's sends have by default, allow for two of three."""
    for name in "abc":
        stores.add(name, SMALL_STEPS)
    producer = Producer(stores.open, clock=clock)
    tried: list[str] = []

    def fail(store: Store, _: Message) -> NoReturn:
        tried.append(store.path.name)
        clock.at_s += 2
        raise DiskFullError(store.path, 1, "no room")

    monkeypatch.setattr(Store, "put", fail)
    monkeypatch.setattr(Store, "put_async", fail)
    for send in (producer.send, producer.send_async):
        tried.clear()
        with pytest.raises((SendTimeoutError, DiskFullError)) as caught:
            send(message(), timeout_s=timeout_s)
        assert len(set(tried)) == len(tried) == tries
        if tries < 3:
            assert isinstance(caught.value, SendTimeoutError) and not caught.value.may_be_stored
            assert "no store has it" in str(caught.value) and isinstance(caught.value.__cause__, DiskFullError)
        else:
            assert isinstance(caught.value, DiskFullError)
        clock.at_s += 60
    monkeypatch.undo()


def test_a_store_that_closes_while_a_future_waits_is_not_taken_for_one_without_the_message(
    stores: Stores, clock: ManualClock
) -> None:
    for name in "ab":
        stores.add(name, SYNC)
    producer = Producer(stores.open, clock=clock)
    for number in range(8):
        producer.send(message(number))
    for disk in stores.disks.values():
        disk.hold("sync", "commitlog/", times=1)
    future = producer.send_async(message(8))
    closing = [threading.Thread(target=store.close) for store in stores.open.values()]
    for thread in closing:
        thread.start()
    for disk in stores.disks.values():
        disk.release()
    with suppress(DiskError):
        assert future.result(LIMIT_S).tries == 1
    for thread in closing:
        thread.join()
    assert max(stores.bodies().values()) == 1
