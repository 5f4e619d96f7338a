"""What a scan of the log need not read: by physical offset, by store time and by topic, as far as seals tell."""

from __future__ import annotations

import shutil
import struct
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.bounds import NO_BOUNDS, Bounds, Span, Starts
from flightlog.spark.options.read_options import ReadOptions
from flightlog.spark.options.stores import StoreLocation
from flightlog.spark.plan.log_planning import LogRange, plan_log
from flightlog.spark.read.reading import RangeReader
from flightlog.spark.schema import arrow_schema, spark_schema
from flightlog.store.disk.disk import RealDisk
from flightlog.store.format.record import encode_blank
from flightlog.store.seal.seal import make_seal, read_seal, seal_path, write_seal

if TYPE_CHECKING:
    Row = dict[str, Any]

SEGMENT_SIZE = 4 << 20
STORE_TIME_AT = 56  # in a record with an IPv4 sender
SPLIT_BYTES = 64 << 20


class Ticking:
    """A clock that goes on by a second with every look."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000

    def now_ms(self) -> int:
        self.now += 1000
        return self.now

    def monotonic_s(self) -> float:
        return self.now / 1000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three full segments, sealed, and a half one; the topic `early` is in the first alone,
    `later` in the last. Read it, never write."""
    path = tmp_path_factory.mktemp("log-pruning") / "store"
    settings = StoreSettings(segment_size=SEGMENT_SIZE, max_message_size=1 << 20, rocketmq_strict=False)
    with flightlog.open(path, settings, clock=Ticking()) as opened:
        for i in range(1400):
            topic = f"topic-{i % 3}" if i % 50 or 300 < i < 1350 else "early" if i < 300 else "later"
            opened.put(Message(topic, bytes([i % 251]) * (i * 7919 % 20_000)))
    assert len(list((path / "flightlog" / "seals").iterdir())) == 3
    return path


@pytest.fixture
def copy(store: Path, tmp_path: Path) -> Path:
    """A copy of it to change."""
    return Path(shutil.copytree(store, tmp_path / "store"))


def planned(path: Path, bounds: Bounds, split_bytes: int = SPLIT_BYTES) -> list[LogRange]:
    with flightlog.open_read_only(path) as view:
        return plan_log(view, StoreLocation.local(path), split_bytes, bounds=bounds)


def rows_of(ranges: list[LogRange], bounds: Bounds = NO_BOUNDS) -> list[Row]:
    schema = arrow_schema(spark_schema(("physicalOffset", "timestamp", "topic")))
    reader = RangeReader(schema, ReadOptions(bounds=bounds))
    return [row for each in ranges for batch in reader.read(each) for row in batch.to_pylist()]


def size(ranges: list[LogRange]) -> int:
    return sum(each.size for each in ranges)


def ms(row: Row) -> int:
    time: datetime = row["timestamp"]
    return round(time.timestamp() * 1000)


def is_within(row: Row, bounds: Bounds) -> bool:
    is_there = row["physicalOffset"] in bounds.physical_offsets and ms(row) in bounds.store_times_ms
    return is_there and bounds.takes_topic(row["topic"])


def check(path: Path, bounds: Bounds, split_bytes: int = SPLIT_BYTES) -> int:
    """The rows are those of everything that lie within; returns the bytes of the log that were planned for them."""
    ranges = planned(path, bounds, split_bytes)
    wanted = [row for row in rows_of(planned(path, NO_BOUNDS)) if is_within(row, bounds)]
    assert rows_of(ranges, bounds) == wanted
    assert [row for row in rows_of(ranges) if is_within(row, bounds)] == wanted, "none was left out of the plan"
    return size(ranges)


@pytest.mark.parametrize("split_bytes", [64 << 10, SPLIT_BYTES])
def test_a_span_of_physical_offsets(store: Path, split_bytes: int) -> None:
    for start, stop in [(0, 1), (5_000_000, 5_000_001), (3_000_000, 9_000_000), (13_000_000, 1 << 62), (-5, 0)]:
        bounds = Bounds(physical_offsets=Span(start, stop))
        read = check(store, bounds, split_bytes)
        held = max(min(stop, size(planned(store, NO_BOUNDS))) - max(start, 0), 0)
        assert read <= (held + (2 << 20) + 40_000 if held and stop < 3 * SEGMENT_SIZE else held + SEGMENT_SIZE)
        assert bool(read) is bool(held)


def test_a_window_of_time(store: Path) -> None:
    times = [ms(row) for row in rows_of(planned(store, NO_BOUNDS))]
    first, last = times[500], times[520]
    read = check(store, Bounds(store_times_ms=Span(first, last)))
    sealed_part = read - (size(planned(store, NO_BOUNDS)) - 3 * SEGMENT_SIZE)
    assert 0 < sealed_part <= 3 << 20, "the window's blocks, and the segment that is not sealed yet"
    assert planned(store, Bounds(store_times_ms=Span(5, 5))) == []


def test_a_topic_that_is_in_one_segment(store: Path) -> None:
    read = check(store, Bounds(topics=frozenset({"early"})))
    assert read == size(planned(store, NO_BOUNDS)) - 2 * SEGMENT_SIZE
    assert check(store, Bounds(topics=frozenset({"none", "topic-1"}))) > read
    assert check(store, Bounds(topic_starts=Starts(frozenset({"ea"})))) == read
    assert check(store, Bounds(topic_starts=Starts(frozenset({"topic-"})))) > read


def step_back(path: Path) -> None:
    """Give every fifth record of the log an earlier store time, as a clock would that is set back again and again."""
    with flightlog.open_read_only(path) as view:
        offsets = [row["physicalOffset"] for row in rows_of(planned(path, NO_BOUNDS))]
        for offset in offsets[::5]:
            segment = view.log_reader.segment_at(offset)
            assert segment is not None
            at = offset - segment.base + STORE_TIME_AT
            (time,) = struct.unpack(">q", segment.read(at, 8))
            with segment.path.open("r+b") as file:
                file.seek(at)
                file.write(struct.pack(">q", time - 700_000))
        for segment in view.segments[:-1]:
            seal_path(path, segment.base).unlink()
            seal = make_seal(view.log_reader, segment)
            assert seal is not None
            write_seal(RealDisk(), path, seal)


def test_a_clock_that_was_set_back_hides_no_message(copy: Path) -> None:
    step_back(copy)
    times = [ms(row) for row in rows_of(planned(copy, NO_BOUNDS))]
    assert times != sorted(times)
    whole = size(planned(copy, NO_BOUNDS))
    for first in range(min(times), max(times), (max(times) - min(times)) // 7):
        read = check(copy, Bounds(store_times_ms=Span(first, first + 1000)))
        assert read < whole


def test_a_seal_without_times_leaves_no_time_out(copy: Path) -> None:
    with flightlog.open_read_only(copy) as view:
        for segment in view.segments[:-1]:
            seal = read_seal(RealDisk(), copy, segment)
            assert seal is not None and len(seal.store_times_ms) == len(seal.boundaries)
            object.__setattr__(seal, "store_times_ms", ())
            write_seal(RealDisk(), copy, seal)
    whole = size(planned(copy, NO_BOUNDS))
    assert check(copy, Bounds(store_times_ms=Span(1, 2))) == whole
    shutil.rmtree(copy / "flightlog" / "seals")
    for bounds in (Bounds(store_times_ms=Span(1, 2)), Bounds(topics=frozenset({"none"}))):
        assert check(copy, bounds) == whole


def test_a_stale_seal_leaves_nothing_out(copy: Path) -> None:
    """A RocketMQ has cut the first segment back and written something else there."""
    path = copy / "commitlog" / f"{0:020d}"
    offsets = [row["physicalOffset"] for row in rows_of(planned(copy, NO_BOUNDS))]
    end = next(offset for offset in offsets if offset > SEGMENT_SIZE // 2)
    with path.open("r+b") as file:
        raw = bytearray(file.read(end))
        at = raw.index(b"early", offsets[60])
        raw[at : at + 5] = b"later"
        file.seek(0)
        file.write(raw + encode_blank(SEGMENT_SIZE - end))
    (copy / "flightlog" / "progress").unlink()
    later = Bounds(topics=frozenset({"later"}))
    whole = size(planned(copy, NO_BOUNDS))
    assert check(copy, later) == whole
    assert len(rows_of(planned(copy, later), later)) == 2
