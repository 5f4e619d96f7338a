"""Topics as they stand in RocketMQ's topics.json: what makes no sense is refused, by name, and the rest is kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flightlog.store.errors import ConfigFileError, InvalidTopicError, TopicTooLongError, UsageError
from flightlog.store.topic import (
    Topic,
    TopicPermission,
    check_perm,
    check_queue_count,
    check_topic_name,
    topic_from_json,
)

PATH = Path("config/topics.json")
WHOLE = {
    "attributes": {"queue.type": "BatchCQ"},
    "order": True,
    "perm": 4,
    "readQueueNums": 3,
    "topicFilterType": "MULTI_TAG",
    "topicName": "orders",
    "topicSysFlag": -1,
    "writeQueueNums": 8,
    "later": {"a": [1]},
}


def test_what_is_read_is_written_again() -> None:
    topic = topic_from_json("orders", WHOLE, PATH)
    assert (topic.perm, topic.queue_count, topic.is_ordered) == (TopicPermission.READ, 8, True)
    assert topic.holds_batches and not topic.is_system
    assert topic.to_json() == WHOLE and [*topic.to_json()][-1] == "later"


def test_what_is_not_there_has_rocketmqs_default() -> None:
    topic = topic_from_json("orders", {}, PATH)
    assert topic == Topic("orders", 16, 16)
    assert topic.perm == TopicPermission.READ | TopicPermission.WRITE and not topic.holds_batches


@pytest.mark.parametrize(
    ("name", "found", "text"),
    [
        ("..", {}, "its name: expected a name that can name a folder"),
        ("orders", [], "a list: expected an object with its settings"),
        ("orders", {"order": 1}, "order='1': expected true or false"),
        ("orders", {"topicFilterType": 7}, "topicFilterType='7': expected a text"),
        ("orders", {"attributes": []}, "its attributes: expected an object of texts"),
        ("orders", {"attributes": {"a": 1}}, "its attributes: expected an object of texts"),
        ("orders", {"topicName": "other"}, "another topicName: expected its own name"),
        ("orders", {"readQueueNums": -1}, "readQueueNums='-1': expected a whole number from 0"),
        ("orders", {"writeQueueNums": True}, "writeQueueNums='True': expected a whole number from 0"),
        ("orders", {"perm": "6"}, "perm='6': expected a whole number from 0"),
        ("orders", {"topicSysFlag": 1 << 31}, f"topicSysFlag='{1 << 31}': expected a whole number from -{1 << 31}"),
    ],
)
def test_what_makes_no_sense_is_told(name: str, found: Any, text: str) -> None:
    what, _, expected = text.partition(": expected ")
    with pytest.raises(ConfigFileError, match=f"(?s){re.escape(what)}.*{re.escape(expected)}"):
        topic_from_json(name, found, PATH)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        *((name, InvalidTopicError) for name in (7, "a b", "", "TBW102", "rmq_sys_x")),
        ("t" * 128, TopicTooLongError),
    ],
)
def test_names_that_no_topic_of_an_application_has(name: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        check_topic_name(name)
    assert caught.type is error
    check_topic_name("t" * 127)
    check_topic_name("%RETRY%group|1-a_B")


def test_numbers_that_are_none() -> None:
    for value in (0, -1, 1 << 31, True, "3", 1.0, None):
        with pytest.raises(UsageError, match="read_queue_count="):
            check_queue_count("read_queue_count", value)
    check_queue_count("read_queue_count", (1 << 31) - 1)
    for value in (8, -1, True, "6", None):
        with pytest.raises(UsageError, match="perm="):
            check_perm(value)
    assert check_perm(7) == TopicPermission(7)
