"""Queues planned and read without Spark: the same rows as a scan of the whole log, filtered; and little besides."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.data_loss import Losses
from flightlog.spark.options.read_options import ReadOptions, parse_options
from flightlog.spark.options.stores import StoreLocation
from flightlog.spark.plan.queue_planning import CarriedUnits, QueueRange, plan_queues
from flightlog.spark.plan.selection import selected_spans
from flightlog.spark.read.queue_reading import QueueRangeReader
from flightlog.spark.read.reading import RangeReader
from flightlog.spark.schema import arrow_schema, spark_schema
from flightlog.store.disk.disk import Disk
from flightlog.tests.support.planning import plan
from flightlog.tools.counting_disk import CountingDisk

if TYPE_CHECKING:
    GetSet = Callable[[str], Path]
    Row = dict[str, Any]

SEED = int(os.environ.get("FLIGHTLOG_SEED", "0"))
SEGMENT_SIZE = 1 << 20
SPLIT_BYTES = 256 << 20
EVERYTHING = {"subscribePattern": ".*"}
COLUMNS = ("topic", "partition", "offset", "physicalOffset", "batchIndex", "value", "key", "tags", "sysFlag", "size")
PREPARED, COMMIT, ROLLBACK = 0x4, 0x8, 0xC


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["physicalOffset"], row["batchIndex"] or 0))


def scanned(path: Path, **choices: Any) -> list[Row]:
    reader = RangeReader(arrow_schema(spark_schema(COLUMNS)), ReadOptions(**choices))
    tasks = plan(path, SPLIT_BYTES)
    return in_order(
        [row for task in tasks for part in task for batch in reader.read(part) for row in batch.to_pylist()]
    )


def planned(
    path: Path,
    options: dict[str, str],
    *,
    min_partitions: int = 1,
    split_bytes: int = SPLIT_BYTES,
    include_internal: bool = False,
) -> list[tuple[QueueRange, ...]]:
    given = parse_options({"path": str(path), "includeInternal": str(include_internal), **options})
    with flightlog.open_read_only(path) as view:
        losses = Losses()
        spans = selected_spans(view, given, losses)
        losses.report(fail=True)
        assert isinstance(spans, dict)
        tasks = plan_queues(view, StoreLocation.local(path), spans, split_bytes, min_partitions)
    read_by = {key: [0, 0] for key in spans}
    for piece in (piece for task in tasks for piece in task):
        start, stop = spans[piece.topic, piece.queue_id]
        assert start <= piece.start < piece.stop <= stop
        read_by[piece.topic, piece.queue_id][1] += piece.stop - piece.start
    assert all(
        count == stop - start for (start, stop), (_, count) in zip(spans.values(), read_by.values(), strict=True)
    )
    copied: list[tuple[QueueRange, ...]] = pickle.loads(pickle.dumps(tasks))
    return copied


def rows_of(
    tasks: Sequence[tuple[QueueRange, ...]],
    columns: Sequence[str] = COLUMNS,
    disk: Disk | None = None,
    **choices: Any,
) -> list[Row]:
    reader = QueueRangeReader(arrow_schema(spark_schema(columns)), ReadOptions(**choices), disk)
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven topics with four queues each over several segments; `rare` has one message in a hundred. Read it, never
    write."""
    path, dice = tmp_path_factory.mktemp("queues") / "store", random.Random(SEED)
    with flightlog.open(path, StoreSettings(segment_size=SEGMENT_SIZE, rocketmq_strict=False)) as opened:
        for i in range(5000):
            topic = "rare" if i % 100 == 50 else f"topic-{dice.randrange(6)}"
            body = dice.randbytes(1) * dice.randrange(2000)
            opened.put(Message(topic, body, queue_id=dice.randrange(4), keys=f"key-{i}", tags="ab"[i % 2]))
        assert opened.verify().is_clean
    assert len(list((path / "commitlog").iterdir())) >= 4
    return path


@pytest.fixture
def copy(store: Path, tmp_path: Path) -> Path:
    """A copy of it to break."""
    return Path(shutil.copytree(store, tmp_path / "store"))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("split_bytes", [150_000, 1 << 20, SPLIT_BYTES])
def test_the_rows_are_those_of_a_filtered_scan(store: Path, split_bytes: int) -> None:
    everything = scanned(store)
    assert in_order(rows_of(planned(store, EVERYTHING, split_bytes=split_bytes))) == everything
    some = planned(store, {"subscribe": "topic-1,rare"}, split_bytes=split_bytes)
    assert in_order(rows_of(some)) == [row for row in everything if row["topic"] in ("topic-1", "rare")]
    queues = planned(store, {"assign": '{"topic-2": [1, 3], "topic-4": [0]}'}, split_bytes=split_bytes)
    wanted = {("topic-2", 1), ("topic-2", 3), ("topic-4", 0)}
    assert in_order(rows_of(queues)) == [row for row in everything if (row["topic"], row["partition"]) in wanted]


def test_a_task_has_one_stretch_of_the_log_in_its_order(store: Path) -> None:
    tasks = planned(store, {"subscribe": "topic-1,topic-2"}, split_bytes=200_000)
    assert len(tasks) >= 5
    places = [[row["physicalOffset"] for row in rows_of([task])] for task in tasks]
    assert [place for task in places for place in task] == sorted(place for task in places for place in task)
    sizes = [sum(row["size"] for row in rows_of([task])) for task in tasks]
    assert max(sizes) < 2 * 200_000
    assert min(sizes) > 50_000


@pytest.mark.parametrize("min_partitions", [2, 7, 40])
def test_there_are_as_many_tasks_as_asked_for(store: Path, min_partitions: int) -> None:
    for options in (EVERYTHING, {"subscribe": "rare"}, {"assign": '{"topic-2": [1]}'}):
        tasks = planned(store, options, min_partitions=min_partitions)
        assert len(tasks) >= min_partitions
        assert all(rows_of([task]) for task in tasks)


def test_one_large_record_does_not_keep_the_others_from_their_tasks(tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "store", StoreSettings(segment_size=8 << 20)) as opened:
        opened.put(Message("large", b"x" * (4 << 20)))
        opened.put_many([Message("small", b"%d" % i) for i in range(100)])
        assert opened.verify().is_clean
    tasks = planned(tmp_path / "store", EVERYTHING, min_partitions=20)
    assert len(tasks) >= 20
    assert in_order(rows_of(tasks)) == scanned(tmp_path / "store")


def test_a_rare_topic_reads_its_own_records_and_entries(store: Path) -> None:
    tasks = planned(store, {"subscribe": "rare"})
    disk = CountingDisk()
    rows = rows_of(tasks, disk=disk)
    size = sum(row["size"] for row in rows)
    assert len(rows) == 50
    assert disk.read_size < 1.2 * size + 20 * len(rows)


def test_neighbours_come_with_one_read(store: Path) -> None:
    """Four queues of one topic, or all of them, are one walk over the log."""
    disk = CountingDisk()
    rows = rows_of(planned(store, EVERYTHING), disk=disk)
    assert disk.read_size == sum(row["size"] for row in rows) + 20 * len(rows)


def test_planning_reads_no_record_and_a_few_entries(tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "store") as opened:
        for _ in range(20):
            opened.put_many([Message("orders", b"x" * 100, queue_id=i % 2) for i in range(2000)])
        assert opened.verify().is_clean
    disk = CountingDisk()
    with flightlog.open_read_only(tmp_path / "store", disk=disk) as view:
        options = parse_options({"path": str(tmp_path / "store"), "subscribe": "orders"})
        spans = selected_spans(view, options, Losses())
        assert isinstance(spans, dict)
        before = disk.read_size
        tasks = plan_queues(view, StoreLocation.local(tmp_path / "store"), spans, 1 << 20)
        assert disk.read_size - before < 60_000, "of 800,000 bytes of entries"
    assert len(tasks) >= 7
    assert len(rows_of(tasks, columns=("offset",))) == 40_000


# -- which messages


def test_what_is_in_no_queue_or_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small()) as opened:
        for i in range(300):
            flags = (0, PREPARED, COMMIT, ROLLBACK)[i % 4]
            opened.put(
                Message(
                    ("orders", "goes", "rmq_sys_wheel_timer", "%DLQ%group")[i % 3 if i % 8 else 3],
                    b"%d" % i,
                    sys_flag=flags,
                )
            )
        opened.delete_topic("goes")
        opened.put(Message("goes", b"new"))
        assert opened.verify().is_clean
    everything = scanned(path)
    assert {row["topic"] for row in everything} == {"orders", "goes", "%DLQ%group"}
    assert in_order(rows_of(planned(path, EVERYTHING))) == everything
    internal = [row for row in scanned(path, include_internal=True) if row["offset"] is not None]
    tasks = planned(path, EVERYTHING, include_internal=True)
    assert in_order(rows_of(tasks, include_internal=True)) == internal
    assert len(internal) > len(everything)


def test_entries_that_no_file_holds_travel(copy: Path) -> None:
    """As behind a killed writer whose queues lag, or lost."""
    everything = scanned(copy)
    shutil.rmtree(copy / "consumequeue" / "topic-1" / "0")
    shutil.rmtree(copy / "consumequeue" / "topic-2")
    (copy / "flightlog" / "progress").unlink()
    (copy / "abort").touch()
    tasks = planned(copy, EVERYTHING, min_partitions=5)
    carried = {(each.topic, each.queue_id) for task in tasks for each in task if isinstance(each.entries, CarriedUnits)}
    assert carried >= {("topic-1", 0), ("topic-2", 0), ("topic-2", 3)}
    assert in_order(rows_of(tasks)) == everything


def test_beside_a_live_writer(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small(segment_size=32 << 10)) as opened:
        for count in (100, 200, 300):
            opened.put_many([Message("orders", bytes(200), queue_id=i % 2) for i in range(100)])
            tasks = planned(path, {"subscribe": "orders"}, min_partitions=3)
            opened.put_many([Message("later", bytes(200))] * 100)
            assert len(rows_of(tasks)) == count
            assert in_order(rows_of(tasks)) == [row for row in scanned(path) if row["topic"] == "orders"]
        assert opened.verify().is_clean


@pytest.mark.ci
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_store_gives_the_rows_of_a_filtered_scan(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("any") / "store"
    topics = ("a", "b", "%RETRY%g", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer")
    put = st.tuples(
        st.sampled_from(topics),
        st.integers(0, 2),
        st.sampled_from((0, 0, 0, PREPARED, COMMIT, ROLLBACK)),
        st.integers(0, 9000),
    )
    deleted = st.sampled_from(("a", "b", None, None))
    steps = data.draw(st.lists(st.tuples(st.lists(put, max_size=30), deleted), min_size=1, max_size=4))
    with flightlog.open(
        path, StoreSettings.small(segment_size=32 << 10, queue_file_entries=16, rocketmq_strict=False)
    ) as opened:
        for puts, gone in steps:
            for topic, queue_id, flags, size in puts:
                opened.put(Message(topic, b"b" * size, queue_id=queue_id, sys_flag=flags))
            if gone is not None and gone in opened.topics():
                opened.delete_topic(gone)
        assert opened.verify().is_clean
    include_internal = data.draw(st.booleans())
    chosen = data.draw(
        st.sets(st.tuples(st.sampled_from(topics[: 5 if include_internal else 3]), st.integers(0, 2)), min_size=1)
    )
    with flightlog.open_read_only(path) as view:
        chosen = {key for key in chosen if key in view.queues()}
    every = [row for row in scanned(path, include_internal=include_internal) if row["offset"] is not None]
    split_bytes = data.draw(st.sampled_from((4096, 20_000, SPLIT_BYTES)))
    assign = {topic: [queue_id for each, queue_id in chosen if each == topic] for topic, _ in chosen}
    ways = [(EVERYTHING, every)]
    if chosen:
        ways.append(
            ({"assign": json.dumps(assign)}, [row for row in every if (row["topic"], row["partition"]) in chosen])
        )
    for options, expected in ways:
        tasks = planned(path, options, split_bytes=split_bytes, include_internal=include_internal)
        assert in_order(rows_of(tasks, include_internal=include_internal)) == expected
