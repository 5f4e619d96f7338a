"""Streams through Spark: restarts, limits, triggers, refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors.exceptions.captured import StreamingQueryException

import flightlog
from flightlog import Message, StoreSettings
from flightlog.tests.support import slow_streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.ci

SETTINGS = StoreSettings(segment_size=16 << 10, rocketmq_strict=False)
SPARK_LIMITS_BATCHES = find_spec("pyspark.sql.streaming.datasource") is not None
"""From 4.2 on. Before it Spark asks once where a query with availableNow ends, and one batch goes there."""


def start(writer: Any) -> StreamingQuery:
    """Start a query, and return when it has read what there is."""

    def run() -> StreamingQuery:
        query: StreamingQuery = writer.start()
        query.processAllAvailable()
        return query

    return slow_streams.begun(run)


class Query:
    """One query over a store, started again and again on its checkpoint; rows by batch."""

    def __init__(self, spark: SparkSession, path: Path, folder: Path, **options: Any) -> None:
        self._spark, self._path, self._folder = spark, path, folder
        self._options = {"columns": "topic,partition,offset,physicalOffset,value", **options}
        self.batches: dict[int, list[int]] = {}

    @contextmanager
    def running(self, **trigger: Any) -> Iterator[StreamingQuery]:
        """The query, when it has read what there is."""
        frame = self._spark.readStream.format("flightlog").options(**self._options).load(str(self._path))
        writer = frame.writeStream.option("checkpointLocation", str(self._folder)).foreachBatch(self._keep)
        query = start(writer.trigger(**trigger) if trigger else writer)
        try:
            yield query
        finally:
            query.stop()

    def _keep(self, frame: DataFrame, number: int) -> None:
        found = sorted(row.physicalOffset for row in frame.collect())
        assert self.batches.setdefault(number, found) == found

    @property
    def rows(self) -> list[int]:
        return [offset for number in sorted(self.batches) for offset in self.batches[number]]


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Callable[..., Query]:
    def make(**options: Any) -> Query:
        return Query(spark, tmp_path / "store", tmp_path / "checkpoint", **options)

    return make


def write(path: Path, start: int, stop: int) -> None:
    with flightlog.open(path, SETTINGS) as store:
        store.put_many([Message("orders", b"%d" % n * (n % 90), queue_id=n % 3) for n in range(start, stop)])


def places(path: Path) -> list[int]:
    with flightlog.open_read_only(path) as view:
        return sorted(message.physical_offset for queue in view.queues() for message in view.read(*queue))


def test_a_stream_goes_on_where_it_was(tmp_path: Path, query: Callable[..., Query]) -> None:
    path = tmp_path / "store"
    write(path, 0, 300)
    stream = query(startingOffsets="earliest", maxOffsetsPerTrigger=100, splitBytes=8192)
    with stream.running() as running:
        assert stream.rows == places(path)
        write(path, 300, 350)
        running.processAllAvailable()
        assert stream.rows == places(path)
        progress = running.lastProgress
        assert progress is not None
        (source,) = progress["sources"]
        assert source["endOffset"] == source["latestOffset"], "the progress tells where the store ends"
    assert [len(rows) for rows in stream.batches.values() if rows] == [100, 100, 100, 50]
    write(path, 350, 600)
    for start in range(1 if SPARK_LIMITS_BATCHES else 3):
        assert len(stream.rows) == 350 + 100 * start
        with stream.running(availableNow=True) as running:
            running.awaitTermination()
    assert stream.rows == places(path)
    assert [len(rows) for rows in stream.batches.values() if rows][4:] == [100, 100, 50]


def test_a_new_stream_begins_at_the_latest_offset(tmp_path: Path, query: Callable[..., Query]) -> None:
    path = tmp_path / "store"
    write(path, 0, 100)
    stream = query()
    with stream.running() as running:
        assert stream.rows == []
        write(path, 100, 120)
        running.processAllAvailable()
    assert stream.rows == places(path)[100:]


def test_a_lost_beginning_ends_the_query_and_says_what_to_do(tmp_path: Path, query: Callable[..., Query]) -> None:
    path = tmp_path / "store"
    write(path, 0, 50)
    stream = query(startingOffsets="earliest")
    with stream.running(availableNow=True) as running:
        running.awaitTermination()
    write(path, 50, 600)
    (path / "commitlog" / f"{0:020d}").unlink()
    with (
        pytest.raises(StreamingQueryException, match=r"gone before it was read: .*failOnDataLoss=false"),
        stream.running(availableNow=True),
    ):
        pass


def test_a_stream_over_topics_with_tags_and_other_columns(tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS) as store:
        store.put_many(
            [Message("orders" if n % 2 else "other", b"%d" % n, "pay" if n % 3 else "create") for n in range(300)]
        )
    options = {"subscribe": "orders", "startingOffsets": "earliest", "tags": "pay"}
    if SPARK_LIMITS_BATCHES:
        options["maxOffsetsPerTrigger"] = "40"
    frame = spark.readStream.format("flightlog").options(**options).load(str(path)).select("value", "tags")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    start(writer.trigger(availableNow=True).option("path", str(tmp_path / "sink"))).awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "sink")).collect()
    assert sorted(int(row.value) for row in rows) == [n for n in range(300) if n % 2 and n % 3]
    assert {row.tags for row in rows} == {"pay"}
