"""Topics of a store that lacks a segment: what they lost is told, whatever their queues remember; without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.read_options import parse_options
from flightlog.spark.plan.batch_planning import plan_batch
from flightlog.spark.read.reading import read_ranges
from flightlog.spark.schema import arrow_schema, spark_schema
from flightlog.spark.stream.streaming import LogStreamReader
from flightlog.store.errors import CorruptRecordError

SEGMENT_SIZE = 16 << 10
SEGMENTS = 8


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`early` has messages in the first segments, `late` in the last ones, `all` in every one."""
    path = tmp_path_factory.mktemp("lost") / "store"
    with flightlog.open(path, StoreSettings.small(segment_size=SEGMENT_SIZE, queue_file_entries=40)) as store:
        for i in range(SEGMENTS * 30 - 5):
            part = "early" if i < 110 else "late"
            store.put(Message("all" if i % 2 else part, bytes(400), queue_id=i % 3))
        assert store.verify().is_clean
    assert len(list((path / "commitlog").iterdir())) == SEGMENTS
    return path


def rows(path: Path, **options: str) -> list[dict[str, Any]]:
    given = parse_options({"path": str(path), **options})
    schema = arrow_schema(spark_schema((), given.shown), given.added)
    tasks = plan_batch(given)
    found = (read_ranges(task, schema, given) for task in tasks)
    return [row for batches in found for batch in batches for row in batch.to_pylist()]


def damaged(path: Path, tmp_path: Path, segment: int, *, is_foreign: bool) -> Path:
    """A copy without this segment; of a foreign one nobody knows how far it was synced."""
    shutil.copytree(path, tmp_path / "copy")
    (tmp_path / "copy" / "commitlog" / f"{segment * SEGMENT_SIZE:020d}").unlink()
    if is_foreign:
        shutil.rmtree(tmp_path / "copy" / "flightlog")
    return tmp_path / "copy"


@pytest.mark.parametrize("is_foreign", [False, True])
@pytest.mark.parametrize("segment", range(SEGMENTS))
def test_what_a_topic_lost_is_told(whole: Path, tmp_path: Path, segment: int, is_foreign: bool) -> None:
    path = damaged(whole, tmp_path, segment, is_foreign=is_foreign)
    is_unknown = segment == 0 or (is_foreign and segment == SEGMENTS - 1)  # as retention, and as a crash leave it
    for topic in ("early", "late", "all"):
        before = {row["physicalOffset"] for row in rows(whole, subscribe=topic)}
        kept = {place for place in before if place // SEGMENT_SIZE != segment}
        assert {row["physicalOffset"] for row in rows(path, subscribe=topic, onCorrupt="skip")} == kept
        if kept == before:
            continue
        if is_unknown:
            assert {row["physicalOffset"] for row in rows(path, subscribe=topic)} == kept
            continue
        for choice in ("true", "false"):
            with pytest.raises(CorruptRecordError) as caught:
                rows(path, subscribe=topic, failOnDataLoss=choice)
            assert caught.value.physical_offset // SEGMENT_SIZE == segment
        told = [row["_corrupt"] for row in rows(path, subscribe=topic, onCorrupt="rows") if row["_corrupt"]]
        assert [place["offset"] // SEGMENT_SIZE for place in told] == [segment]


def test_a_topic_of_which_nothing_is_left(whole: Path, tmp_path: Path) -> None:
    path = damaged(whole, tmp_path, SEGMENTS - 1, is_foreign=False)
    for segment in range(3, SEGMENTS - 1):
        (path / "commitlog" / f"{segment * SEGMENT_SIZE:020d}").unlink()
    with pytest.raises(CorruptRecordError, match="before what was synced"):
        rows(path, subscribe="late")


def test_offsets_that_end_before_the_place_have_lost_nothing(whole: Path, tmp_path: Path) -> None:
    path = damaged(whole, tmp_path, SEGMENTS - 1, is_foreign=False)
    ends = '{"all": {"0": 10, "1": 10, "2": 10}}'
    assert len(rows(path, assign='{"all": [0, 1, 2]}', endingOffsets=ends)) == 30


def test_a_stream_is_told_once(whole: Path, tmp_path: Path) -> None:
    path = damaged(whole, tmp_path, SEGMENTS - 1, is_foreign=False)
    given = parse_options(
        {"path": str(path), "subscribe": "all,late", "startingOffsets": "earliest", "onCorrupt": "rows"}
    )
    tasks: Any = None
    reader = LogStreamReader(given, tasks)
    start, end = reader.initialOffset(), reader.latestOffset()
    schema = arrow_schema(spark_schema((), given.shown), given.added)
    parts: list[Any] = list(reader.partitions(start, end))
    found = [b for part in parts for b in read_ranges(part.ranges, schema, given)]
    told = [row["_corrupt"] for batch in found for row in batch.to_pylist() if row["_corrupt"]]
    reader.stop()
    assert [place["offset"] // SEGMENT_SIZE for place in told] == [SEGMENTS - 1]
