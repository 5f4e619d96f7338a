"""Queues whose records, entries or files are not what they should be, and inner batches; without Spark."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.index.queue.queue_unit import FILLER
from flightlog.spark.options.data_loss import Losses
from flightlog.spark.options.read_options import ReadOptions, parse_options
from flightlog.spark.options.stores import StoreLocation
from flightlog.spark.plan.queue_planning import CarriedBatches, QueueRange, plan_queues
from flightlog.spark.plan.selection import selected_spans
from flightlog.spark.read.queue_reading import QueueRangeReader
from flightlog.spark.schema import arrow_schema, spark_schema
from flightlog.store.disk.disk import Disk
from flightlog.store.errors import CorruptQueueError, CorruptRecordError, DiskError, FileGoneError
from flightlog.testing.faulty_disk import FaultyDisk

if TYPE_CHECKING:
    from flightlog import StoredMessage

    GetSet = Callable[[str], Path]
    Tasks = list[tuple[QueueRange, ...]]

SEGMENT_SIZE = 64 << 10
QUEUE_FILE_ENTRIES = 100
BODY_DIFFERS = "a body that differs from its CRC"
SETTINGS = StoreSettings.small(segment_size=SEGMENT_SIZE, queue_file_entries=QUEUE_FILE_ENTRIES)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Four segments and more; the messages of two queues in turn. For one test alone."""
    with flightlog.open(tmp_path / "store", SETTINGS) as opened:
        opened.put_many([Message("orders", b"%04d" % i + b"x" * 500, queue_id=i % 2) for i in range(500)])
        assert opened.verify().is_clean
    assert len(list((tmp_path / "store" / "commitlog").iterdir())) > 4
    return tmp_path / "store"


def planned(path: Path, min_partitions: int = 1, /, **options: str) -> Tasks:
    given = parse_options({"path": str(path), **options})
    with flightlog.open_read_only(path) as view:
        spans = selected_spans(view, given, Losses())
        assert spans is not None
        return plan_queues(view, StoreLocation.local(path), spans, 256 << 20, min_partitions)


def read(tasks: Tasks, *columns: str, disk: Disk | None = None, **choices: Any) -> list[dict[str, Any]]:
    schema = arrow_schema(spark_schema(columns or ("physicalOffset", "value")))
    reader = QueueRangeReader(schema, ReadOptions(**choices), disk)
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


def messages(path: Path, *queues: tuple[str, int]) -> list[StoredMessage]:
    with flightlog.open_read_only(path) as view:
        found = [message for queue in queues for message in view.read(*queue)]
    return sorted(found, key=lambda message: (message.physical_offset, message.batch_index or 0))


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("at", "data", "found"),
    [
        (0, (5).to_bytes(4, "big"), "a record whose lengths do not add up"),
        (4, b"none", "bytes that are no record"),
        (28, bytes(8), "a record that belongs elsewhere"),
        (200, b"damage", BODY_DIFFERS),
    ],
)
def test_a_damaged_record_is_named_left_out_or_a_row(
    store: Path, at: int, data: bytes, found: str, caplog: pytest.LogCaptureFixture
) -> None:
    places = [message.physical_offset for message in messages(store, ("orders", 0), ("orders", 1))]
    hit = next(place for place in places if place > SEGMENT_SIZE + 9000)
    path = store / "commitlog" / f"{SEGMENT_SIZE:020d}"
    tasks = planned(store, subscribe="orders")
    overwrite(path, hit - SEGMENT_SIZE + at, data)
    with pytest.raises(CorruptRecordError) as caught:
        read(tasks)
    assert (caught.value.path, caught.value.physical_offset, caught.value.found) == (path, hit, found)
    if found == BODY_DIFFERS:
        assert len(read(tasks, "topic", "offset")) == 500, "nobody asked for the body"
    else:
        with pytest.raises(CorruptRecordError):
            read(tasks, "topic", "offset")
    with caplog.at_level(logging.WARNING, "flightlog.spark"):
        kept = [row["physicalOffset"] for row in read(tasks, on_corrupt="skip")]
    assert kept == [place for place in places if place != hit]
    assert (
        f"left out 1 damaged places in 2 ranges of queues, the first at physical offset {hit}: {found}" in caplog.text
    )


def test_damaged_places_are_rows_on_request(store: Path) -> None:
    from flightlog.spark.schema import CORRUPT

    hit = messages(store, ("orders", 0))[70].physical_offset
    path = store / "commitlog" / f"{hit - hit % SEGMENT_SIZE:020d}"
    tasks = planned(store, subscribe="orders")
    overwrite(path, hit % SEGMENT_SIZE + 4, b"none")
    schema = arrow_schema(spark_schema(("value", "_corrupt"), (CORRUPT,)), (CORRUPT,))
    reader = QueueRangeReader(schema, ReadOptions(on_corrupt="rows"))
    rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    assert len(rows) == 500
    (damaged,) = [row for row in rows if row["_corrupt"] is not None]
    assert damaged["value"] is None
    assert damaged["_corrupt"] == {"file": str(path), "offset": hit, "reason": "bytes that are no record"}


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        (bytes(20), "an entry that points at 0 bytes at physical offset 0"),
        (
            (1 << 40).to_bytes(8, "big") + (1 << 30).to_bytes(4, "big") + bytes(8),
            "an entry that points at 1073741824 by",
        ),
        (
            bytes(8) + (SEGMENT_SIZE + 1).to_bytes(4, "big") + bytes(8),
            f"an entry that points at {SEGMENT_SIZE + 1} bytes",
        ),
    ],
)
def test_an_entry_that_points_at_no_record(store: Path, entry: bytes, found: str) -> None:
    tasks = planned(store, subscribe="orders")
    overwrite(store / "consumequeue" / "orders" / "1" / f"{0:020d}", 20 * 30, entry)
    with pytest.raises(CorruptQueueError) as caught:
        read(tasks)
    assert (caught.value.path, caught.value.queue_offset) == (store / "consumequeue" / "orders" / "1", 30)
    assert caught.value.found.startswith(found)
    kept = read(tasks, "partition", "offset", on_corrupt="skip")
    assert len(kept) == 499
    assert {"partition": 1, "offset": 30} not in kept


def test_an_entry_of_another_message(store: Path) -> None:
    tasks = planned(store, subscribe="orders")
    file = store / "consumequeue" / "orders" / "0" / f"{0:020d}"
    overwrite(file, 20 * 30, file.read_bytes()[20 * 31 : 20 * 32])
    with pytest.raises(CorruptQueueError, match="found the record of topic orders queue 0 offset 31, expected"):
        read(tasks)
    kept = read(tasks, "partition", "offset", on_corrupt="skip")
    assert sorted((row["partition"], row["offset"]) for row in kept) == [
        (queue_id, i) for queue_id in (0, 1) for i in range(250) if (queue_id, i) != (0, 30)
    ]


def test_filler_stands_for_no_message(store: Path) -> None:
    tasks = planned(store, assign='{"orders": [0]}')
    overwrite(store / "consumequeue" / "orders" / "0" / f"{0:020d}", 20 * 30, FILLER * 3)
    assert [row["offset"] for row in read(tasks, "offset")] == [i for i in range(250) if i not in (30, 31, 32)]


def test_a_segment_that_retention_takes_meanwhile(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    tasks = planned(store, subscribe="orders")
    first = store / "commitlog" / f"{0:020d}"
    first.unlink()
    with pytest.raises(FileGoneError, match=f"{first}: gone since the query began"):
        read(tasks)
    rows = read(tasks, fail_on_data_loss=False)
    expected = [m.physical_offset for m in messages(store, ("orders", 0), ("orders", 1))]
    assert [row["physicalOffset"] for row in rows] == expected
    assert f"{first}: gone since the query began; what it held is passed over" in caplog.text
    shutil.rmtree(store)
    with pytest.raises(FileGoneError):
        read(tasks, fail_on_data_loss=False)


def test_a_segment_that_is_missing_between_others_is_damage(store: Path) -> None:
    tasks = planned(store, subscribe="orders")
    missing = store / "commitlog" / f"{2 * SEGMENT_SIZE:020d}"
    missing.unlink()
    for choice in (True, False):
        with pytest.raises(CorruptRecordError) as caught:
            read(tasks, fail_on_data_loss=choice)
        assert (caught.value.path, caught.value.found) == (missing, "no segment")
    rows = read(tasks, on_corrupt="skip")
    assert {row["physicalOffset"] // SEGMENT_SIZE for row in rows} == {0, 1, 3, 4}


def test_a_segment_cut_short(store: Path) -> None:
    tasks = planned(store, subscribe="orders")
    path = store / "commitlog" / f"{SEGMENT_SIZE:020d}"
    with path.open("r+b") as file:
        file.truncate(SEGMENT_SIZE // 2)
    with pytest.raises(CorruptRecordError, match=str(path)):
        read(tasks)
    kept = [row["physicalOffset"] for row in read(tasks, on_corrupt="skip")]
    assert max(place for place in kept if place < 2 * SEGMENT_SIZE) < SEGMENT_SIZE + SEGMENT_SIZE // 2


def test_a_queue_file_that_retention_takes_meanwhile(store: Path) -> None:
    tasks = planned(store, assign='{"orders": [0]}')
    first = store / "consumequeue" / "orders" / "0" / f"{0:020d}"
    first.unlink()
    with pytest.raises(FileGoneError, match=f"{first}: gone since the query began"):
        read(tasks)
    rows = read(tasks, "offset", fail_on_data_loss=False)
    assert [row["offset"] for row in rows] == list(range(QUEUE_FILE_ENTRIES, 250))


def test_a_disk_that_fails_is_an_error_with_a_name(store: Path) -> None:
    tasks, disk = planned(store, subscribe="orders"), FaultyDisk()
    disk.fail("read", "commitlog/", 5, skip=2)
    with pytest.raises(DiskError, match=f"{store}/commitlog/.*reading"):
        read(tasks, disk=disk)


# -- inner batches and light queues


def test_inner_batches_through_their_queues(golden: GetSet) -> None:
    path = golden("batch-bcq") / "store"
    every = [m for m in messages(path, *_queues(path)) if m.batch_index is not None]
    queues = {(m.topic, m.queue_id) for m in every}
    names = ",".join({topic for topic, _ in queues})
    for least in (1, 6):
        tasks = planned(path, least, subscribe=names)
        assert any(isinstance(each.entries, CarriedBatches) for task in tasks for each in task)
        found = [
            (row["topic"], row["partition"], row["offset"], row["batchIndex"], row["value"])
            for row in read(tasks, "topic", "partition", "offset", "batchIndex", "value")
        ]
        assert sorted(found) == sorted((m.topic, m.queue_id, m.queue_offset, m.batch_index, m.body) for m in every)
    with flightlog.open_read_only(path) as view:
        end, (topic, queue_id) = max((span[1], key) for key, span in view.queues().items() if key in queues)
    assert end > 20
    for start, stop in ((3, end - 1), (5, 6), (0, end)):
        edges = {
            "startingOffsets": f'{{"{topic}": {{"{queue_id}": {start}}}}}',
            "endingOffsets": f'{{"{topic}": {{"{queue_id}": {stop}}}}}',
        }
        rows = read(planned(path, assign=f'{{"{topic}": [{queue_id}]}}', **edges), "offset")
        assert [row["offset"] for row in rows] == list(range(start, stop))


def test_a_light_queue_is_read_where_it_is_asked_for(golden: GetSet) -> None:
    path = golden("lmq") / "store"
    light = [queue for queue in _queues(path) if queue[0].startswith("%LMQ%")]
    assert light
    for topic, queue_id in light:
        rows = read(planned(path, subscribe=topic), "physicalOffset", "topic", "value")
        expected = messages(path, (topic, queue_id))
        assert [(row["physicalOffset"], row["topic"], row["value"]) for row in rows] == [
            (m.physical_offset, m.topic, m.body) for m in expected
        ]
    everything = read(planned(path, subscribePattern="%LMQ%.*"), "physicalOffset")
    assert len(everything) == len(messages(path, *light))


def _queues(path: Path) -> list[tuple[str, int]]:
    with flightlog.open_read_only(path) as view:
        return list(view.queues())


# -- what a task holds

MEASURE = """
import resource, sys
from pathlib import Path
import flightlog
from flightlog.index.queue.queue_unit import FILLER, UNIT
from flightlog.spark.options.data_loss import Losses
from flightlog.spark.options.stores import StoreLocation
from flightlog.spark.plan.queue_planning import plan_queues
from flightlog.spark.read.queue_reading import QueueRangeReader
from flightlog.spark.schema import arrow_schema, spark_schema
from flightlog.spark.options.read_options import parse_options
from flightlog.spark.plan.selection import selected_spans
options = parse_options({"path": sys.argv[1], "subscribe": "large"})
with flightlog.open_read_only(sys.argv[1]) as view:
    spans = selected_spans(view, options, Losses())
    tasks = plan_queues(view, StoreLocation.local(Path(sys.argv[1])), spans, 1 << 40)
reader = QueueRangeReader(arrow_schema(spark_schema()), options)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = sum(len(value) for task in tasks for batch in reader.read(task) for value in batch["value"].to_pylist())
print(len(tasks), size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.ci
def test_a_task_with_large_bodies_holds_few_of_them(tmp_path: Path) -> None:
    bodies = 40
    with flightlog.open(tmp_path / "store", StoreSettings(segment_size=64 << 20)) as opened:
        for i in range(bodies):
            opened.put_many([Message("large", bytes([i]) * (4 << 20), queue_id=i % 2), Message("small", b"x" * 9000)])
    command = [sys.executable, "-P", "-c", MEASURE, str(tmp_path / "store")]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    tasks, size, grown_kib = map(int, finished.stdout.split())
    assert (tasks, size) == (1, bodies * (4 << 20))
    assert grown_kib < 64 << 10
