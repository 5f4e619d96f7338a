"""What a task makes of its ranges, and of files that are gone since they were planned; without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.read_options import ReadOptions, parse_options
from flightlog.spark.plan.batch_planning import Range, plan_batch
from flightlog.spark.plan.log_planning import LogRange
from flightlog.spark.plan.queue_planning import QueueRange
from flightlog.spark.read.reading import read_ranges
from flightlog.spark.schema import arrow_schema, spark_schema
from flightlog.store.errors import FileGoneError

SEGMENT_SIZE = 64 << 10
COLUMNS = ("store", "topic", "partition", "offset", "physicalOffset")


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    """Two stores of five segments or more; the second one has a topic of its own. For one test alone."""
    paths = [tmp_path / "one", tmp_path / "two"]
    for number, path in enumerate(paths):
        with flightlog.open(path, StoreSettings.small(segment_size=SEGMENT_SIZE)) as opened:
            for i in range(500):
                opened.put(Message("own" if number and i % 5 == 0 else "orders", bytes(600), queue_id=i % 2))
            assert opened.verify().is_clean
        assert len(list((path / "commitlog").iterdir())) >= 5
    return paths


def options(path: object, **others: Any) -> ReadOptions:
    return parse_options({"path": str(path), **{name: str(value) for name, value in others.items()}})


def rows(tasks: list[tuple[Range, ...]], of: ReadOptions) -> list[dict[str, Any]]:
    schema = arrow_schema(spark_schema(COLUMNS))
    return [row for task in tasks for batch in read_ranges(task, schema, of) for row in batch.to_pylist()]


@pytest.mark.parametrize("way", [{}, {"subscribe": "orders"}])
def test_a_segment_that_retention_takes_meanwhile(
    stores: list[Path], way: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    path = stores[0]
    strict, lenient = options(path, **way), options(path, failOnDataLoss=False, **way)
    tasks = plan_batch(strict)
    everything = rows(tasks, strict)
    assert len(everything) == 500
    first = path / "commitlog" / f"{0:020d}"
    first.unlink()
    with pytest.raises(FileGoneError, match=f"{first}: gone since the query began"):
        rows(tasks, strict)
    assert rows(tasks, lenient) == [row for row in everything if row["physicalOffset"] >= SEGMENT_SIZE]
    assert str(first) in caplog.text
    shutil.rmtree(path)  # or a machine that does not see it
    with pytest.raises(FileGoneError):
        rows(tasks, lenient)


def test_topics_of_several_stores(stores: list[Path]) -> None:
    both = options(stores[0].parent / "*", subscribe="orders,own", minPartitions=6)
    tasks = plan_batch(both)
    assert len(tasks) >= 6
    assert all(isinstance(piece, QueueRange) for task in tasks for piece in task)
    found = rows(tasks, both)
    assert {(row["store"], row["topic"]) for row in found} == {("one", "orders"), ("two", "orders"), ("two", "own")}
    assert len(found) == 1000


@pytest.mark.parametrize("min_partitions", [1, 8, 30])
def test_a_scan_of_everything_has_as_many_tasks_as_asked_for(stores: list[Path], min_partitions: int) -> None:
    both = options(stores[0].parent / "*", minPartitions=min_partitions)
    tasks = plan_batch(both)
    assert len(tasks) >= min_partitions
    assert all(isinstance(piece, LogRange) for task in tasks for piece in task)
    assert len(rows(tasks, both)) == 1000
