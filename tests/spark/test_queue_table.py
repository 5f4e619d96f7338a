"""The table of queues, beside what the store says message by message."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
import flightlog.spark
from flightlog import Message, StoreSettings
from flightlog.spark.options.bounds import is_internal
from flightlog.spark.options.read_options import parse_options
from flightlog.spark.read.queue_table import queue_batch
from flightlog.spark.schema import QUEUE_COLUMNS, arrow_schema, spark_schema
from flightlog.store.errors import CorruptRecordError, InvalidSettingsError
from flightlog.tests.engine.test_golden_read import CLEAN, HALTED
from flightlog.tests.support import slow_streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Load = Callable[..., DataFrame]

NAMES = tuple(column.name for column in QUEUE_COLUMNS)


def rows_of(path: Path, **given: str) -> list[dict[str, Any]]:
    """As a task makes them, without Spark."""
    options = parse_options({"path": str(path), "table": "queues", **given})
    schema = spark_schema(options.columns, options.shown)
    batch = queue_batch(options.stores[0], schema.names, arrow_schema(schema, find=options.find), options)
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


def counted(path: Path) -> list[dict[str, Any]]:
    """By reading every message."""
    found = []
    with flightlog.open_read_only(path) as view:
        for (topic, queue_id), (first, end) in sorted(view.queues().items()):
            if is_internal(topic.encode()) or topic.startswith("%LMQ%"):
                continue
            sizes: dict[int, int] = {}
            for index in range(first, end):
                unit = view.queue_table.get((topic, queue_id)).units(index, 1)[0]  # type: ignore[union-attr]
                sizes[int(unit["physical_offset"])] = int(unit["size"])
            times = [_time(view, topic, queue_id, index) if first < end else None for index in (first, end - 1)]
            offsets = [first, end - 1] if first < end else [None, None]
            row = [topic, queue_id, *offsets, *times, end - first, sum(sizes.values())]
            found.append(dict(zip(NAMES, row, strict=False)))
    return found


def _time(view: flightlog.ReadOnlyStore, topic: str, queue_id: int, index: int) -> datetime | None:
    try:
        [message] = view.get(topic, queue_id, index, 1).messages
    except CorruptRecordError:
        return None
    return datetime.fromtimestamp(message.store_timestamp_ms / 1000, UTC)


@pytest.mark.parametrize("name", HALTED + CLEAN)
def test_golden_stores(name: str, golden: Callable[[str], Path]) -> None:
    store = golden(name) / "store"
    columns = ",".join(NAMES[:-1])
    assert rows_of(store, columns=columns) == counted(store)
    assert [row["topic"] for row in rows_of(store)] == [row["topic"] for row in counted(store)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three queues with messages, and two groups, one of which has read a part of one queue."""
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        store.create_topic("empty", 1)
        for number in range(30):
            store.put(Message("orders" if number % 3 else "bills", b"%d" % number, queue_id=number % 2))
        store.commit_offset("early", "orders", 1, 4)
        store.commit_offset("late", "orders", 0, 10)
        store.commit_offset("late", "orders", 1, 10)
    return tmp_path / "store"


def test_every_column_of_a_store_of_ours(path: Path) -> None:
    rows = rows_of(path)
    lags = [row.pop("groupLag") for row in rows]
    assert rows == counted(path)
    assert lags == [[], [], [("early", 10), ("late", 0)], [("early", 6), ("late", 0)]]
    assert [row["topic"] for row in rows_of(path, subscribe="orders")] == ["orders", "orders"]


def test_options_of_messages_are_refused(path: Path) -> None:
    for name, value in (("tags", "a"), ("startingOffsets", "earliest"), ("onCorrupt", "skip")):
        with pytest.raises(InvalidSettingsError, match=f"'{name}' beside table=queues"):
            parse_options({"path": str(path), "table": "queues", name.lower(): value})
    with pytest.raises(InvalidSettingsError, match="the table of queues has no such column"):
        parse_options({"path": str(path), "table": "queues", "columns": "topic,value"})
    with pytest.raises(InvalidSettingsError, match="expected messages or queues"):
        parse_options({"path": str(path), "table": "topics"})
    with pytest.raises(InvalidSettingsError, match="is no stream"):
        parse_options({"path": str(path), "table": "queues"}).require_stream()


@pytest.mark.ci
def test_spark_shows_the_table_of_queues(path: Path, load: Load, spark: SparkSession, tmp_path: Path) -> None:
    found = flightlog.spark.queues(path)
    assert found.columns == list(NAMES)
    rows = [row.asDict() for row in found.orderBy("topic", "partition").collect()]
    assert [(row["topic"], row["partition"], row["count"]) for row in rows] == [
        (row["topic"], row["partition"], row["count"]) for row in counted(path)
    ]
    assert rows[-1]["groupLag"] == {"early": 6, "late": 0}
    assert load(path, table="queues").selectExpr("sum(count)").first()[0] == load(path).count() == 30  # type: ignore[index]
    assert load(path, table="queues", columns="COUNT,topic").columns == ["count", "topic"]
    both = spark.read.format("flightlog").options(table="queues").load([str(path), str(path.parent / "*")])
    assert "store" in both.columns and both.count() == len(rows)
    spark.sql(f"CREATE TEMPORARY VIEW queues_of USING flightlog OPTIONS (path '{path}', table 'queues')")
    assert spark.sql("SELECT max(lastOffset) FROM queues_of").first()[0] == 9  # type: ignore[index]
    writer = spark.readStream.format("flightlog").options(table="queues").load(str(path)).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="is no stream"):
        slow_streams.begun(lambda: writer.start().processAllAvailable())
