"""A wrong queue id gives no topic more queues: whichever call puts, and whoever created the topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.engine.write.append_atomically import TopicColumns
from flightlog.store.errors import InvalidMessageError, QueueNotFoundError

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SETTINGS = StoreSettings.small(key_index=False)
FAR = 2_000_000_000

Put = Callable[[Store, str, int], object]
CALLS: dict[str, Put] = {
    "put": lambda store, topic, queue_id: store.put(Message(topic, b"x", queue_id=queue_id)),
    "put_async": lambda store, topic, queue_id: store.put_async(Message(topic, b"x", queue_id=queue_id)).result(),
    "put_many": lambda store, topic, queue_id: store.put_many([Message(topic, b"x", queue_id=queue_id)] * 2),
    "put, delayed": lambda store, topic, queue_id: store.put(Message(topic, b"x", queue_id=queue_id, delay_level=18)),
    "queue": lambda store, topic, queue_id: store.queue(topic, queue_id).append(b"x"),
    "append_columns": lambda store, topic, queue_id: store.append_columns(
        topic, {"body": [b"x", b"y"], "queue_id": [queue_id, queue_id]}
    ),
    "append_atomically": lambda store, topic, queue_id: store.append_atomically(
        [TopicColumns(topic, {"body": [b"x", b"y"], "queue_id": [queue_id, queue_id]})]
    ),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


def count(store: Store, name: str) -> int:
    topic = store.topic(name)
    assert topic is not None
    assert topic.read_queue_count == topic.write_queue_count
    return topic.read_queue_count


@every_call
@pytest.mark.parametrize("queue_id", [4, 99_999, FAR, (1 << 31) - 1])
def test_a_topic_made_by_hand_gets_no_queue_by_a_put(
    call: Put, queue_id: int, kernel: str, tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.create_topic("t", 4)
        call(store, "t", 3)  # from here on the fast path takes puts to this topic
        before = store.queues()
        with pytest.raises(QueueNotFoundError) as raised:
            call(store, "t", queue_id)
        for said in ("'t'", "4 queues", str(queue_id), "update_topic", "put_adds_queues"):
            assert said in str(raised.value)
        assert store.queues() == before
        assert count(store, "t") == 4
        store.update_topic("t", 5)
        call(store, "t", 4)
        assert count(store, "t") == 5
    assert_clean(tmp_path)


@every_call
def test_a_topic_made_by_a_put_grows_up_to_a_bound(
    call: Put, kernel: str, tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        with pytest.raises(QueueNotFoundError, match=r"'t' would get 4 queues.*max_auto_queue_count=64.*create_topic"):
            call(store, "t", 64)
        assert store.topic("t") is None, "a put that is refused makes no topic"
        call(store, "t", 3)
        call(store, "t", 63)
        assert count(store, "t") == 64
        with pytest.raises(QueueNotFoundError, match=r"'t' has 64 queues.*max_auto_queue_count=64.*update_topic"):
            call(store, "t", 64)
    with flightlog.open(tmp_path, StoreSettings.small(key_index=False, max_auto_queue_count=70)) as store:
        call(store, "t", 69)
        assert count(store, "t") == 70
        store.update_topic("t", order=True)
        with pytest.raises(QueueNotFoundError, match="update_topic"):
            call(store, "t", 70)
    assert_clean(tmp_path)


@every_call
def test_a_setting_lets_puts_add_any_queue(call: Put, kernel: str, tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small(key_index=False, put_adds_queues=True)) as store:
        store.create_topic("t", 4)
        call(store, "t", 99_999)
        call(store, "new", FAR)
        assert (count(store, "t"), count(store, "new")) == (100_000, FAR + 1)
    assert_clean(tmp_path)


def test_queues_that_hold_messages_are_there_after_a_kill_whatever_their_id(
    tmp_path: Path, copy_as_killed: Callable[[Path, Path], None], assert_clean: AssertClean
) -> None:
    path, killed = tmp_path / "store", tmp_path / "killed"
    with flightlog.open(path, StoreSettings.small(flush_interval_ms=3_600_000, put_adds_queues=True)) as store:
        store.put(Message("t", b"x", queue_id=FAR))
        copy_as_killed(path, killed)
    with flightlog.open(killed, SETTINGS) as store:
        assert [message.body for message in store.read("t", FAR)] == [b"x"]
        assert count(store, "t") == FAR + 1
        assert store.put(Message("t", b"y", queue_id=FAR)).queue_offset == 1
    assert_clean(killed)


def test_which_topics_puts_made_is_kept_until_they_are_changed_or_deleted(
    tmp_path: Path, assert_clean: AssertClean
) -> None:
    def noted() -> object:
        return json.loads((tmp_path / "flightlog" / "auto-topics.json").read_text())["autoCreated"]

    with flightlog.open(tmp_path, SETTINGS) as store:
        for name in ("changed", "deleted", "kept"):
            store.put(Message(name, b"x"))
        store.create_topic("made")
        assert noted() == ["changed", "deleted", "kept"]
        store.update_topic("changed", 6)
        store.delete_topic("deleted")
        assert noted() == ["kept"]
        store.create_topic("deleted")
        for name, found in {"changed": 6, "deleted": 4, "made": 4}.items():
            with pytest.raises(QueueNotFoundError):
                store.put(Message(name, b"x", queue_id=found))
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put(Message("kept", b"x", queue_id=9))
        assert noted() == ["kept"]
    for path in (tmp_path / "flightlog").glob("auto-topics.json*"):
        path.unlink()
    with flightlog.open(tmp_path, SETTINGS) as store, pytest.raises(QueueNotFoundError):
        store.put(Message("kept", b"x", queue_id=10))
    assert_clean(tmp_path)


@pytest.mark.parametrize("turn", [0, None], ids=["every row has one", "some take turns"])
def test_columns_name_the_row_of_a_queue_that_is_not_there(
    turn: int | None, kernel: str, tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.create_topic("t", 4)
        columns = {"value": [b"x"] * 5, "partition": [turn, 3, 4, 9, 9]}
        with pytest.raises(
            QueueNotFoundError, match=r"^column 'partition', row 3: .*'t' has 4 queues .* id 9\b"
        ) as caught:
            store.append_columns("t", columns)
        assert (caught.value.row, caught.value.column) == (3, "partition")
        assert store.queues() == {}
    assert_clean(tmp_path)


def test_an_arrow_table_of_chunks_has_its_rows_counted_through(tmp_path: Path, assert_clean: AssertClean) -> None:
    """They were counted from the beginning of their chunk: row 6 was told as 1."""
    first = pa.table({"value": [b"x"] * 5, "partition": [0] * 5})
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.create_topic("t", 4)
        for row, said in (
            ({"value": [b"x", None], "partition": [0, 0]}, "column 'value', row 6: no body"),
            ({"value": [b"x", b"x"], "partition": [0, 9]}, "column 'partition', row 6: "),
        ):
            with pytest.raises(InvalidMessageError, match=said) as caught:
                store.append_columns("t", pa.concat_tables([first, pa.table(row)]))
            assert caught.value.row == 6
    assert_clean(tmp_path)


def test_a_topic_of_rocketmqs_counts_as_made_by_hand(
    golden_copy: Callable[[str], Path], assert_clean: AssertClean
) -> None:
    path = golden_copy("v1-clean") / "store"
    with flightlog.open(path) as store:
        name, topic = next(iter(store.topics().items()))
        with pytest.raises(QueueNotFoundError):
            store.put(Message(name, b"x", queue_id=topic.queue_count))
        store.put(Message(name, b"x", queue_id=topic.queue_count - 1))
    assert_clean(path)
