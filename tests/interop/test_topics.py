"""Topics beside RocketMQ's own TopicConfigManager: its topics.json is read by us, ours by it; who deletes, deletes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Message, Topic, TopicPermission
from flightlog.tests.interop import harness, mixed
from flightlog.tests.interop.harness import Line, RocketMq

pytestmark = pytest.mark.ci


@pytest.fixture
def broker_topics(
    rocketmq: RocketMq,
) -> Callable[..., list[Line]]:
    """What a broker's TopicConfigManager reads from `config/topics.json`: a line a topic, and a summary. It then makes
    topics ("NAME:READ_QUEUES:WRITE_QUEUES:PERM:ORDER") and deletes others with their queues, as a broker does."""

    def ask(path: Path, *, make: Sequence[str] = (), delete: Sequence[str] = (), **geometry: Any) -> list[Line]:
        arguments = {"path": path, "make": make, "delete": delete, **harness.java_options(geometry)}
        with rocketmq.run("topics", arguments, 120.0) as output:
            return [json.loads(line) for line in output.read_text().splitlines()]

    return ask


def as_line(topic: Topic) -> dict[str, Any]:
    """A topic of ours in the words of the harness."""
    return {
        "type": "topic",
        "name": topic.name,
        "readQueueNums": topic.read_queue_count,
        "writeQueueNums": topic.write_queue_count,
        "perm": int(topic.perm),
        "order": topic.is_ordered,
        "filterType": topic.filter_type,
        "sysFlag": topic.sys_flag,
        "attributes": dict(topic.attributes),
    }


def by_name(lines: list[Line]) -> dict[str, Line]:
    return {line["name"]: line for line in lines if line["type"] == "topic"}


def summary(lines: list[Line]) -> Line:
    (found,) = [line for line in lines if line["type"] == "summary"]
    return found


def bodies(store: flightlog.Store | flightlog.ReadOnlyStore, topic: str) -> list[bytes]:
    return [m.body for key in store.queues() if key[0] == topic for m in store.read(*key)]


def assert_clean(path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))


def test_each_reads_what_the_other_wrote(
    rocketmq: RocketMq, broker_topics: Callable[..., list[Line]], tmp_path: Path
) -> None:
    path = tmp_path / "store"
    assert not by_name(broker_topics(path, make=["theirs:3:2:6:true", "shut:1:1:4:false", "TBW102:8:8:7:false"]))
    with flightlog.open(path, mixed.small_settings(default_queue_count=5)) as store:
        assert store.topics() == {
            "shut": Topic("shut", 1, 1, TopicPermission.READ),
            "theirs": Topic("theirs", 3, 2, is_ordered=True),
        }
        store.put(Message("made", b"x", queue_id=None))
        store.create_topic("%RETRY%ours|-_", 2, perm=7, attributes={"message.type": "FIFO"})
        store.update_topic("theirs", write_queue_count=9)
        expected = {name: as_line(topic) for name, topic in store.topics(include_system=True).items()}
    text = (path / "config" / "topics.json").read_text()
    read = broker_topics(path, make=["more:1:1:6:false"])
    assert by_name(read) == expected
    version = json.loads(text)["dataVersion"]
    assert summary(read) == {
        "type": "summary",
        "loaded": True,
        "counter": version["counter"],
        "timestamp": version["timestamp"],
    }
    with flightlog.open(path, mixed.small_settings()) as store:
        found = {name: as_line(topic) for name, topic in store.topics(include_system=True).items()}
        assert found.pop("more") and found == expected

    opened = rocketmq.open_store(path, **mixed.SMALL)
    assert [(line["topic"], line["queueId"]) for line in opened.messages] == [("made", 0)]
    assert (path / "config" / "topics.json").read_text() != text
    assert_clean(path)


def test_what_rocketmq_deleted_stays_deleted(
    rocketmq: RocketMq, broker_topics: Callable[..., list[Line]], tmp_path: Path
) -> None:
    path = tmp_path / "store"
    geometry: dict[str, Any] = {**mixed.SMALL, "queues": 2}
    rocketmq.write_store(path, seed=1, count=300, topics=["goes", "stays"], **geometry)
    broker_topics(path, make=["goes:2:2:6:false", "stays:2:2:6:false"])
    with flightlog.open_read_only(path) as view:
        stays, goes = bodies(view, "stays"), bodies(view, "goes")
    assert stays and goes

    broker_topics(path, delete=["goes"], **mixed.SMALL)
    assert not (path / "consumequeue" / "goes").exists()
    with flightlog.open_read_only(path) as view:
        assert bodies(view, "stays") == stays and not bodies(view, "goes") and "goes" not in view.topics()
        assert view.verify().is_clean
    anew = tmp_path / "anew"
    shutil.copytree(path, anew)
    with flightlog.open(path, mixed.small_settings()) as store:
        assert bodies(store, "stays") == stays and not bodies(store, "goes")
    shutil.rmtree(path / "consumequeue")
    with flightlog.open(path, mixed.small_settings()) as store:
        assert bodies(store, "stays") == stays and not bodies(store, "goes"), "we have noted it"
    assert_clean(path)

    # And made anew by RocketMQ, before we ever saw the store: what is older is in no queue.
    opened = rocketmq.open_store(anew, append=60, seed=2, topics=["goes", "stays"], **geometry)
    mine = {(m["topic"], m["queueId"], m["queueOffset"]): m["commitLogOffset"] for m in opened.appended}
    broker_topics(anew, make=["goes:2:2:6:false"])
    for lost in (None, "consumequeue"):
        if lost is not None:
            shutil.rmtree(anew / lost)
        with flightlog.open_read_only(anew) as view:
            found = {
                (m.topic, m.queue_id, m.queue_offset): m.physical_offset for q in (0, 1) for m in view.read("goes", q)
            }
            assert found == {key: place for key, place in mine.items() if key[0] == "goes"}
            assert min(key[2] for key in found) == 0
            assert len(bodies(view, "stays")) == len(stays) + sum(key[0] == "stays" for key in mine)
    with flightlog.open(anew, mixed.small_settings()) as store:
        assert len(bodies(store, "goes")) == len(found)
    assert_clean(anew)


def test_what_we_deleted_stays_deleted_beside_rocketmq(
    rocketmq: RocketMq, broker_topics: Callable[..., list[Line]], tmp_path: Path
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, mixed.small_settings()) as store:
        for i in range(50):
            store.put(Message("stays", b"s%d" % i, queue_id=i % 3))
            store.put(Message("goes", b"g%d" % i, queue_id=i % 3))
        store.delete_topic("goes")
        expected = bodies(store, "stays")
    assert set(by_name(broker_topics(path))) == {"stays"}
    # The very last record is one of the deleted topic: RocketMQ dispatches what lies behind the last queue entry.
    opened = rocketmq.open_store(path, **mixed.SMALL)
    assert {line["topic"] for line in opened.messages if line["cqTopic"] == "stays"} == {"stays"}
    assert len([line for line in opened.messages if line["topic"] == "goes"]) <= 1
    with flightlog.open_read_only(path) as view:
        assert bodies(view, "stays") == expected and not bodies(view, "goes")
    with flightlog.open(path, mixed.small_settings()) as store:
        assert bodies(store, "stays") == expected and not bodies(store, "goes")
        assert store.put(Message("goes", b"new")).queue_offset == 0
    assert_clean(path)
    opened = rocketmq.open_store(path, **mixed.SMALL)
    assert [line["queueOffset"] for line in opened.messages if line["topic"] == "goes"] == [0]
