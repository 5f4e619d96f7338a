"""Queries that the entries of queues answer alone: the rows of a scan, and no byte of the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as asked

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.columns.entry_columns import ENTRY_COLUMNS
from flightlog.spark.options.read_options import ReadOptions, parse_options
from flightlog.spark.plan.batch_planning import plan_batch
from flightlog.spark.plan.filters import bounds_of
from flightlog.spark.plan.queue_planning import QueueRange
from flightlog.spark.read.queue_entries import EntryRangeReader
from flightlog.spark.read.reading import read_ranges
from flightlog.spark.schema import arrow_schema, spark_schema
from flightlog.store.errors import CorruptQueueError, CorruptRecordError, FileGoneError, FlightlogError
from flightlog.tools.counting_disk import CountingDisk

if TYPE_CHECKING:
    from flightlog.tests.spark.conftest import AssertClean

    Row = dict[str, Any]
    Tasks = list[tuple[Any, ...]]

SEGMENT_SIZE = 64 << 10
QUEUE_FILE_ENTRIES = 100
SETTINGS = StoreSettings.small(segment_size=SEGMENT_SIZE, queue_file_entries=QUEUE_FILE_ENTRIES)
NAMES = (*sorted(ENTRY_COLUMNS), "store")
SETS = (
    *("abort", "abort-cqlag", "abort-crcflip", "abort-late", "abort-reopen", "abort-torn", "batch-bcq", "clean-cqlag"),
    *("clean-crcflip", "cqext", "default-sizes", "delay-tx", "lmq", "minoffset", "preblank", "propcrc", "rollover"),
    *("v1-clean", "v2-v6"),
)


def plan(path: Path, *filters: Any, names: tuple[str, ...] = NAMES, **options: Any) -> tuple[Tasks, Any, ReadOptions]:
    parsed = parse_options({"path": str(path), "columns": ",".join(names), **options})
    parsed = replace(parsed, bounds=parsed.bounds & bounds_of(filters))
    return list(plan_batch(parsed)), arrow_schema(spark_schema(names), parsed.added), parsed


def is_alone(tasks: Tasks) -> bool:
    pieces = [piece for task in tasks for piece in task]
    return bool(pieces) and all(isinstance(piece, QueueRange) and piece.from_entries for piece in pieces)


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["physicalOffset"], row["offset"], row["topic"], row["partition"]))


def query(path: Path, *filters: Any, names: tuple[str, ...] = NAMES, **options: Any) -> tuple[list[Row], bool]:
    """The rows in the order of the log, and whether entries were enough for them."""
    tasks, schema, parsed = plan(path, *filters, names=names, **options)
    rows = [row for task in tasks for batch in read_ranges(task, schema, parsed) for row in batch.to_pylist()]
    return in_order(rows), is_alone(tasks)


def by_records(path: Path, *filters: Any, **options: Any) -> list[Row]:
    """The same rows, of which something is asked that no entry tells."""
    rows, is_so = query(path, *filters, names=(*NAMES, "flag"), **options)
    assert not is_so
    return [{name: row[name] for name in NAMES} for row in rows]


@pytest.fixture
def store(tmp_path: Path, assert_clean: AssertClean) -> Path:
    """Five segments and more; the messages of two topics with two queues each in turn."""
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS) as opened:
        opened.put_many([Message(f"topic-{i // 2 % 2}", b"x" * 500, queue_id=i % 2, tags="a") for i in range(600)])
    assert_clean(path)
    assert len(list((path / "commitlog").iterdir())) > 5
    return path


@pytest.mark.parametrize("min_partitions", ["1", "7"])
def test_the_rows_are_those_of_a_scan(store: Path, min_partitions: str) -> None:
    selections: list[dict[str, Any]] = [
        {"subscribe": "topic-0"},
        {"subscribe": "topic-0,topic-1"},
        {"assign": '{"topic-1": [1]}', "startingOffsets": '{"topic-1": {"1": 17}}'},
    ]
    for options in selections:
        found, is_so = query(store, minPartitions=min_partitions, **options)
        assert is_so and found == by_records(store, **options)
        tasks, *_ = plan(store, minPartitions=min_partitions, **options)
        assert len(tasks) >= int(min_partitions)
    assert len(found) == 150 - 17


def test_each_column_alone_is_as_wide_and_as_typed_as_of_records(store: Path) -> None:
    whole = by_records(store, subscribe="topic-0")
    for name in NAMES:
        tasks, schema, parsed = plan(store, names=(name,), subscribe="topic-0")
        assert is_alone(tasks)
        values = [v for t in tasks for b in read_ranges(t, schema, parsed) for v in b[0].to_pylist()]
        assert values == [row[name] for row in whole]


def test_entries_are_all_that_is_read(store: Path) -> None:
    tasks, schema, parsed = plan(store, subscribe="topic-0")
    disk = CountingDisk()
    count = sum(len(b) for task in tasks for b in EntryRangeReader(schema, parsed, disk).read(task))
    assert (count, disk.read_size) == (300, 20 * 300)
    assert sum(piece.size for task in tasks for piece in task) == 20 * 300


def test_a_task_has_its_share_of_entries(store: Path) -> None:
    tasks, *_ = plan(store, subscribe="topic-0,topic-1", splitBytes=str(16 * 2000))
    assert is_alone(tasks) and len(tasks) == 600 * 20 // 2000


def test_the_plan_says_so(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "flightlog.spark"):
        plan(store, subscribe="topic-0")
    [told] = [record for record in caplog.records if hasattr(record, "tasks")]
    fields = vars(told)
    assert (fields["bytes"], fields["entries_bytes"]) == (6000, 6000)
    assert fields["left_out_bytes"] == fields["log_bytes"] > 300_000
    assert f"about 0 of {fields['log_bytes']} bytes of the log, from the queues alone 6000 bytes;" in told.getMessage()


@pytest.mark.parametrize("options", [{"onCorrupt": "skip"}, {"tags": "a"}, {"decompress": "true"}])
def test_what_needs_records_reads_them(store: Path, options: dict[str, Any]) -> None:
    rows, is_so = query(store, subscribe="topic-0", **options)
    assert not is_so and len(rows) == 300


def test_a_filter_on_most_of_the_log_is_enough(store: Path) -> None:
    """Without a selection, where a filter names the topic."""
    wanted = asked.StringStartsWith(("topic",), "topic")
    found, is_so = query(store, wanted)
    assert is_so and found == by_records(store, wanted) and len(found) == 600
    narrow = (wanted, asked.LessThan(("offset",), 20), asked.EqualTo(("partition",), 1))
    found, is_so = query(store, *narrow)
    assert is_so and {(row["partition"], row["offset"]) for row in found} == {(1, offset) for offset in range(20)}
    assert not query(store)[1], "a scan of everything is one of the log"


# -- what is not as it should be


def test_a_damaged_record_is_not_met(store: Path) -> None:
    hit = by_records(store, subscribe="topic-0")[170]
    base = hit["physicalOffset"] // SEGMENT_SIZE * SEGMENT_SIZE
    with (store / "commitlog" / f"{base:020d}").open("r+b") as segment:
        segment.seek(hit["physicalOffset"] - base)
        segment.write(bytes(8))
    with pytest.raises(CorruptRecordError):
        by_records(store, subscribe="topic-0")
    found, is_so = query(store, subscribe="topic-0")
    assert is_so and len(found) == 300 and hit in found
    left, is_so = query(store, subscribe="topic-0", onCorrupt="skip")
    assert not is_so and len(left) == 299


def test_an_entry_that_points_at_nothing_is_told(store: Path) -> None:
    tasks, schema, parsed = plan(store, subscribe="topic-0")
    with (store / "consumequeue" / "topic-0" / "1" / f"{0:020d}").open("r+b") as file:
        file.seek(20 * 30)
        file.write(bytes(20))
    with pytest.raises(CorruptQueueError, match="0 bytes at physical offset 0"):
        [*read_ranges(tasks[0], schema, parsed)]


def test_a_missing_segment_is_damage_and_the_oldest_one_is_lost(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    tasks, schema, parsed = plan(store, subscribe="topic-0")
    (store / "commitlog" / f"{2 * SEGMENT_SIZE:020d}").unlink()
    with pytest.raises(CorruptRecordError, match="no segment"):
        [*read_ranges(tasks[0], schema, parsed)]
    for segment in range(2):
        (store / "commitlog" / f"{segment * SEGMENT_SIZE:020d}").unlink()
    with pytest.raises(FileGoneError):
        [*read_ranges(tasks[0], schema, parsed)]
    reader = EntryRangeReader(schema, replace(parsed, fail_on_data_loss=False))
    with caplog.at_level(logging.WARNING, "flightlog.spark"):
        rows = [row for batch in reader.read(tasks[0]) for row in batch.to_pylist()]
    assert rows and all(row["physicalOffset"] >= 3 * SEGMENT_SIZE for row in rows)
    assert caplog.text.count("gone since the query began") == 3


def test_a_segment_that_was_cut_short_is_damage(store: Path) -> None:
    tasks, schema, parsed = plan(store, subscribe="topic-0")
    with (store / "commitlog" / f"{SEGMENT_SIZE:020d}").open("r+b") as segment:
        segment.truncate(5000)
    with pytest.raises(CorruptRecordError, match="the end of the file at 5000"):
        [*read_ranges(tasks[0], schema, parsed)]


# -- every store


def compare(path: Path, **options: Any) -> None:
    """Entries give what records give; where these are damaged, all that is sound among them, and what is not."""
    found, _ = query(path, **options)
    try:
        assert found == by_records(path, **options)
    except FlightlogError:
        keys = {tuple(row.values()) for row in found}
        assert keys >= {tuple(row.values()) for row in by_records(path, onCorrupt="skip", **options)}


@pytest.mark.ci
@pytest.mark.parametrize("name", SETS)
def test_golden_stores(golden: Callable[[str], Path], name: str) -> None:
    path = golden(name) / "store"
    compare(path, subscribePattern=".*")
    compare(path, subscribePattern="(%LMQ%)?.*", includeInternal="true")
    with flightlog.open_read_only(path) as view:
        topics = {topic for topic, _ in view.queues()}
    tasks = [task for topic in topics for task in plan(path, subscribe=topic, includeInternal="true")[0]]
    light = {
        piece.topic for task in tasks for piece in task if isinstance(piece, QueueRange) and not piece.from_entries
    }
    assert all(topic.startswith("%LMQ%") for topic in light) or name == "batch-bcq"
    assert name == "batch-bcq" or any(is_alone([task]) for task in tasks)


@pytest.mark.ci
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_store(tmp_path_factory: pytest.TempPathFactory, assert_clean: AssertClean, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("any") / "store"
    topics = ("a", "b", "%RETRY%g", "RMQ_SYS_TRACE_TOPIC")
    put = st.tuples(
        *(st.sampled_from(topics), st.integers(0, 2), st.sampled_from((0, 0, 0, 4, 8, 12)), st.integers(0, 9000))
    )
    steps = data.draw(
        st.lists(st.tuples(st.lists(put, max_size=30), st.sampled_from(("a", "b", None, None))), min_size=1, max_size=4)
    )
    with flightlog.open(
        path, StoreSettings.small(segment_size=32 << 10, queue_file_entries=16, rocketmq_strict=False)
    ) as opened:
        for puts, deleted in steps:
            for topic, queue_id, flags, size in puts:
                opened.put(Message(topic, b"b" * size, queue_id=queue_id, sys_flag=flags))
            if deleted is not None and deleted in opened.topics():
                opened.delete_topic(deleted)
    assert_clean(path)
    split_bytes = data.draw(st.sampled_from(("4096", "65536")))
    internal = data.draw(st.sampled_from(("true", "false")))
    options: dict[str, Any] = {"subscribePattern": ".*", "splitBytes": split_bytes, "includeInternal": internal}
    found, _ = query(path, **options)
    assert found == by_records(path, **options)
