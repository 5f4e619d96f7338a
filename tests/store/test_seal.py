"""Seals: what a full segment held, checked byte by byte."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.store.disk import RealDisk
from flightlog.store.log_files import list_log_files
from flightlog.store.log_reader import LogReader
from flightlog.store.seal import (
    Seal,
    broken_blocks,
    decode_seal,
    make_seal,
    read_seal,
    seal_path,
    write_seal,
)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TOPIC = st.text(st.characters(codec="utf-8"), max_size=40)
SEALS = st.builds(
    Seal,
    *(INT64, INT64, INT64, INT64, INT64, INT64),
    block_crcs=st.lists(st.integers(0, (1 << 32) - 1), max_size=5).map(tuple),
    boundaries=st.sets(st.integers(0, (1 << 63) - 1), max_size=5).map(sorted).map(tuple),
    topics=st.dictionaries(TOPIC, INT64, max_size=5),
)


@given(SEALS)
def test_round_trip(seal: Seal) -> None:
    assert decode_seal(seal.encode()) == seal


@given(SEALS, st.data())
def test_any_changed_byte_makes_it_none(seal: Seal, data: st.DataObject) -> None:
    raw = bytearray(seal.encode())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    assert decode_seal(bytes(raw)) is None


@given(SEALS, st.data())
def test_a_truncated_seal_is_none(seal: Seal, data: st.DataObject) -> None:
    raw = seal.encode()
    assert decode_seal(raw[: data.draw(st.integers(0, len(raw) - 1))]) is None


@given(st.binary(max_size=200))
def test_garbage_is_none(raw: bytes) -> None:
    assert decode_seal(raw) is None


@pytest.fixture
def rollover(golden: Callable[[str], Path]) -> LogReader:
    """23 segments of 64 KiB."""
    disk = RealDisk()
    return LogReader(disk, list_log_files(disk, golden("rollover") / "store" / "commitlog"))


@pytest.mark.usefixtures("kernel")
def test_a_full_segment_is_described(rollover: LogReader) -> None:
    for segment in rollover.segments[:-1]:
        seal = make_seal(rollover, segment)
        assert seal is not None
        assert (seal.base, seal.segment_size) == (segment.base, 65_536)
        topics: Counter[str] = Counter()
        at = 0
        times = []
        while at < seal.records_end:
            message = rollover.message_at(segment.base + at)
            topics[message.topic] += 1
            times.append(message.store_timestamp_ms)
            at += message.size
        assert at == seal.records_end
        assert segment.read(at + 4, 4).hex() == "cbd43194"
        assert (seal.record_count, seal.topics) == (len(times), topics)
        assert (seal.first_store_timestamp_ms, seal.last_store_timestamp_ms) == (times[0], times[-1])
        assert len(seal.block_crcs) == 1 and seal.boundaries == (0,)
        assert broken_blocks(segment, seal) == []


def test_a_segment_that_is_not_full_has_no_seal(rollover: LogReader) -> None:
    assert make_seal(rollover, rollover.segments[-1]) is None


def test_boundaries_are_where_records_start(golden: Callable[[str], Path], tmp_path: Path) -> None:
    """Of default sizes: the largest bodies have 4 MiB, so most blocks hold no boundary, and the others one."""
    source = golden("default-sizes") / "store" / "commitlog" / f"{0:020d}"
    disk = RealDisk()
    size, end = 12 << 20, 9_709_608
    (tmp_path / "commitlog").mkdir()
    with open(source, "rb") as reader:
        raw = reader.read(end)
    filler = (size - end).to_bytes(4, "big") + bytes.fromhex("cbd43194")
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes((raw + filler).ljust(size, b"\0"))
    log = LogReader(disk, list_log_files(disk, tmp_path / "commitlog"))
    seal = make_seal(log, log.segments[0])
    assert seal is not None and seal.record_count == 405 and len(seal.block_crcs) == 12
    assert seal.boundaries[0] == 0
    blocks = [boundary >> 20 for boundary in seal.boundaries]
    assert blocks == sorted(set(blocks)) and 3 <= len(blocks) < 12
    for boundary in seal.boundaries:
        assert log.message_at(boundary).physical_offset == boundary


@pytest.mark.parametrize("position", [0, 40_000, 65_535])
def test_every_byte_is_covered(position: int, rollover: LogReader, tmp_path: Path) -> None:
    """The filler's unused bytes too, which no CRC of RocketMQ's covers."""
    segment = rollover.segments[3]
    seal = make_seal(rollover, segment)
    assert seal is not None
    shutil.copytree(rollover.folder, tmp_path / "commitlog")
    path = tmp_path / "commitlog" / segment.path.name
    raw = bytearray(path.read_bytes())
    raw[position] ^= 1
    path.write_bytes(raw)
    disk = RealDisk()
    changed = LogReader(disk, list_log_files(disk, tmp_path / "commitlog"))
    assert broken_blocks(changed.segments[3], seal) == [0]
    assert broken_blocks(changed.segments[4], seal) == [0]


def test_a_seal_belongs_to_one_segment(rollover: LogReader, tmp_path: Path) -> None:
    disk = RealDisk()
    seal = make_seal(rollover, rollover.segments[3])
    assert seal is not None
    assert read_seal(disk, tmp_path, rollover.segments[3]) is None
    write_seal(disk, tmp_path, seal)
    assert read_seal(disk, tmp_path, rollover.segments[3]) == seal
    assert [p.name for p in (tmp_path / "flightlog" / "seals").iterdir()] == [rollover.segments[3].path.name]
    shutil.copy(seal_path(tmp_path, seal.base), seal_path(tmp_path, rollover.segments[4].base))
    assert read_seal(disk, tmp_path, rollover.segments[4]) is None
