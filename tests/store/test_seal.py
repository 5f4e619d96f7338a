"""Seals: what a full segment held, checked byte by byte."""

from __future__ import annotations

import errno
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import DiskError
from flightlog.store.format.record import encode_blank
from flightlog.store.log.log_reader import LogReader
from flightlog.store.seal import seal as seal_module
from flightlog.store.seal.seal import (
    TAIL_SIZE,
    BlockCrcs,
    Seal,
    broken_blocks,
    decode_seal,
    drop_seals_below,
    drop_stale_seals,
    make_seal,
    read_seal,
    seal_fits,
    seal_path,
    write_seal,
)
from flightlog.store.segments.log_files import list_log_files
from flightlog.store.segments.segment import Segment
from flightlog.testing.faulty_disk import FaultyDisk

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TOPIC = st.text(st.characters(codec="utf-8"), max_size=40)
WITHOUT_TIMES = st.builds(
    Seal,
    *(INT64, INT64, INT64, INT64, INT64, INT64),
    block_crcs=st.lists(st.integers(0, (1 << 32) - 1), max_size=5).map(tuple),
    boundaries=st.sets(st.integers(0, (1 << 63) - 1), max_size=5).map(sorted).map(tuple),
    topics=st.dictionaries(TOPIC, INT64, max_size=5),
)


@st.composite
def with_times(draw: st.DrawFn) -> Seal:
    seal = draw(WITHOUT_TIMES)
    return replace(seal, store_times_ms=tuple(draw(st.tuples(INT64, INT64)) for _ in seal.boundaries))


SEALS = WITHOUT_TIMES | with_times()


@given(SEALS)
def test_round_trip(seal: Seal) -> None:
    assert decode_seal(seal.encode()) == seal


def test_a_seal_of_before_is_read() -> None:
    old, new = replace(A_SEAL, store_times_ms=()), replace(A_SEAL, store_times_ms=((1, 2), (-3, 4)))
    assert (old.encode()[:8], new.encode()[:8]) == (b"FLSEAL01", b"FLSEAL02")
    assert len(new.encode()) == len(old.encode()) + 32
    assert decode_seal(old.encode()) == old


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
        assert seal.store_times_ms == ((min(times), max(times)),)
        assert len(seal.block_crcs) == 1 and seal.boundaries == (0,)
        assert broken_blocks(segment, seal) == []


def test_a_segment_that_is_not_full_has_no_seal(rollover: LogReader) -> None:
    assert make_seal(rollover, rollover.segments[-1]) is None


def test_boundaries_are_where_records_start(golden: Callable[[str], Path], tmp_path: Path) -> None:
    """With default sizes: the largest bodies have 4 MiB, so most blocks hold no boundary, and the others one."""
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
    for piece_rows in (1, 7, 100_000):
        assert times_of(log, seal, piece_rows) == list(seal.store_times_ms)


def times_of(log: LogReader, seal: Seal, rows_a_piece: int) -> list[tuple[int, int]]:
    """Least and greatest store time from each boundary on, asked record by record, and grouped as they come by."""
    records = [
        message
        for _, rows in log.scan(log.segments[0], 0, seal.records_end, check_crc=False)
        for message in rows.tolist()
    ]
    at, times = np.array([record[1] for record in records]), np.array([record[4] for record in records])
    times[::3] -= 5000  # a clock that was set back
    found: list[tuple[int, int]] = []
    for first in range(0, len(at), rows_a_piece):
        piece = slice(first, first + rows_a_piece)
        seal_module._add_times(found, times[piece], np.flatnonzero(np.isin(at[piece], seal.boundaries)))
    ends = [*seal.boundaries[1:], seal.records_end]
    parts = [times[(at >= start) & (at < end)] for start, end in zip(seal.boundaries, ends, strict=True)]
    assert found == [(part.min(), part.max()) for part in parts]
    unchanged = times.copy()
    unchanged[::3] += 5000
    parts = [unchanged[(at >= start) & (at < end)] for start, end in zip(seal.boundaries, ends, strict=True)]
    return [(int(part.min()), int(part.max())) for part in parts]


@pytest.mark.usefixtures("kernel")
def test_old_records_behind_a_new_filler_do_not_make_a_seal_fit(tmp_path: Path) -> None:
    """RocketMQ has cut the segment back, and a large message did not fit: the filler is far from the end."""
    size = 8 << 20
    with flightlog.open(tmp_path, StoreSettings(segment_size=size, max_message_size=1 << 20)) as store:
        store.put_many([Message("t", bytes([i % 251]) * 50_000) for i in range(200)])
    disk = RealDisk()
    log = LogReader(disk, list_log_files(disk, tmp_path / "commitlog"))
    segment = log.segments[0]
    seal = read_seal(disk, tmp_path, segment)
    assert seal is not None and seal_fits(log, segment, seal)
    filler_at = next(place for place in seal.boundaries if place > size - TAIL_SIZE)
    assert filler_at < seal.boundaries[-2], "whole blocks of old records lie behind it"
    with segment.path.open("r+b") as file:
        file.seek(filler_at)
        file.write(encode_blank(size - filler_at))
    assert not seal_fits(log, segment, seal)


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


@pytest.mark.parametrize("piece_size", [1, 700, 4096, 65_536])
@pytest.mark.parametrize("stop", [0, 4096, 5000, 65_536])
def test_bytes_that_came_by_are_not_read_again(piece_size: int, stop: int, rollover: LogReader) -> None:
    """Pieces may say again what came before; what did not come by is read, and a changed byte is found in either."""
    segment = rollover.segments[3]
    seal = make_seal(rollover, segment)
    assert seal is not None
    raw = segment.read(0, segment.size)
    for changed in (None, 0, stop - 1):
        seen = bytearray(raw)
        if changed is not None:
            seen[changed] ^= 1
        blocks = BlockCrcs()
        for position in range(0, stop, piece_size):
            first = max(position - 100, 0)
            blocks.feed(first, memoryview(seen)[first : min(position + piece_size, stop)])
        is_found = changed is not None and 0 <= changed < stop
        assert blocks.broken_blocks(segment, seal) == ([0] if is_found else []), changed


def test_blocks_whose_ends_lie_within_pieces(tmp_path: Path) -> None:
    raw = random.Random(1).randbytes((2 << 20) + 12_345)
    path = tmp_path / f"{0:020d}"
    path.write_bytes(raw)
    segment = Segment(RealDisk(), path, 0, len(raw))
    crcs = [crc32c(raw[start : start + (1 << 20)]) for start in range(0, len(raw), 1 << 20)]
    for piece_size in (333_333, 1 << 20, len(raw)):
        for stop in (0, 1 << 20, (1 << 20) + 5, len(raw)):
            blocks = BlockCrcs()
            for position in range(0, stop, piece_size):
                blocks.feed(position, raw[position : min(position + piece_size, stop)])
            assert [blocks.crc_of(segment, i) for i in range(3)] == crcs, (piece_size, stop)
    segment.close()


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


A_SEAL = Seal(0, 65_536, 60_000, 3, 5, 7, (1,), (0, 500), {"t": 3})


def resealed(raw: bytes) -> bytes:
    """With a CRC that is right: what no damage makes."""
    return raw[:-4] + crc32c(raw[:-4]).to_bytes(4, "big")


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(resealed(b"x" + A_SEAL.encode()[1:]), id="another magic"),
        pytest.param(resealed(replace(A_SEAL, boundaries=(500, 0)).encode()), id="boundaries that descend"),
        pytest.param(resealed(A_SEAL.encode()[:-4] + bytes(5)), id="more bytes than it says"),
        pytest.param(resealed(A_SEAL.encode()[:-7] + bytes(4)), id="fewer bytes than it says"),
    ],
)
def test_what_contradicts_itself_is_none(raw: bytes) -> None:
    assert decode_seal(A_SEAL.encode()) == A_SEAL
    assert decode_seal(raw) is None


def test_a_seal_that_cannot_be_read_is_as_good_as_missing(rollover: LogReader, tmp_path: Path) -> None:
    disk, segment = FaultyDisk(), rollover.segments[3]
    seal = make_seal(rollover, segment)
    assert seal is not None
    write_seal(disk, tmp_path, seal)
    disk.fail("read", "seals", errno.EIO)
    assert read_seal(disk, tmp_path, segment) is None
    disk.heal()
    assert read_seal(disk, tmp_path, segment) == seal


@pytest.mark.parametrize("operation", ["resize", "write"])
def test_a_seal_that_cannot_be_written_leaves_nothing_behind(operation: str, tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.fail(operation, "seals", errno.EIO)
    with pytest.raises(DiskError):
        write_seal(disk, tmp_path, A_SEAL)
    assert not list(seal_path(tmp_path, 0).parent.iterdir())


def test_a_seal_fits_the_segment_that_it_was_made_of(rollover: LogReader) -> None:
    """Seen from its last boundary; one without boundaries says nothing."""
    segment = rollover.segments[3]
    seal = make_seal(rollover, segment)
    assert seal is not None and seal_fits(rollover, segment, seal)
    assert not seal_fits(rollover, segment, replace(seal, boundaries=()))
    assert not seal_fits(rollover, segment, replace(seal, last_store_timestamp_ms=seal.last_store_timestamp_ms + 1))
    assert not seal_fits(rollover, segment, replace(seal, records_end=seal.records_end - 8))


def test_seals_of_no_full_segment_go(rollover: LogReader, tmp_path: Path) -> None:
    disk = RealDisk()
    for segment in rollover.segments[:4]:
        seal = make_seal(rollover, segment)
        assert seal is not None
        write_seal(disk, tmp_path, seal)
    folder = seal_path(tmp_path, 0).parent
    bases = [segment.base for segment in rollover.segments[:4]]
    (folder / "notes").write_bytes(b"x")
    write_seal(disk, tmp_path, replace(A_SEAL, base=1 << 40))  # of a segment that there is not
    seal_path(tmp_path, bases[1]).write_bytes(b"damaged")
    dropped = drop_stale_seals(disk, tmp_path, rollover, bases[3])
    assert len(dropped) == 3
    kept = ["notes", *(seal_path(tmp_path, base).name for base in (bases[0], bases[2]))]
    assert sorted(path.name for path in folder.iterdir()) == sorted(kept)
    assert drop_stale_seals(disk, tmp_path, rollover, bases[3]) == []
    assert drop_seals_below(disk, tmp_path, bases[2]) == [seal_path(tmp_path, bases[0])]
    assert sorted(path.name for path in folder.iterdir()) == sorted(["notes", seal_path(tmp_path, bases[2]).name])
