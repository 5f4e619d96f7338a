"""Topics: made by puts and by hand, with queues in turn, permissions, and a file in RocketMQ's shape."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings, Topic, TopicColumns, TopicPermission
from flightlog.store.errors import (
    InvalidMessageError,
    InvalidTopicError,
    QueueNotFoundError,
    TopicExistsError,
    TopicNotFoundError,
    TopicPermissionError,
    TopicTooLongError,
    UsageError,
)

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SETTINGS = StoreSettings.small(key_index=False)
BY_HAND = StoreSettings.small(key_index=False, auto_create_topics=False)


def topics_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "config" / "topics.json").read_text())
    return found


def counts(topic: Topic | None) -> tuple[int, int]:
    assert topic is not None
    return topic.read_queue_count, topic.write_queue_count


# -- made by a put


def test_a_put_makes_a_topic_whose_queues_take_turns(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        results = [store.put(Message("orders", b"%d" % i, queue_id=None)) for i in range(10)]
        results += store.put_many([Message("orders", b"x", queue_id=None)] * 2)
        results += [store.put_async(Message("orders", b"x", queue_id=None)).result() for _ in range(4)]
        assert [r.queue_id for r in results] == [0, 1, 2, 3] * 4
        assert [r.queue_offset for r in results] == [i // 4 for i in range(16)]
        assert store.topic("orders") == Topic("orders", 4, 4)
        assert store.put(Message("orders", b"x", queue_id=2)).queue_id == 2
        assert store.put(Message("orders", b"x")).queue_id == 0, "without a word about queues it is the first one"
        assert store.put(Message("orders", b"x", queue_id=None)).queue_id == 0, "only puts without an id take turns"
        assert store.topics() == {"orders": Topic("orders", 4, 4)}
        assert store.topic("other") is None
    assert topics_json(tmp_path)["topicConfigTable"]["orders"] == {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "orders",
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }
    assert_clean(tmp_path)


@pytest.mark.parametrize(
    ("topic", "count"), [("t", 3), ("%RETRY%group", 1), ("%DLQ%group", 1), ("täg-テスト", 3), ("BenchmarkTest", 3)]
)
def test_how_many_queues_it_has(topic: str, count: int, tmp_path: Path, assert_clean: AssertClean) -> None:
    settings = StoreSettings.small(default_queue_count=3, rocketmq_strict=False)
    with flightlog.open(tmp_path, settings) as store:
        results = [store.put(Message(topic, b"x", queue_id=None)) for _ in range(6)]
        assert {r.queue_id for r in results} == set(range(count))
        assert counts(store.topic(topic)) == (count, count)
    assert_clean(tmp_path)


def test_threads_take_turns_without_a_gap(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:

        def put() -> None:
            for _ in range(100):
                store.put(Message("t", b"x", queue_id=None))

        threads = [threading.Thread(target=put) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {key: end for key, (_, end) in store.queues().items()} == {("t", i): 100 for i in range(4)}
    assert_clean(tmp_path)


def test_a_higher_queue_id_gives_the_topic_more_queues(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put_many([Message("t", b"x", queue_id=5), Message("new", b"x", queue_id=6)])
        assert {name: counts(topic) for name, topic in store.topics().items()} == {"t": (6, 6), "new": (7, 7)}
        found = Counter(store.put(Message("t", b"x", queue_id=None)).queue_id for _ in range(12))
        assert found == dict.fromkeys(range(6), 2)
        store.put(Message("t", b"x", queue_id=63))
        assert counts(store.topic("t")) == (64, 64)
    with flightlog.open(tmp_path, SETTINGS) as store:
        assert counts(store.topic("t")) == (64, 64)
        store.put(Message("new", b"x", queue_id=9))
        assert counts(store.topic("new")) == (10, 10), "it is still known that a put made it"
    assert_clean(tmp_path)


def test_what_a_put_made_is_known_after_a_kill(
    tmp_path: Path, copy_as_killed: Callable[[Path, Path], None], assert_clean: AssertClean
) -> None:
    path, killed = tmp_path / "store", tmp_path / "killed"
    with flightlog.open(path, StoreSettings.small(flush_interval_ms=3_600_000)) as store:
        store.create_topic("made", 5, perm=6, order=True)
        ids = {"t": 1, "u": 8, "made": 4}
        store.put_many([Message(topic, b"x", queue_id=queue_id) for topic, queue_id in ids.items()])
        copy_as_killed(path, killed)
    assert set(topics_json(killed)["topicConfigTable"]) == {"made"}
    with flightlog.open_read_only(killed) as view:
        assert counts(view.topic("u")) == (9, 9)
    with flightlog.open(killed, BY_HAND) as store:
        expected = {"t": (4, 4), "u": (9, 9), "made": (5, 5)}
        assert {name: counts(topic) for name, topic in store.topics().items()} == expected
        assert store.topics()["made"].is_ordered
        store.put(Message("u", b"x", queue_id=8))
    with flightlog.open(killed, SETTINGS) as store:
        store.put(Message("u", b"x", queue_id=20))
        with pytest.raises(QueueNotFoundError):
            store.put(Message("made", b"x", queue_id=5))
    assert_clean(killed)


@pytest.mark.parametrize("name", ["v1-clean", "minoffset"])
def test_topics_of_a_store_that_no_broker_served(
    name: str, golden_copy: Callable[[str], Path], assert_clean: AssertClean
) -> None:
    path = golden_copy(name) / "store"
    with flightlog.open_read_only(path) as view:
        known = view.topics()
        queues = set(view.queues())
    assert all(queue_id < known[topic].queue_count for topic, queue_id in queues)
    with flightlog.open(path, StoreSettings(auto_create_topics=False)) as store:
        assert store.topics() == known
        topic = next(iter(known))
        store.put(Message(topic, b"x", queue_id=None))
        with pytest.raises(TopicNotFoundError):
            store.put(Message("another", b"x"))
    assert_clean(path)


# -- made by hand


def test_a_topic_that_is_not_there_is_refused_by_setting(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, BY_HAND) as store:
        for put in (store.put, store.put_async, lambda message: store.put_many([message])):
            with pytest.raises(TopicNotFoundError, match=r"'t'.*create_topic") as caught:
                put(Message("t", b"x"))
            assert isinstance(caught.value, InvalidMessageError)
        store.create_topic("t", 2)
        store.put(Message("t", b"x", queue_id=1))
        with pytest.raises(QueueNotFoundError, match=r"'t' has 2 queues .* id 2\b.*update_topic"):
            store.put(Message("t", b"x", queue_id=2))
        with pytest.raises(QueueNotFoundError):
            store.put_many([Message("t", b"x"), Message("t", b"x", queue_id=2)])
        assert store.queues() == {("t", 1): (0, 1)}, "nothing of a refused call is stored"
        store.update_topic("t", 3)
        store.put(Message("t", b"x", queue_id=2))
    assert_clean(tmp_path)


def test_queues_are_added_and_taken_out_of_service_while_running(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, BY_HAND) as store, flightlog.open_read_only(tmp_path) as view:
        store.create_topic("t", write_queue_count=2, read_queue_count=3)
        assert counts(view.topic("t")) == (3, 2)
        assert [store.put(Message("t", b"x", queue_id=None)).queue_id for _ in range(3)] == [0, 1, 0]
        assert store.put(Message("t", b"x", queue_id=2)).queue_id == 2, "a queue that is still read takes explicit puts"
        assert store.update_topic("t", 4) == Topic("t", 4, 4) == view.topic("t")
        assert [store.put(Message("t", b"x", queue_id=None)).queue_id for _ in range(4)] == [3, 0, 1, 2]
        view.refresh()
        assert set(view.queues()) == {("t", i) for i in range(4)}
        store.update_topic("t", write_queue_count=1)
        assert {store.put(Message("t", b"x", queue_id=None)).queue_id for _ in range(3)} == {0}
        store.update_topic("t", read_queue_count=1)
        with pytest.raises(QueueNotFoundError):
            store.put(Message("t", b"x", queue_id=3))
        assert len(list(store.read("t", 3))) == 1
        store.update_topic("t", write_queue_count=0)
        with pytest.raises(QueueNotFoundError, match="write_queue_count"):
            store.put(Message("t", b"x", queue_id=None))
    with flightlog.open(tmp_path) as store:
        assert counts(store.topic("t")) == (1, 0), "queues that were taken away do not come back"
    assert_clean(tmp_path)


def test_who_may_put(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.create_topic("t", perm=4)
        for queue_id in (0, None, 9):
            with pytest.raises(TopicPermissionError, match="permission 4"):
                store.put(Message("t", b"x", queue_id=queue_id))
        assert store.update_topic("t", perm=2).perm == TopicPermission.WRITE
        store.put(Message("t", b"x"))
        assert [m.body for m in store.read("t")] == [b"x"]
        store.update_topic("t", perm=0)
        with pytest.raises(TopicPermissionError):
            store.put(Message("t", b"x"))
    with flightlog.open(tmp_path, SETTINGS) as store, pytest.raises(TopicPermissionError):
        store.put(Message("t", b"x"))
    assert_clean(tmp_path)


def test_rocketmqs_own_topics(tmp_path: Path, assert_clean: AssertClean) -> None:
    own = ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SELF_TEST_TOPIC")
    with flightlog.open(tmp_path, SETTINGS) as store:
        for name in (*own, "TRANS_CHECK_MAX_TIME_TOPIC", "OFFSET_MOVED_EVENT"):
            with pytest.raises(TopicPermissionError, match="RocketMQ's own"):
                store.put(Message(name, b"x"))
            with pytest.raises(InvalidTopicError):
                store.create_topic(name)
        for name in ("TBW102", "rmq_sys_wheel_timer", "BenchmarkTest", "CHECKPOINT_TOPIC"):
            with pytest.raises(InvalidTopicError):
                store.create_topic(name)
        store.put(Message("BenchmarkTest", b"x"))
        assert not store.topics()
        assert set(store.topics(include_system=True)) == {"BenchmarkTest"}
        with pytest.raises(InvalidMessageError):
            store.put(Message("t", b"x", queue_id=-1))
        assert store.topic("t") is None, "a message that is refused makes no topic"
    assert_clean(tmp_path)


def test_nobody_puts_to_rocketmqs_own_topics_because_its_file_names_them(
    tmp_path: Path, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small()) as store:
        store.put(Message("t", b"x"))
    file = path / "config" / "topics.json"
    found = json.loads(file.read_text())
    broker = {"perm": 6, "readQueueNums": 18, "writeQueueNums": 18, "topicName": "SCHEDULE_TOPIC_XXXX"}
    found["topicConfigTable"]["SCHEDULE_TOPIC_XXXX"] = broker
    file.write_text(json.dumps(found))
    with flightlog.open(path, StoreSettings.small()) as store:
        with pytest.raises(TopicPermissionError, match="RocketMQ's own"):
            store.put(Message("SCHEDULE_TOPIC_XXXX", b"x"))
        parked = store.put(Message("t", b"later", delay_level=3))
        assert (parked.topic, parked.queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)
        assert store.topics(include_system=True)["SCHEDULE_TOPIC_XXXX"].write_queue_count == 18
    assert_clean(path)


@pytest.mark.parametrize("name", ["", " ", "a b", "t.1", "täg", "a/b", "..", "t\n", "t\0", 7, None])
def test_names_that_rocketmq_gives_no_topic(name: Any, tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store, pytest.raises(InvalidTopicError):
        store.create_topic(name)


def test_the_longest_name(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        with pytest.raises(TopicTooLongError, match="127"):
            store.create_topic("a" * 128)
        store.create_topic("%RETRY%|a-Z_0" + "a" * 114)
        store.put(Message("%RETRY%|a-Z_0" + "a" * 114, b"x"))
    assert_clean(tmp_path)


NONSENSE: dict[str, dict[str, Any]] = {
    "no queues": {"queue_count": 0},
    "fewer than none": {"read_queue_count": -1},
    "too many": {"write_queue_count": 1 << 31},
    "queues in words": {"queue_count": "4"},
    "true queues": {"queue_count": True},
    "no permission": {"perm": 8},
    "a negative one": {"perm": -1},
    "one in words": {"perm": "rw"},
    "an order in words": {"order": "yes"},
    "attributes that are numbers": {"attributes": {"a": 1}},
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused(name: str, tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        with pytest.raises(UsageError):
            store.create_topic("t", **NONSENSE[name])
        store.create_topic("u")
        before = (tmp_path / "config" / "topics.json").read_bytes()
        with pytest.raises(UsageError):
            store.update_topic("u", **NONSENSE[name])
        assert (tmp_path / "config" / "topics.json").read_bytes() == before


def test_calls_that_make_no_sense(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.create_topic("t")
        with pytest.raises(TopicExistsError, match="update_topic"):
            store.create_topic("t")
        with pytest.raises(TopicNotFoundError, match="create_topic"):
            store.update_topic("u", 3)
        with pytest.raises(UsageError, match="nothing to change"):
            store.update_topic("t")
    for call in (store.topics, lambda: store.create_topic("v"), lambda: store.update_topic("t", 1)):
        with pytest.raises(UsageError, match="closed"):
            call()


FREE_NAMES = ["dotted.topic", "täg", "a b", "t#x"]
PUTS: dict[str, Callable[[Store, str], object]] = {
    "put": lambda store, name: store.put(Message(name, b"x")),
    "put_many": lambda store, name: store.put_many([Message("t", b"x"), Message(name, b"x")]),
    "put_async": lambda store, name: store.put_async(Message(name, b"x")).result(),
    "append_columns": lambda store, name: store.append_columns(name, {"value": [b"x"]}),
    "append_atomically": lambda store, name: store.append_atomically([TopicColumns(name, {"value": [b"x"]})]),
    "put, delayed": lambda store, name: store.put(Message(name, b"x", delay_level=1)),
}


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("name", FREE_NAMES)
@pytest.mark.parametrize("call", PUTS)
def test_a_put_makes_no_topic_that_clients_of_rocketmq_refuse(
    call: str, name: str, tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put(Message("t", b"there"))
        with pytest.raises(InvalidTopicError, match="rocketmq_strict=False .* allows others"):
            PUTS[call](store, name)
        assert [message.body for message in store.read("t")] == [b"there"] and list(store.topics()) == ["t"]
    with flightlog.open(tmp_path, replace(SETTINGS, rocketmq_strict=False)) as store:
        PUTS[call](store, name)
        assert name in store.topics()
    with flightlog.open(tmp_path, SETTINGS) as store:  # it goes on
        PUTS[call](store, name)
    assert_clean(tmp_path)
