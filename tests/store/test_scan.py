"""A walk in pieces finds what a walk in one go finds, wherever the pieces are cut."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.store import native
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_V1, WalkEnd
from flightlog.store.format.record import encode_blank
from flightlog.store.scan import scan
from flightlog.store.scan.scan import SegmentScan

HOST = bytes.fromhex("0a000001 0000d431")
BASE = 3 * 65_536

pytestmark = pytest.mark.usefixtures("kernel")


def log_of(*body_sizes: int, base: int = BASE) -> bytes:
    """Records one after the other."""
    found = bytearray()
    for i, size in enumerate(body_sizes):
        buffer = bytearray(91 + 1 + size)
        native.encode_record(
            buffer, 0, MAGIC_V1, 0, i, i, base + len(found), 0, 0, HOST, i, HOST, 0, 0, bytes(size), b"t", b""
        )
        found += buffer
    return bytes(found)


Found = tuple[list[int], int, WalkEnd]


def scanned(raw: bytes, *, stop: int | None = None, position: int = 0, **how: Any) -> Found:
    """(physical offsets, position, end), which are the same whether steps are taken ahead or not."""
    end = len(raw) if stop is None else stop
    how = {"check_crc": True} | how

    def walk() -> SegmentScan:
        return SegmentScan(lambda at, size: raw[at : at + size], BASE, len(raw), position, end, **how)

    found, ahead = steps_of(raw, walk(), SegmentScan.__iter__), steps_of(raw, walk(), SegmentScan.ahead)
    assert found == ahead
    return found


def steps_of(raw: bytes, walk: SegmentScan, step: Callable[[SegmentScan], Iterator[Any]]) -> Found:
    found = []
    for piece, rows in step(walk):
        assert len(rows)
        for row in rows:
            found.append(int(row["physical_offset"]))
            at = int(row["position"])
            assert piece[at + 4 : at + 8] == raw[found[-1] - BASE + 4 : found[-1] - BASE + 8]
    return found, walk.position, walk.end


class BadSectorError(Exception):
    pass


def test_steps_that_are_taken_ahead_fail_and_end_in_their_turn() -> None:
    raw = log_of(*[100] * 50)
    readers: set[threading.Thread] = set()

    def read(at: int, size: int) -> bytes:
        readers.add(threading.current_thread())
        if at + size > len(raw) // 2:
            raise BadSectorError
        return raw[at : at + size]

    def begin() -> Iterator[Any]:
        return SegmentScan(read, BASE, len(raw), 0, len(raw), check_crc=True, piece_size=1000).ahead()

    found = 0
    with pytest.raises(BadSectorError):
        for _, rows in begin():
            found += len(rows)
    assert found == 20, "every record of the pieces before it"
    abandoned = begin()
    next(abandoned)
    del abandoned
    assert readers and threading.current_thread() not in readers
    assert readers.isdisjoint(threading.enumerate())


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(8, 500), st.integers(0, 200))
def test_any_piece_size(body_sizes: list[int], piece_size: int, filler_size: int) -> None:
    records = log_of(*body_sizes)
    raw = records + encode_blank(filler_size + 8) + bytes(filler_size)
    starts = [BASE + at for at in np.cumsum([0, *(92 + size for size in body_sizes)])[:-1].tolist()]
    assert scanned(raw, piece_size=piece_size) == (starts, len(records), WalkEnd.BLANK)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=10), st.integers(8, 500), st.data())
def test_any_stop(body_sizes: list[int], piece_size: int, data: st.DataObject) -> None:
    raw = log_of(*body_sizes)
    stop = data.draw(st.integers(0, len(raw)))
    edges = np.cumsum([0, *(92 + size for size in body_sizes)]).tolist()
    whole = [edge for edge in edges if edge <= stop]
    found, position, end = scanned(raw, stop=stop, piece_size=piece_size)
    assert found == [BASE + edge for edge in whole[:-1]]
    assert position == whole[-1]
    # Fewer than eight bytes tell nothing about the frame that they begin.
    assert end is (WalkEnd.END if stop - position < 8 else WalkEnd.TRUNCATED)


def test_more_records_than_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "ROWS_A_PIECE", 7)
    found, position, end = scanned(log_of(*[10] * 100))
    assert (len(found), position, end) == (100, 102 * 100, WalkEnd.END)


def test_a_record_larger_than_a_piece() -> None:
    raw = log_of(10, 100_000, 20)
    found, position, end = scanned(raw, piece_size=4096)
    assert (len(found), position, end) == (3, len(raw), WalkEnd.END)


@pytest.mark.parametrize(
    ("damage", "end"),
    [
        (bytes(8), WalkEnd.EMPTY),
        (b"\0\0\0\0\1\2\3\4", WalkEnd.BAD_MAGIC),
        (b"\0\0\0\x08\xda\xa3\x20\xa7", WalkEnd.BAD_LENGTHS),
        (b"\x7f\xff\xff\xff\xda\xa3\x20\xa7", WalkEnd.TRUNCATED),
        (encode_blank(0), WalkEnd.BAD_LENGTHS),
        (encode_blank(100), WalkEnd.BAD_LENGTHS),  # a filler that does not reach the segment's end
        (encode_blank(400), WalkEnd.BLANK),
    ],
)
@pytest.mark.parametrize("piece_size", [8, 64, 4 << 20])
def test_what_stands_behind_the_last_record(damage: bytes, end: WalkEnd, piece_size: int) -> None:
    records = log_of(10, 20)
    raw = records + damage.ljust(400, b"\0")
    assert scanned(raw, piece_size=piece_size) == ([BASE, BASE + 102], len(records), end)


def test_a_record_of_another_place() -> None:
    raw = log_of(10) + log_of(20)
    assert scanned(raw) == ([BASE], 102, WalkEnd.BAD_OFFSET)


def test_a_changed_body_does_not_stop_the_walk() -> None:
    raw = bytearray(log_of(10, 20, 30))
    raw[102 + 88] ^= 1
    walk = SegmentScan(lambda at, size: bytes(raw[at : at + size]), BASE, len(raw), 0, len(raw), check_crc=True)
    rows = np.concatenate([np.array(rows, FRAME_DTYPE) for _, rows in walk])
    assert rows["crc_ok"].tolist() == [1, 0, 1]


def test_a_file_shorter_than_its_segment_is_no_sound_end() -> None:
    raw = log_of(10, 20)
    walk = SegmentScan(lambda at, size: raw[at : at + size], BASE, 4096, 0, 4096, check_crc=True)
    assert sum(len(rows) for _, rows in walk) == 2
    assert walk.end is not WalkEnd.BLANK
    assert walk.position == len(raw)


@pytest.mark.parametrize("first_piece_size", [None, 8, 300])
@pytest.mark.parametrize("piece_size", [100, 1000, 4 << 20])
def test_a_real_log(piece_size: int, first_piece_size: int | None, golden: Callable[[str], Path]) -> None:
    count = 0
    for path in sorted((golden("rollover") / "store" / "commitlog").iterdir()):
        raw, base = path.read_bytes(), int(path.name)

        def read(at: int, size: int, raw: bytes = raw) -> bytes:
            return raw[at : at + size]

        walk = SegmentScan(
            *(read, base, len(raw), 0, len(raw)),
            check_crc=True,
            piece_size=piece_size,
            first_piece_size=first_piece_size,
        )
        for _, rows in walk:
            assert (rows["crc_ok"] == 1).all()
            count += len(rows)
        assert walk.end in (WalkEnd.BLANK, WalkEnd.EMPTY)
    assert count == 2941
