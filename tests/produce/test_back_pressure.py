"""Sends that are held back while a consumer group lags."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from flightlog import GroupLagError, Message, Producer, SendResult, Store

if TYPE_CHECKING:
    from flightlog.tests.produce.conftest import ManualClock, Stores

TOPIC = "orders"
LIMIT_S = 240.0


def message(number: int = 0) -> Message:
    return Message(TOPIC, b"%d" % number)


@pytest.fixture
def store(stores: Stores) -> Store:
    """With a group that has begun, and read nothing."""
    found = stores.add("a")
    found.create_topic(TOPIC, 4)
    found.commit_offset("g", TOPIC, 0, 0)
    return found


def catch_up(store: Store) -> None:
    for (topic, queue_id), (_, end) in store.queues().items():
        store.commit_offset("g", topic, queue_id, end)


def test_a_send_raises_once_the_group_lags_by_more(store: Store, clock: ManualClock) -> None:
    producer = Producer(store, max_lag={"g": 10}, on_lag="raise", clock=clock)
    for number in range(11):
        producer.send(message(number))
    sends: tuple[Callable[[], object], ...] = (
        lambda: producer.send(message()),
        lambda: producer.send_async(message()),
        lambda: producer.send_many([message()]),
        lambda: asyncio.run(producer.send_coroutine(message())),
    )
    for send in sends:
        with pytest.raises(GroupLagError, match="group 'g' lags by 11 messages, expected 10 at most") as caught:
            send()
        assert (caught.value.topic, caught.value.lag, caught.value.max_lag) == (TOPIC, 11, 10)
    assert sum(store.lag("g").values()) == 11
    catch_up(store)
    for send in sends:
        send()
    assert sum(store.lag("g").values()) == len(sends)


def test_only_the_topic_and_the_named_groups_count(store: Store) -> None:
    store.commit_offset("other", TOPIC, 0, 0)
    producer = Producer(store, max_lag={"g": 1, "never there": 0}, on_lag="raise")
    producer.send_many([message(number) for number in range(5)])
    producer.send(Message("bills", b"x"))
    with pytest.raises(GroupLagError, match="group 'g'"):
        producer.send(message())
    with pytest.raises(GroupLagError):
        producer.send_many([Message("bills", b"x"), message()])
    assert sum(end - first for first, end in store.queues().values()) == 6, "nothing of that call was put"


def test_what_others_send_is_seen_within_a_second(store: Store, clock: ManualClock) -> None:
    producer = Producer(store, max_lag={"g": 10}, on_lag="raise", clock=clock)
    producer.send(message())
    Producer(store).send_many([message(number) for number in range(20)])
    clock.at_s += 1
    with pytest.raises(GroupLagError, match="lags by 21"):
        producer.send(message())


@pytest.mark.parametrize("way", ["send", "coroutine"])
def test_a_send_waits_until_the_group_has_caught_up(way: str, store: Store, clock: ManualClock) -> None:
    """The clock stands still: the send cannot time out."""
    producer = Producer(store, max_lag={"g": 0}, clock=clock)
    producer.send(message())
    results: list[SendResult] = []

    def send() -> None:
        if way == "send":
            results.append(producer.send(message(1)))
        else:
            results.append(asyncio.run(producer.send_coroutine(message(1))))

    sending = threading.Thread(target=send)
    sending.start()
    assert not results
    catch_up(store)
    sending.join(LIMIT_S)
    assert [each.tries for each in results] == [1]


def test_it_waits_no_longer_than_its_timeout(store: Store, clock: ManualClock) -> None:
    producer = Producer(store, max_lag={"g": 0}, clock=clock)
    producer.send(message())
    errors: list[GroupLagError] = []

    def send() -> None:
        with pytest.raises(GroupLagError) as caught:
            producer.send(message(1), timeout_s=100)
        errors.append(caught.value)

    clock.pass_during(send)
    assert [each.lag for each in errors] == [1]
    with pytest.raises(GroupLagError):
        producer.send(message(1), timeout_s=0)


def test_a_closed_store_does_not_count(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name).create_topic(TOPIC, 4)
        stores.open[name].commit_offset("g", TOPIC, 0, 0)
    producer = Producer(stores.open, max_lag={"g": 10}, on_lag="raise", clock=clock)
    producer.send_many([message(number) for number in range(16)])
    with pytest.raises(GroupLagError, match="lags by 16"):
        producer.send(message())
    stores.open["a"].close()
    assert producer.send(message(16)).queue.broker_name == "b"
