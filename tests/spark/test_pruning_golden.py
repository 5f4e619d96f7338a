"""Filters over every golden store: what is read through queues is what a scan of the log finds, also where queues lag,
hold addresses for hashes, list batches, or speak of a damaged log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import datasource as asked

from flightlog.spark.options.read_options import parse_options
from flightlog.spark.plan.batch_planning import plan_batch
from flightlog.spark.plan.filters import bounds_of
from flightlog.spark.plan.queue_planning import QueueRange
from flightlog.spark.read.reading import read_ranges
from flightlog.spark.schema import arrow_schema, spark_schema

Row = dict[str, Any]
COLUMNS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "tags",
    "key",
    "uniqKey",
    "physicalOffset",
    "batchIndex",
    "value",
)

SETS = (
    *("abort", "abort-cqlag", "abort-crcflip", "abort-late", "abort-reopen", "abort-torn", "batch-bcq", "clean-cqlag"),
    *("clean-crcflip", "cqext", "default-sizes", "delay-tx", "lmq", "minoffset", "preblank", "propcrc", "rollover"),
    *("v1-clean", "v2-v6"),
)
SPLIT_BYTES = 200_000

pytestmark = pytest.mark.ci


def query(path: Path, *filters: Any, **options: Any) -> tuple[list[Row], bool]:
    """The rows of a query in the order of the log, and whether queues were read for them."""
    given = {"path": str(path), "onCorrupt": "skip", "splitBytes": str(SPLIT_BYTES), **options}
    parsed = parse_options(given)
    parsed = replace(parsed, bounds=parsed.bounds & bounds_of(filters))
    schema = arrow_schema(spark_schema(COLUMNS))
    tasks = plan_batch(parsed)
    rows = [row for task in tasks for batch in read_ranges(task, schema, parsed) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["physicalOffset"], -1 if row["batchIndex"] is None else row["batchIndex"]))
    return rows, any(isinstance(each, QueueRange) for task in tasks for each in task)


@pytest.mark.parametrize("name", SETS)
def test_the_rows_of_a_query_do_not_depend_on_what_is_left_out(golden: Callable[[str], Path], name: str) -> None:
    path = golden(name) / "store"
    everything, by_queues = query(path)
    assert everything and not by_queues
    topics = Counter(row["topic"] for row in everything).most_common()
    for topic, count in [*topics[:4], *topics[4:][-2:]]:
        wanted = [row for row in everything if row["topic"] == topic]
        found, _ = query(path, asked.EqualTo(("topic",), topic))
        assert found == wanted, topic
        middle = wanted[count // 2]
        for column in ("offset", "physicalOffset", "timestamp"):
            filters = asked.EqualTo(("topic",), topic), asked.LessThan((column,), middle[column])
            found, _ = query(path, *filters)
            found = [row for row in found if row[column] < middle[column]]
            assert found == [row for row in wanted if row[column] < middle[column]], column
        for column in ("tags", "key", "uniqKey"):
            value = middle[column]
            if value is not None:
                found, _ = query(path, asked.EqualTo(("topic",), topic), asked.EqualTo((column,), value))
                assert found == [row for row in wanted if row[column] == value], column
    for column in ("key", "uniqKey"):
        values = sorted({row[column] for row in everything} - {None})
        for value in values[:: max(len(values) // 3, 1)]:
            found, _ = query(path, asked.EqualTo((column,), value))
            assert found == [row for row in everything if row[column] == value], column
    for tags in {row["tags"] for row in everything} - {None, "A||B"}:  # which the option cannot name
        assert query(path, tags=tags)[0] == [row for row in everything if row["tags"] == tags]


def test_a_topic_that_is_little_of_the_log_is_read_through_its_queues(golden: Callable[[str], Path]) -> None:
    path = golden("rollover") / "store"
    rows, _ = query(path)
    sizes = Counter[str]()
    for row in rows:
        sizes[row["topic"]] += len(row["value"]) + 200
    chosen = {topic: query(path, asked.EqualTo(("topic",), topic))[1] for topic in sizes}
    smallest, largest = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    assert chosen[smallest]
    assert not query(path, asked.In(("topic",), tuple(sizes)))[1], "all of it is better scanned"
    assert chosen[largest] is (sizes[largest] < sum(sizes.values()) / 2)
    assert query(path, asked.EqualTo(("topic",), "none")) == ([], False)
    begun = [topic for topic in sizes if topic.startswith(smallest[:-1])]
    assert query(path, asked.StringStartsWith(("topic",), smallest[:-1]))[1] is all(chosen[topic] for topic in begun)
