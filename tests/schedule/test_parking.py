"""What a put makes of a message with a delay level, and where that is to be found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC, DelayLevelTable
from flightlog.schedule.parking import park
from flightlog.store.errors import InvalidMessageError, PropertiesTooLargeError, TopicPermissionError
from flightlog.store.format.properties import decode_properties
from flightlog.tests.support import inside

AssertClean = Callable[[Path], None]

LEVELS = DelayLevelTable.parse("1s 5s 10s")
PARKED_ONLY = StoreSettings.small(deliver_delayed=False, delay_levels="1s 5s 10s")


@pytest.mark.parametrize(
    ("message", "level"),
    [
        (Message("t", b"", delay_level=1), 1),
        (Message("t", b"", delay_level=99), 3),
        (Message("t", b"", properties={"DELAY": "2"}), 2),
        (Message("t", b"", properties={"DELAY": "+2"}), 2),
        (Message("t", b"", properties={"DELAY": "2"}, delay_level=3), 3),
        (Message("t", b"", delay_level=2, sys_flag=0x8), 2),
        (Message("t", b"", delay_level=2, properties={"TIMER_DELAY_MS": "5", "TIMER_DELIVER_MS": "6"}), 2),
    ],
)
def test_a_message_with_a_level_is_parked(message: Message, level: int) -> None:
    parked = park(message, LEVELS)
    assert (parked.topic, parked.queue_id) == (SCHEDULE_TOPIC, level - 1)
    assert parked.all_properties() == {"DELAY": str(level), "REAL_TOPIC": "t", "REAL_QID": "0"}


@pytest.mark.parametrize(
    "message",
    [
        Message("t", b""),
        Message("t", b"", properties={"DELAY": "0"}),
        Message("t", b"", properties={"DELAY": "-3"}),
        Message("t", b"", delay_level=3, sys_flag=0x4),
        Message("t", b"", delay_level=3, sys_flag=0xC),
    ],
)
def test_any_other_goes_as_it_is(message: Message) -> None:
    assert park(message, LEVELS) is message


@pytest.mark.parametrize("text", ["", "x", "3s", "1.5", " 3", "٣", "2147483648", "9" * 5000])
def test_what_is_no_level_is_refused(text: str) -> None:
    with pytest.raises(InvalidMessageError, match="delay level"):
        park(Message("t", b"", properties={"DELAY": text}), LEVELS)


def test_parked_messages_are_in_no_queue_of_their_topic(tmp_path: Path, kernel: str, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, PARKED_ONLY) as store:
        store.create_topic("orders", 4)
        plain = Message("orders", b"now", queue_id=1)
        later = [
            Message("orders", b"one", "TagA", "k1", {"a": "b"}, queue_id=1, delay_level=1),
            Message("orders", b"two", queue_id=None, delay_level=2),
            Message("orders", b"three", queue_id=None, properties={"DELAY": "3"}),
        ]
        results = [store.put(plain), store.put(later[0]), *store.put_many([later[1], plain]), store.put(later[2])]
        assert [(r.topic, r.queue_id, r.queue_offset) for r in results] == [
            ("orders", 1, 0),
            (SCHEDULE_TOPIC, 0, 0),
            (SCHEDULE_TOPIC, 1, 0),
            ("orders", 1, 1),
            (SCHEDULE_TOPIC, 2, 0),
        ]
        assert store.queues()["orders", 1] == (0, 2)
        parked = [next(store.read(SCHEDULE_TOPIC, level)) for level in range(3)]
        assert [m.body for m in parked] == [b"one", b"two", b"three"]
        assert parked[0].properties == {
            "a": "b",
            "KEYS": "k1",
            "TAGS": "TagA",
            "DELAY": "1",
            "REAL_TOPIC": "orders",
            "REAL_QID": "1",
        }
        turns = [m.properties["REAL_QID"] for m in parked[1:]]
        assert turns == ["0", "1"], "queues take turns, the parked ones too"
        units = inside.queue_table(store).get((SCHEDULE_TOPIC, 1)).units(0, 1)  # type: ignore[union-attr]
        assert int(units["tags_code"][0]) == parked[1].store_timestamp_ms + 5000
        with pytest.raises(InvalidMessageError, match="no meaning inside a batch"):
            store.put_batch([Message("batches", b"", delay_level=1)])
    assert_clean(tmp_path)


def test_columns_are_parked_too(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, PARKED_ONLY) as store:
        columns = {"value": [b"now", b"later"], "properties": [{}, {"DELAY": "3"}]}
        result = store.append_columns("orders", columns)
        assert len(result) == 2
        assert [m.body for m in store.read("orders", 0)] == [b"now"]
        assert [m.body for m in store.read(SCHEDULE_TOPIC, 2)] == [b"later"]
    assert_clean(tmp_path)


def test_what_its_topic_would_refuse_is_refused_before_it_waits(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, PARKED_ONLY) as store:
        store.create_topic("closed", 4)
        store.update_topic("closed", perm=4)
        for message, error in (
            (Message("closed", b"x", delay_level=1), TopicPermissionError),
            (Message(SCHEDULE_TOPIC, b"x", delay_level=1), TopicPermissionError),
            (Message("a/b", b"x", delay_level=1), InvalidMessageError),
            (Message("t", b"x", queue_id=-1, delay_level=1), InvalidMessageError),
            (Message("t", b"x", properties={"n": "x" * 32_740}, delay_level=1), PropertiesTooLargeError),
        ):
            with pytest.raises(error):
                store.put(message)
        assert store.queues() == {}
        assert set(store.topics()) == {"closed"}, "one that is refused makes no topic"
    assert_clean(tmp_path)


def test_the_real_topic_is_made_by_the_put(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, PARKED_ONLY) as store:
        store.put(Message("orders", b"later", queue_id=None, delay_level=1))
        assert set(store.topics()) == {"orders"}
        record = next(store.read(SCHEDULE_TOPIC, 0))
        assert decode_properties(record.properties_raw)["REAL_QID"] == "0"
    assert_clean(tmp_path)
