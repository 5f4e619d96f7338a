"""Queues chosen through Spark, by the words of its Kafka source: golden stores, tasks, times, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.tests.support import slow_streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Load = Callable[..., DataFrame]
    GetSet = Callable[[str], Path]

pytestmark = pytest.mark.ci

PREPARED, ROLLBACK, TRANSACTION_BITS, INNER_BATCH = 0x4, 0xC, 0xC, 0x80
FIELDS = {
    "topic": "topic",
    "partition": "queueId",
    "offset": "queueOffset",
    "physicalOffset": "commitLogOffset",
    "size": "size",
    "bodyCrc": "bodyCRC",
    "tags": "tags",
    "uniqKey": "uniqKey",
    "messageId": "msgId",
    "properties": "properties",
    "sysFlag": "sysFlag",
}


def stored(root: Path) -> list[dict[str, Any]]:
    """The manifest's messages that stand in queues, as rows."""
    first_kept = min(int(path.name) for path in (root / "store" / "commitlog").iterdir())
    manifests = sorted(root.glob("manifest*.jsonl"))
    lines = [json.loads(line) for path in manifests for line in path.read_text().splitlines()]
    put = [line for line in lines if line["type"] == "msg" and line["status"] == "PUT_OK"]
    kept = [line for line in put if line["commitLogOffset"] >= first_kept]
    listed = [line for line in kept if line["sysFlag"] & TRANSACTION_BITS not in (PREPARED, ROLLBACK)]
    rows = [{column: line[field] for column, field in FIELDS.items()} for line in listed]
    return sorted(rows, key=lambda row: int(row["physicalOffset"]))


def found(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: int(row["physicalOffset"]))


@pytest.mark.parametrize(
    "name", ["rollover", "minoffset", "preblank", "delay-tx", "lmq", "cqext", "abort-cqlag", "v2-v6"]
)
def test_golden_stores_through_their_queues(name: str, golden: GetSet, load: Load) -> None:
    root = golden(name)
    rows = stored(root)
    columns = ",".join(FIELDS)
    topics = sorted({row["topic"] for row in rows})
    everything = load(root / "store", columns=columns, includeInternal=True, subscribe=",".join(topics))
    assert found(everything) == rows
    queues = sorted({(row["topic"], row["partition"]) for row in rows})[::2]
    assign = json.dumps({topic: [each for of, each in queues if of == topic] for topic, _ in queues})
    some = load(root / "store", columns=columns, includeInternal=True, assign=assign, minPartitions=3)
    assert found(some) == [row for row in rows if (row["topic"], row["partition"]) in queues]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics with two queues each. Read it, never write."""
    path = tmp_path_factory.mktemp("selection") / "store"
    with flightlog.open(path, StoreSettings.small(segment_size=64 << 10)) as opened:
        opened.put_many([Message("ab"[i // 2 % 2], b"%d" % i, queue_id=i % 2, tags="t") for i in range(2000)])
        assert opened.verify().is_clean
    return path


def test_offsets_of_each_queue(store: Path, load: Load) -> None:
    frame = load(
        store,
        subscribe="a",
        startingOffsets='{"a": {"0": 10, "1": -2}}',
        endingOffsets='{"a": {"0": -1, "1": 20}}',
    )
    places = {(row.topic, row.partition, row.offset) for row in frame.collect()}
    assert places == {("a", 0, i) for i in range(10, 500)} | {("a", 1, i) for i in range(20)}
    everything = load(store, startingOffsets='{"a": {"0": 499, "1": 500}, "b": {"0": 500, "1": 498}}')
    assert sorted((row.topic, row.partition, row.offset) for row in everything.collect()) == [
        ("a", 0, 499),
        ("b", 1, 498),
        ("b", 1, 499),
    ]


def test_times(store: Path, load: Load) -> None:
    with flightlog.open_read_only(store) as view:
        stored_ms = sorted(m.store_timestamp_ms for queue in view.queues() for m in view.read(*queue))
    middle, last = stored_ms[1000], stored_ms[-1]
    between = {"startingTimestamp": middle, "endingTimestamp": last}
    assert load(store, **between).count() == sum(middle <= ms < last for ms in stored_ms)
    assert load(store, startingTimestamp=last + 1).count() == 0
    assert load(store, subscribe="a,b", **between).count() == sum(middle <= ms < last for ms in stored_ms)


@pytest.mark.parametrize("way", [{}, {"subscribe": "a"}])
def test_as_many_tasks_as_asked_for(store: Path, load: Load, way: dict[str, str]) -> None:
    few, many = load(store, **way), load(store, minPartitions=9, **way)
    assert few.rdd.getNumPartitions() < 9 <= many.rdd.getNumPartitions()
    assert found(many.drop("timestamp")) == found(few.drop("timestamp"))


def test_a_filter_on_what_was_chosen(store: Path, load: Load) -> None:
    frame = load(store, subscribe="a", pushDownPredicate="true")
    assert frame.filter("topic = 'b'").count() == 0
    assert [row.offset for row in frame.filter("partition = 1 and offset < 3").orderBy("offset").collect()] == [0, 1, 2]


def test_wrong_calls_are_named_by_spark(store: Path, load: Load, spark: SparkSession) -> None:
    with pytest.raises(Exception, match="options subscribe and assign: expected one of"):
        load(store, subscribe="a", assign='{"a": [0]}')
    with pytest.raises(Exception, match="a batch query cannot start at the latest offset"):
        load(store, startingOffsets="latest").count()
    with pytest.raises(Exception, match=f"c: not in {store}; found topics a, b"):
        load(store, subscribe="a,c").count()
    with pytest.raises(Exception, match="minPartitions='0': expected a number of tasks, 1 or more"):
        load(store, minPartitions=0)
    lost = {"subscribe": "a", "endingOffsets": '{"a": {"0": 501, "1": -1}}'}
    with pytest.raises(Exception, match="offset 501 of topic a queue 0, which holds offsets 0 to 500"):
        load(store, **lost).count()
    assert load(store, failOnDataLoss=False, **lost).count() == 1000
    endless = spark.readStream.format("flightlog").option("endingOffsets", "latest").load(str(store))
    with pytest.raises(Exception, match="a stream has no end"):
        slow_streams.begun(lambda: endless.writeStream.format("noop").start().processAllAvailable())
