"""A topic's message type, enforced on request by RocketMQ's rules."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from flightlog import Message, MessageTypeError, Producer, Store
from flightlog.produce.message_type import message_type_of, takes

if TYPE_CHECKING:
    from flightlog.tests.produce.conftest import ManualClock, Stores

TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, "NORMAL"),
        ({"KEYS": "k"}, "NORMAL"),
        ({"__SHARDINGKEY": "g"}, "FIFO"),
        ({"DELAY": "3"}, "DELAY"),
        ({"DELAY": "0"}, "DELAY"),
        ({"TIMER_DELAY_SEC": "1"}, "DELAY"),
        ({"TIMER_DELAY_MS": "1"}, "DELAY"),
        ({"TIMER_DELIVER_MS": "1"}, "DELAY"),
        ({"TIMER_DELIVER_MS": "1", "__SHARDINGKEY": "g"}, "DELAY"),
        ({"TRAN_MSG": "true", "DELAY": "3", "__SHARDINGKEY": "g"}, "TRANSACTION"),
        ({"TRAN_MSG": "TRUE"}, "NORMAL"),
        ({"TRAN_MSG": "false", "__SHARDINGKEY": "g"}, "FIFO"),
    ],
)
def test_the_type_of_a_message_as_rocketmq_reads_it(properties: dict[str, str], expected: str) -> None:
    assert message_type_of(properties) == expected


def test_which_topics_take_which_messages_as_rocketmqs_validator_says() -> None:
    taken = {(t, m) for t, m in itertools.product((*TYPES, "MIXED", "UNSPECIFIED", "LITE"), TYPES) if takes(t, m)}
    assert taken == {*((each, each) for each in TYPES), *(("MIXED", each) for each in TYPES)}


def topic(store: Store, name: str, message_type: str) -> None:
    store.create_topic(name, 2, attributes={"message.type": message_type})


SENDS: dict[str, tuple[Message, dict[str, Any]]] = {
    "NORMAL": (Message("", b"x"), {}),
    "FIFO": (Message("", b"x"), {"group": "g"}),
    "DELAY": (Message("", b"x", delay_level=1), {}),
    "TRANSACTION": (Message("", b"x", properties={"TRAN_MSG": "true"}), {}),
}


@pytest.mark.parametrize("message_type", [*TYPES, "MIXED"])
def test_a_topic_takes_its_type_alone(message_type: str, stores: Stores) -> None:
    store = stores.add("a")
    topic(store, "t", message_type)
    assert store.topic("t").message_type == message_type  # type: ignore[union-attr]
    checking, plain = Producer(store, check_message_type=True), Producer(store)
    for kind, (message, options) in SENDS.items():
        message.topic = "t"
        plain.send(message, **options)
        before = store.statistics().sizes.end_physical_offset
        if message_type in (kind, "MIXED"):
            checking.send(message, **options)
            assert store.statistics().sizes.end_physical_offset > before
        else:
            with pytest.raises(MessageTypeError, match=f"found a {kind} message, expected {message_type}") as caught:
                checking.send(message, **options)
            assert (caught.value.topic, caught.value.found, caught.value.expected) == ("t", kind, message_type)
            with pytest.raises(MessageTypeError):
                checking.send_async(message, **options)
            assert store.statistics().sizes.end_physical_offset == before


def test_a_topic_without_a_type_and_one_that_is_not_there_yet_are_normal(stores: Stores) -> None:
    store = stores.add("a")
    store.create_topic("plain")
    producer = Producer(store, check_message_type=True)
    for name in ("plain", "new"):
        with pytest.raises(MessageTypeError, match="expected NORMAL.*without a message group"):
            producer.send(Message(name, b"x"), group="g")
        producer.send(Message(name, b"x"))


def test_a_type_that_rocketmq_does_not_know_takes_nothing(stores: Stores) -> None:
    store = stores.add("a")
    topic(store, "t", "PRIORITY")
    with pytest.raises(MessageTypeError, match="expected PRIORITY.*No message is of that type"):
        Producer(store, check_message_type=True).send(Message("t", b"x"))


def test_topics_of_retries_and_dead_letters_are_not_checked(stores: Stores) -> None:
    store = stores.add("a")
    producer = Producer(store, check_message_type=True)
    for name in ("%RETRY%g", "%DLQ%g"):
        topic(store, name, "FIFO")
        producer.send(Message(name, b"x"))


def test_each_store_has_its_say_and_a_change_is_seen(stores: Stores, clock: ManualClock) -> None:
    topic(stores.add("a"), "t", "FIFO")
    topic(stores.add("b"), "t", "NORMAL")
    producer = Producer(stores.open, check_message_type=True, clock=clock)
    with pytest.raises(MessageTypeError, match="expected FIFO"):
        producer.send(Message("t", b"x"))
    with pytest.raises(MessageTypeError, match="expected NORMAL"):
        producer.send(Message("t", b"x"), group="g")
    stores.open["a"].update_topic("t", attributes={"message.type": "NORMAL"})
    clock.at_s += 1.5
    producer.send(Message("t", b"x"))
