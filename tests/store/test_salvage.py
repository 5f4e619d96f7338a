"""Finding intact records behind damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.store import native
from flightlog.store.disk.disk import RealDisk
from flightlog.store.format.frame import MAGIC_V1, MAGIC_V2
from flightlog.store.scan import salvage
from flightlog.store.scan.salvage import last_data, next_intact, scans_past_damage
from flightlog.store.scan.scan import SegmentScan
from flightlog.store.segments.segment import Segment, segment_name

BASE = 65_536
SIZE = 65_536
HOST = bytes.fromhex("0a000001 0000d431")

pytestmark = pytest.mark.usefixtures("kernel")


def record(position: int, body: bytes = b"body", magic: int = MAGIC_V1) -> bytes:
    buffer = bytearray((91 if magic == MAGIC_V1 else 92) + 1 + len(body))
    native.encode_record(buffer, 0, magic, 0, 0, 0, BASE + position, 0, 0, HOST, 0, HOST, 0, 0, body, b"t", b"")
    return bytes(buffer)


def segment_of(folder: Path, pieces: dict[int, bytes]) -> Segment:
    """A segment with holes between the pieces."""
    path = folder / segment_name(BASE)
    with open(path, "wb") as file:
        file.truncate(SIZE)
        for position, piece in pieces.items():
            file.seek(position)
            file.write(piece)
    return Segment(RealDisk(), path, BASE, SIZE)


@pytest.mark.parametrize("magic", [MAGIC_V1, MAGIC_V2])
@pytest.mark.parametrize("position", [0, 1, 4095, 30_000, SIZE - 97])
def test_the_next_record_is_found(magic: int, position: int, tmp_path: Path) -> None:
    segment = segment_of(tmp_path, {position: record(position, magic=magic)})
    assert next_intact(segment, 0, SIZE) == position
    assert next_intact(segment, position, SIZE) == position
    assert next_intact(segment, position + 1, SIZE) is None


def test_scans_resume_behind_damage(tmp_path: Path) -> None:
    """Behind bytes that are no record, behind a hole, and no further than `stop`."""
    raw = record(0)
    segment = segment_of(tmp_path, {0: raw, len(raw): b"x" * 700, 800: record(800), 9000: record(9000)})
    found, ends = [], []
    for scan in scans_past_damage(
        lambda begin: SegmentScan(segment.read, BASE, SIZE, begin, 9000 + len(raw), check_crc=False), segment, 0, SIZE
    ):
        found += [int(offset) - BASE for _, rows in scan for offset in rows["physical_offset"]]
        ends.append((scan.position, scan.is_whole))
    assert found == [0, 800, 9000]
    assert ends == [(len(raw), False), (800 + len(raw), False), (9000 + len(raw), True)]


def test_it_must_lie_before_the_stop(tmp_path: Path) -> None:
    raw = record(1000)
    segment = segment_of(tmp_path, {1000: raw})
    assert next_intact(segment, 0, 1000 + len(raw)) == 1000
    assert next_intact(segment, 0, 1000 + len(raw) - 1) is None


def test_what_only_looks_like_a_record(tmp_path: Path) -> None:
    flipped = bytearray(record(2000))
    flipped[-12] ^= 1
    pieces = {
        1000: record(1001),  # of another place
        2000: bytes(flipped),  # of another body
        3000: record(3000)[:-5],  # torn
        4000: bytes.fromhex("00000000daa320a7 7fffffffdaa320ab daa320a7daa320a7"),
        9000: record(9000),
    }
    assert next_intact(segment_of(tmp_path, pieces), 0, SIZE) == 9000


def test_a_record_inside_a_body_is_found_too(tmp_path: Path) -> None:
    """Only damage handling starts from what is found here: a body may hold anything."""
    body = record(500 + 88)
    segment = segment_of(tmp_path, {500: record(500, body)})
    assert next_intact(segment, 500, SIZE) == 500
    assert next_intact(segment, 501, SIZE) == 588


@given(position=st.integers(1, 3000), piece_size=st.integers(104, 400))
def test_wherever_the_pieces_are_cut(position: int, piece_size: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(salvage, "PIECE_SIZE", piece_size)
        segment = segment_of(tmp_path_factory.getbasetemp(), {0: b"\1" * 4000, position: record(position)})
        assert next_intact(segment, 0, SIZE) == position
        assert last_data(segment, 0) == 4000
        segment.close()


@pytest.mark.parametrize("position", [0, 1, 100, 4096, SIZE - 1])
def test_last_data(position: int, tmp_path: Path) -> None:
    segment = segment_of(tmp_path, {position: b"\1"})
    assert last_data(segment, 0) == position + 1
    assert last_data(segment, position) == position + 1
    assert last_data(segment, position + 1) == position + 1


def test_written_zeros_are_no_data(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, {100: b"\1", 200: bytes(20_000)})
    assert last_data(segment, 0) == 101
    assert last_data(segment, 150) == 150
    assert last_data(segment_of(tmp_path, {}), 0) == 0
