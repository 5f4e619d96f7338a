"""Planning and reading without Spark: the cuts, damage, stale seals, and what a task reads and holds."""

from __future__ import annotations

import itertools
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.read_options import ReadOptions
from flightlog.spark.plan.log_planning import LogRange
from flightlog.spark.read.reading import RangeReader
from flightlog.spark.schema import arrow_schema, spark_schema
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import CorruptRecordError, DamagedStoreError, DiskError, StoreNotFoundError
from flightlog.store.format.record import encode_blank
from flightlog.store.seal.seal import BLOCK_SIZE, Seal, read_seal, write_seal
from flightlog.store.segments.segment import Segment
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support.planning import plan
from flightlog.tools.counting_disk import CountingDisk

if TYPE_CHECKING:
    pass

SEGMENT_SIZE = 4 << 20
SPLIT_BYTES = 1 << 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments and a half of records of 100 to 20,000 bytes; the full ones are sealed. Read it, never write."""
    path = tmp_path_factory.mktemp("planning") / "store"
    messages = [
        Message(f"topic-{i % 3}", bytes([i % 251]) * (i * 7919 % 20_000), keys=f"key-{i}", queue_id=i % 4)
        for i in range(1400)
    ]
    with flightlog.open(path, StoreSettings(segment_size=SEGMENT_SIZE, rocketmq_strict=False)) as opened:
        opened.put_many(messages)
    assert len(list((path / "flightlog" / "seals").iterdir())) == 3
    return path


@pytest.fixture
def copy(store: Path, tmp_path: Path) -> Path:
    """A copy of it to break."""
    return Path(shutil.copytree(store, tmp_path / "store"))


def read(
    ranges: Iterable[LogRange], *columns: str, disk: RealDisk | None = None, **choices: Any
) -> list[dict[str, Any]]:
    schema = arrow_schema(spark_schema(columns or ("physicalOffset", "value", "key")))
    reader = RangeReader(schema, ReadOptions(**choices), disk)
    return [row for piece in ranges for batch in reader.read(piece) for row in batch.to_pylist()]


def record_starts(path: Path) -> list[int]:
    with flightlog.open_read_only(path) as view:
        return sorted(message.physical_offset for queue in view.queues() for message in view.read(*queue))


def flat(packs: Iterable[Iterable[LogRange]]) -> list[LogRange]:
    return list(itertools.chain.from_iterable(packs))


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


# -- planning


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("split_bytes", [16_384, SPLIT_BYTES, 3 << 20, 256 << 20])
@pytest.mark.parametrize("sealed", [True, False])
def test_ranges_cover_the_log_once_and_start_at_records(copy: Path, split_bytes: int, sealed: bool) -> None:
    if not sealed:
        shutil.rmtree(copy / "flightlog" / "seals")
    starts = set(record_starts(copy))
    packs = plan(copy, split_bytes)
    ranges = flat(packs)
    assert all(piece.base + piece.start in starts for piece in ranges)
    assert all(piece.size > 0 for piece in ranges)
    for before, after in itertools.pairwise(ranges):
        assert after.base + after.start == before.base + before.stop
        assert before.is_cut is (before.base == after.base)
    with flightlog.open_read_only(copy) as view:
        assert (ranges[0].base, ranges[0].start) == (0, 0)
        assert ranges[-1].base + ranges[-1].stop == view.end_physical_offset
    block = BLOCK_SIZE if split_bytes >= BLOCK_SIZE else 0
    for pack in packs:
        assert sum(piece.size for piece in pack) <= split_bytes + 21_000 + block
    assert sorted(row["physicalOffset"] for row in read(ranges)) == sorted(starts)


@pytest.mark.parametrize("known_by", ["a seal", "queues"])
def test_a_segment_is_cut_without_reading_it(known_by: str, copy: Path) -> None:
    if known_by == "queues":
        shutil.rmtree(copy / "flightlog" / "seals")
    opening, planning = CountingDisk(), CountingDisk()
    flightlog.open_read_only(copy, disk=opening).close()
    packs = plan(copy, 2 << 20, planning)
    assert len(packs) == 7 and {piece.is_cut for piece in flat(packs)} == {False, True}
    assert planning.read_size - opening.read_size < 200_000, "a record at each cut, and the last segment's half"


def test_what_no_seal_and_no_queue_knows_is_walked(tmp_path: Path) -> None:
    """Half messages stand in no queue."""
    with flightlog.open(tmp_path / "store", StoreSettings(segment_size=8 << 20)) as opened:
        opened.put_many([Message("t", bytes(20_000), sys_flag=0x4 if 10 < i < 350 else 0) for i in range(400)])
    disk = CountingDisk()
    ranges = flat(plan(tmp_path / "store", 2 << 20, disk))
    assert [piece.size // (1 << 20) for piece in ranges] == [1, 1, 1, 1]
    assert disk.read_size < 8 << 20
    assert len(read(ranges, include_internal=True)) == 400


def test_small_segments_share_a_task(store: Path) -> None:
    assert len(plan(store, 256 << 20)) == 1
    assert [len(pack) for pack in plan(store, 2 * SEGMENT_SIZE)] == [2, 2]


def test_an_empty_store_has_no_ranges(tmp_path: Path) -> None:
    flightlog.open(tmp_path / "store", StoreSettings.small()).close()
    assert plan(tmp_path / "store", SPLIT_BYTES) == []


def test_no_store_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match=f"{tmp_path}: no commitlog/ in it"):
        plan(tmp_path, SPLIT_BYTES)


def test_a_damaged_or_foreign_seal_is_only_a_missed_shortcut(copy: Path) -> None:
    starts = record_starts(copy)
    (seal_path,) = sorted((copy / "flightlog" / "seals").iterdir())[:1]
    disk, segment = RealDisk(), Segment(RealDisk(), copy / "commitlog" / f"{0:020d}", 0, SEGMENT_SIZE)
    seal = read_seal(disk, copy, segment)
    assert seal is not None
    shifted = replace(seal, boundaries=tuple(place + 1 for place in seal.boundaries))
    ways: list[Callable[[], object]] = [
        lambda: overwrite(seal_path, 100, b"\xff"),
        lambda: write_seal(disk, copy, shifted),
    ]
    for break_it in ways:
        break_it()
        ranges = flat(plan(copy, SPLIT_BYTES))
        assert len(ranges) > 10
        assert [row["physicalOffset"] for row in read(ranges)] == starts


def test_a_stale_seal_never_brings_old_records_back(copy: Path) -> None:
    """RocketMQ cut the segment back and wrote on: behind the new filler the old records still lie, whole."""
    disk, path = RealDisk(), copy / "commitlog" / f"{0:020d}"
    segment = Segment(disk, path, 0, SEGMENT_SIZE)
    seal = read_seal(disk, copy, segment)
    assert isinstance(seal, Seal)
    starts = record_starts(copy)
    new_end = next(start for start in starts if start > SEGMENT_SIZE * 5 // 8)
    overwrite(path, new_end, encode_blank(SEGMENT_SIZE - new_end))
    ranges = flat(plan(copy, SPLIT_BYTES))
    assert any(piece.start > new_end for piece in ranges if piece.base == 0), "the seal was believed"
    for choice in ("fail", "skip"):
        with pytest.raises(DamagedStoreError, match=rf"records end at position {new_end}.*remove flightlog/seals/0000"):
            read(ranges, on_corrupt=choice)
    (copy / "flightlog" / "seals" / path.name).unlink()
    with pytest.raises(DamagedStoreError, match=rf"a queue knows one.*set splitBytes to {SEGMENT_SIZE} or more"):
        read(flat(plan(copy, SPLIT_BYTES)))
    expected = [start for start in starts if not new_end <= start < SEGMENT_SIZE]
    assert [row["physicalOffset"] for row in read(flat(plan(copy, SEGMENT_SIZE)))] == expected
    shutil.rmtree(copy / "consumequeue")  # RocketMQ would have cut the queues, too
    assert [row["physicalOffset"] for row in read(flat(plan(copy, SPLIT_BYTES)))] == expected


# -- damage


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("the size", "a record whose lengths do not add up"),
        ("a size that reaches far", "a record whose lengths do not add up"),
        ("the magic", "bytes that are no record"),
        ("the physical offset", "a record that belongs elsewhere"),
        ("everything", "bytes that were never written"),
        ("the body", "a body that differs from its CRC"),
    ],
)
@pytest.mark.parametrize("split_bytes", [65_536, 256 << 20])
def test_a_damaged_record_is_named_or_left_out(
    copy: Path, what: str, found: str, split_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    starts = record_starts(copy)
    hit = next(i for i, start in enumerate(starts) if start > SEGMENT_SIZE + 2_000_000 and starts[i + 1] - start > 9000)
    size, path = starts[hit + 1] - starts[hit], copy / "commitlog" / f"{SEGMENT_SIZE:020d}"
    at, data = {
        "the size": (0, (5).to_bytes(4, "big")),
        "a size that reaches far": (0, (2_000_000).to_bytes(4, "big")),
        "the magic": (4, b"none"),
        "the physical offset": (28, bytes(8)),
        "everything": (0, bytes(size)),
        "the body": (500, b"damage"),
    }[what]
    ranges = flat(plan(copy, split_bytes))  # as for a store that breaks while it is read
    overwrite(path, starts[hit] - SEGMENT_SIZE + at, data)

    with pytest.raises(CorruptRecordError) as caught:
        read(ranges)
    assert (caught.value.path, caught.value.physical_offset) == (path, starts[hit])
    if split_bytes > SEGMENT_SIZE:
        assert caught.value.found == found

    with caplog.at_level(logging.WARNING, "flightlog.spark"):
        kept = [row["physicalOffset"] for row in read(ranges, on_corrupt="skip")]
    assert kept == starts[:hit] + starts[hit + 1 :]
    (warning,) = [r.getMessage() for r in caplog.records if r.name.startswith("flightlog.spark")]
    assert f"{path}: left out 1 damaged places" in warning
    assert f"physical offset {starts[hit]}" in warning
    assert [row["physicalOffset"] for row in read(flat(plan(copy, split_bytes)), on_corrupt="skip")] == kept


def test_damage_to_the_end_of_a_range_ends_it(copy: Path) -> None:
    starts = record_starts(copy)
    ranges = flat(plan(copy, SPLIT_BYTES))
    victim = next(piece for piece in ranges if piece.base == SEGMENT_SIZE and piece.is_cut)
    half = next(start for start in starts if start > victim.base + victim.start + victim.size // 2)
    overwrite(Path(victim.segment_path), half - victim.base, bytes(victim.base + victim.stop - half))
    kept = [row["physicalOffset"] for row in read(ranges, on_corrupt="skip")]
    assert kept == [start for start in starts if not half <= start < victim.base + victim.stop]


def test_a_segment_cut_short_is_an_error_with_a_name(copy: Path) -> None:
    ranges = flat(plan(copy, 256 << 20))
    path = copy / "commitlog" / f"{SEGMENT_SIZE:020d}"
    with path.open("r+b") as file:
        file.truncate(SEGMENT_SIZE // 2)
    with pytest.raises(CorruptRecordError, match=str(path)):
        read(ranges)
    starts = [row["physicalOffset"] for row in read(ranges, on_corrupt="skip")]
    assert {start // SEGMENT_SIZE for start in starts} == {0, 1, 2, 3}


def test_a_segment_that_is_gone_is_an_error_with_a_name(copy: Path) -> None:
    ranges = flat(plan(copy, 256 << 20))
    path = copy / "commitlog" / f"{SEGMENT_SIZE:020d}"
    path.unlink()
    with pytest.raises(DiskError, match=f"{path}: gone since the query began.*run again"):
        read(ranges)


def test_a_disk_that_fails_is_an_error_with_a_name(store: Path) -> None:
    disk = FaultyDisk()
    disk.fail("read", "commitlog/", 5, skip=2)
    with pytest.raises(DiskError, match=f"{store}/commitlog/.*reading"):
        read(flat(plan(store, 256 << 20)), disk=disk)


# -- what a task reads and holds


def test_a_task_reads_its_ranges_and_little_more(store: Path) -> None:
    ranges = flat(plan(store, SPLIT_BYTES))
    disk = CountingDisk()
    read(ranges[3:5], disk=disk)
    asked = sum(piece.size for piece in ranges[3:5])
    assert disk.read_size == asked


MEASURE = """
import resource, sys
from pathlib import Path
from flightlog.spark.options.read_options import ReadOptions
from flightlog.tests.support.planning import plan
from flightlog.spark.read.reading import RangeReader
from flightlog.spark.schema import arrow_schema, spark_schema
ranges = [piece for pack in plan(Path(sys.argv[1]), 1 << 20) for piece in pack]
reader = RangeReader(arrow_schema(spark_schema()), ReadOptions())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = sum(len(value) for piece in ranges for batch in reader.read(piece) for value in batch["value"].to_pylist())
print(size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.ci
def test_a_task_with_large_bodies_holds_few_of_them(tmp_path: Path) -> None:
    bodies = 40
    with flightlog.open(tmp_path / "store", StoreSettings(segment_size=64 << 20)) as opened:
        for i in range(bodies):
            opened.put(Message("large", bytes([i]) * (4 << 20)))
    command = [sys.executable, "-P", "-c", MEASURE, str(tmp_path / "store")]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    size, grown_kib = map(int, finished.stdout.split())
    assert size == bodies * (4 << 20)
    assert grown_kib < 64 << 10
