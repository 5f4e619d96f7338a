"""What goes back to the store: the record of a retry, and of a dead letter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flightlog import Message, StoredMessage, StoreSettings
from flightlog.consume.retry.send_back import (
    dead_letter_topic,
    retry_topic,
    send_to_dead_letters,
    send_to_retry,
)
from flightlog.engine.message_store import MessageStore
from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC
from flightlog.store.errors import UsageError
from flightlog.store.format.compression import CompressionType
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import process

ADDED = {"WAIT", "DELAY", "REAL_TOPIC", "REAL_QID", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID"}


def put_one(store: MessageStore, **fields: Any) -> StoredMessage:
    message = Message("orders", b"created" * 99, "paid", ["k", "l"], {"colour": "red"}, 2, -7, "u", 5, ("10.1.2.3", 99))
    return next(store.read("orders", store.put(replace(message, **fields)).queue_id))


def test_a_retry_waits_by_its_attempts_and_keeps_what_the_message_was(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, StoreSettings.small(), clock=ManualClock()) as store:
        origin = put_one(store, compress=CompressionType.ZLIB)
        for attempt in (1, 2, 16):
            waits = send_to_retry(store, "billing", origin, attempt)
            assert (waits.topic, waits.queue_id) == (SCHEDULE_TOPIC, 3 + attempt - 2)
            sent = store.message_at(waits.physical_offset)
            assert sent is not None and sent.reconsume_times == attempt
            assert sent.decompressed_body() == origin.decompressed_body() and sent.body == origin.body
            assert (sent.flag, sent.sys_flag, sent.born_timestamp_ms) == (-7, origin.sys_flag, 5)
            assert sent.born_host == origin.born_host
            own = {name: value for name, value in sent.properties.items() if name not in ADDED}
            assert own == origin.properties
            assert {name: sent.properties[name] for name in ADDED} == {
                "WAIT": "false",
                "DELAY": str(2 + attempt),
                "REAL_TOPIC": "%RETRY%billing",
                "REAL_QID": "0",
                "RETRY_TOPIC": "orders",
                "ORIGIN_MESSAGE_ID": origin.message_id,
            }
        topic = store.topic(retry_topic("billing"))
        assert topic is not None and (topic.perm, topic.read_queue_count, topic.write_queue_count) == (6, 1, 1)


def test_a_message_that_goes_back_again_still_names_its_first_topic_and_record(tmp_path: Path) -> None:
    clock = ManualClock()
    with MessageStore.open(tmp_path, StoreSettings.small(), clock=clock) as store:
        origin = put_one(store)
        assert send_to_retry(store, "billing", origin, 1, delay_level=1, queue_count=1).queue_id == 0
        clock.advance(1_000)
        again = store.pull("%RETRY%billing", 0, 0, wait_s=30).result(process.LIMIT_S).messages[0]
        letter = send_to_dead_letters(store, "billing", again, 2)
        assert (letter.topic, letter.queue_id, letter.queue_offset) == (dead_letter_topic("billing"), 0, 0)
        dead = next(store.read("%DLQ%billing"))
        assert dead.reconsume_times == 2 and dead.body == origin.body and dead.keys == ["k", "l"]
        wanted = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": origin.message_id, "DELAY": "0", "uniq": "u"}
        assert {**dead.properties, "uniq": dead.uniq_key}.items() >= wanted.items()
        topic = store.topic("%DLQ%billing")
        assert topic is not None and (topic.perm, topic.read_queue_count, topic.write_queue_count) == (6, 1, 1)


def test_a_retry_takes_one_of_the_queues_that_the_group_has(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, StoreSettings.small(), clock=ManualClock()) as store:
        origin = put_one(store)
        sent = [send_to_retry(store, "g", origin, 1, queue_count=3) for _ in range(60)]
        found = [store.message_at(result.physical_offset) for result in sent]
        assert {message.properties["REAL_QID"] for message in found if message} == {"0", "1", "2"}
        topic = store.topic("%RETRY%g")
        assert topic is not None and topic.read_queue_count == 3


def test_a_message_of_an_inner_batch_and_of_light_queues_goes_back_alone(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, StoreSettings.small(multi_dispatch=True), clock=ManualClock()) as store:
        store.put_batch([Message("batches", b"%d" % n) for n in range(3)])
        second = list(store.read("batches"))[1]
        light = put_one(store, properties={"INNER_MULTI_DISPATCH": "%LMQ%l"})
        for origin in (second, light):
            sent = store.message_at(send_to_dead_letters(store, "g", origin, 1).physical_offset)
            assert sent is not None and sent.body == origin.body
        assert [m.body for m in store.read("%DLQ%g")] == [b"1", light.body]
        assert [m.topic for m in store.read("%LMQ%l")] == ["orders"]


@pytest.mark.parametrize("group", ["größe", "a.b", "g" * 200])
def test_a_group_of_a_name_that_rocketmq_does_not_take_has_a_retry_topic(tmp_path: Path, group: str) -> None:
    with MessageStore.open(tmp_path, StoreSettings.small(), clock=ManualClock()) as store:
        send_to_retry(store, group, put_one(store), 1)
        topic = store.topic(retry_topic(group))
        assert topic is not None and topic.read_queue_count == 1


def test_topics_are_made_where_puts_make_none(tmp_path: Path) -> None:
    settings = StoreSettings.small(auto_create_topics=False)
    with MessageStore.open(tmp_path, settings, clock=ManualClock()) as store:
        store.create_topic("orders", 3)
        origin = put_one(store)
        send_to_retry(store, "g", origin, 1)
        send_to_dead_letters(store, "g", origin, 1)
        assert {"%RETRY%g", "%DLQ%g"} <= store.topics().keys()


def test_a_store_that_delivers_no_delayed_message_takes_no_retry(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, StoreSettings.small(deliver_delayed=False)) as store:
        origin = put_one(store)
        with pytest.raises(UsageError, match="deliver_delayed=False"):
            send_to_retry(store, "g", origin, 1)
        send_to_dead_letters(store, "g", origin, 1)
