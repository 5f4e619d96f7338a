"""What a crash may repeat for a subscription: a test for each row of "Delivery guarantees" in docs/messaging.md."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

import pytest

import flightlog
from flightlog import FlushMode, Message, Store, StoreSettings, Subscription
from flightlog.testing import kill
from flightlog.testing.power_disk import PowerDisk

COUNT = 6


@pytest.fixture
def disk(tmp_path: Path) -> PowerDisk:
    return PowerDisk(tmp_path / "store")


def opened(disk: PowerDisk, mode: FlushMode = FlushMode.SYNC) -> Store:
    """Offsets are written when a subscription is closed, and not in between."""
    settings = StoreSettings.small(
        flush_mode=mode, flush_interval_ms=3_600_000, offset_save_interval_ms=3_600_000, prepare_ahead_size=0
    )
    return flightlog.open(disk.root, settings, disk=disk)


def filled(disk: PowerDisk, mode: FlushMode = FlushMode.SYNC, queues: int = 1) -> Store:
    store = opened(disk, mode)
    store.create_topic("orders", queues)
    store.put_many(Message("orders", b"%d" % number, queue_id=number % queues) for number in range(COUNT))
    return store


def subscribed(store: Store, member: str = "a") -> Subscription:
    return store.subscribe("orders", "g", member=member, idle_s=0)


def numbers(subscription: Subscription, *acked: int) -> list[int]:
    """What it receives; these are acknowledged."""
    found = []
    for message in subscription:
        found.append(int(message.body))
        if found[-1] in acked:
            assert message.ack()
    return found


def test_a_closed_subscription(disk: PowerDisk) -> None:
    with filled(disk) as store:
        with subscribed(store) as subscription:
            numbers(subscription, 0, 1, 3)
        with subscribed(store) as subscription:
            assert numbers(subscription) == [2, 3, 4, 5]


def test_a_closed_store(disk: PowerDisk) -> None:
    with filled(disk) as store:
        numbers(subscribed(store), 0, 1, 3)
    with opened(disk) as store, subscribed(store) as subscription:
        assert numbers(subscription) == [2, 3, 4, 5]


def test_an_exception_in_the_loop(disk: PowerDisk) -> None:
    def fail_at(number: int) -> None:
        for message in subscribed(store):
            if int(message.body) == number:
                raise ValueError
            message.ack()

    with filled(disk) as store:
        with suppress(ValueError):
            fail_at(2)
        gc.collect()
        with subscribed(store, "b") as subscription:
            assert numbers(subscription) == [2, 3, 4, 5]


def crashed(disk: PowerDisk, mode: FlushMode) -> None:
    """The offset of 2 was written; 2 was acknowledged afterwards."""
    store = filled(disk, mode)
    with subscribed(store) as subscription:
        numbers(subscription, 0, 1)
    store.put(Message("orders", b"late", queue_id=0))
    for message in subscribed(store):
        message.ack()
    kill(store)


def bodies(disk: PowerDisk, mode: FlushMode) -> list[bytes]:
    with opened(disk, mode) as store, subscribed(store) as subscription:
        found = [message.body for message in subscription]
        assert store.verify().is_clean
        return found


def test_a_killed_process(disk: PowerDisk) -> None:
    crashed(disk, FlushMode.SYNC)
    disk.kill()
    assert bodies(disk, FlushMode.SYNC) == [b"2", b"3", b"4", b"5", b"late"]


def test_a_power_cut_under_sync_flush(disk: PowerDisk) -> None:
    crashed(disk, FlushMode.SYNC)
    disk.cut()
    assert bodies(disk, FlushMode.SYNC) == [b"2", b"3", b"4", b"5", b"late"]


def test_a_power_cut_under_async_flush(disk: PowerDisk) -> None:
    """The offset that was written made durable what lies below it; the message after that is lost."""
    crashed(disk, FlushMode.ASYNC)
    disk.cut()
    assert bodies(disk, FlushMode.ASYNC) == [b"2", b"3", b"4", b"5"]


def test_a_queue_that_moves(disk: PowerDisk) -> None:
    with filled(disk, queues=2) as store, subscribed(store) as first:
        assert sorted(numbers(first, 1, 5)) == list(range(COUNT))
        with subscribed(store, "b") as second:
            assert numbers(second) == [3, 5], "the queue of odd ones, from the first that is not acknowledged"
