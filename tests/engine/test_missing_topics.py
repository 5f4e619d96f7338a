"""Reads of topics and queues that are not there, of a store and of a view."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.errors import QueueNotFoundError, TopicNotFoundError

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean, Told


@pytest.mark.parametrize("is_view", [False, True])
def test_a_read_that_must_find_its_topic(tmp_path: Path, assert_clean: AssertClean, told: Told, is_view: bool) -> None:
    """It once answered with nothing, and without a word."""
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.put(Message("orders", b"one"))
        store.create_topic("empty", 2)
    with flightlog.open_read_only(tmp_path) if is_view else flightlog.open(tmp_path) as found:
        with pytest.raises(TopicNotFoundError, match="there is no topic 'order'; make it with create_topic"):
            found.read("order", must_exist=True)
        with pytest.raises(QueueNotFoundError, match="'empty' has queues 0 to 1, and none with id 2"):
            found.read("empty", 2, must_exist=True)
        assert not told()
        assert [message.body for message in found.read("orders", must_exist=True)] == [b"one"]
        assert list(found.read("empty", 1, must_exist=True)) == []
        assert list(found.read("order")) == list(found.read("order")) == []
        [record] = told()
        assert record.levelname == "WARNING" and record.__dict__["topic"] == "order"
    assert_clean(tmp_path)


def test_a_read_of_nothing_needs_no_topics_file(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.put(Message("orders", b"one"))
    for name in ("topics.json", "topics.json.bak"):
        (tmp_path / "config" / name).write_bytes(b"no JSON")
    with flightlog.open_read_only(tmp_path) as view:
        assert list(view.read("order")) == []


@pytest.mark.parametrize("topic", ["%RETRY%workers", "%DLQ%workers", "SCHEDULE_TOPIC_XXXX", "%LMQ%orders"])
def test_nothing_is_said_of_topics_that_come_by_themselves(tmp_path: Path, told: Told, topic: str) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        assert list(store.read(topic)) == []
    assert not told()
