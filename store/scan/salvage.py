"""Finding intact records behind damage.

A record is looked for by its magic and accepted if its lengths add up, its body has its CRC, and it stands where it
says it does. A hostile body can contain bytes that pass all this, so nothing but damage handling may start from such a
place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import native
from ..errors import CorruptRecordError
from ..format.crc_property import check_crc_properties
from ..format.frame import FRAME_DTYPE, MAGIC_V1, MAGIC_V2
from ..segments.segment import Segment
from ..settings import MAX_RECORD_SIZE
from .scan import SegmentScan

PIECE_SIZE = 8 << 20
LOOKS = 64
"""How often each byte is looked at, on the average, before the search is given up: a record in the body of a record, as
in a backup of a log, makes it twice; only bytes that were made for it make it a thousand times."""
MAGIC_AT = 4
PLACE = struct.Struct(">i24xq")
"""Part of a record's head: its size, and its own physical offset."""
MAGICS = tuple((magic & 0xFFFFFFFF).to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))


def scans_past_damage(
    scan_from: Callable[[int], SegmentScan], segment: Segment, position: int, stop: int
) -> Iterator[SegmentScan]:
    """Scan [position, stop) of a segment; if a scan stops at damage, the next one begins at the next intact record.

    `scan_from` begins a scan at a position. Iterate over each scan before you take the next one. Raises as
    `next_intact`.
    """
    begin: int | None = position
    while begin is not None:
        scan = scan_from(begin)
        yield scan
        begin = None if scan.is_whole else next_intact(segment, scan.position + 1, stop)


def next_intact(segment: Segment, position: int, stop: int, *, check_crc_property: bool = False) -> int | None:
    """Position of the first intact record that starts in [position, stop), or None. Reads by read calls, skips
    holes.

    Raises CorruptRecordError where so many places claim to be large records that to look at each would take for ever.
    """
    row: Any = np.empty(1, FRAME_DTYPE)
    left = LOOKS * (stop - position) + PIECE_SIZE
    for candidate in _candidates(segment, position, stop):
        head = segment.read(candidate, PLACE.size)
        if len(head) < PLACE.size:
            return None
        size, physical_offset = PLACE.unpack(head)
        # This first: it says of nearly everything that is none that it is none, and is cheap.
        if physical_offset != segment.base + candidate or not 0 < size <= min(stop - candidate, MAX_RECORD_SIZE):
            continue
        left -= size
        if left < 0:
            found = f"records that contain one another, of more than {LOOKS} times the bytes that there are"
            raise CorruptRecordError(segment.path, segment.base + position, found, "an intact record behind damage")
        raw = segment.read(candidate, size)
        count, _, _ = native.walk(raw, 0, len(raw), segment.base + candidate, True, row)
        if count and check_crc_property:
            check_crc_properties(raw, row)
        if count and row[0]["crc_ok"]:
            return candidate
    return None


def _candidates(segment: Segment, position: int, stop: int) -> Iterator[int]:
    """Where a magic stands as a record's would, in ascending order."""
    at: int | None = position + MAGIC_AT
    while at is not None and at < stop:
        at = segment.file.next_data(at)
        if at is None or at >= stop:
            return
        piece = segment.read(at, min(PIECE_SIZE, stop - at))
        if not piece:
            return
        found = sorted(place for magic in MAGICS for place in _places(piece, magic))
        for place in found:
            yield at + place - MAGIC_AT
        # Keep three bytes: a magic may stand across two pieces.
        at += max(len(piece) - 3, 1) if at + len(piece) < stop else len(piece)


def _places(piece: bytes, magic: bytes) -> Iterator[int]:
    place = piece.find(magic)
    while place >= 0:
        yield place
        place = piece.find(magic, place + 1)


def last_data(segment: Segment, position: int) -> int:
    """One past the last byte that is not zero in [position, end of the segment); `position` if there is none."""
    last = position
    at: int | None = position
    while at is not None and at < segment.size:
        at = segment.file.next_data(at)
        if at is None:
            break
        piece = segment.read(at, min(PIECE_SIZE, segment.size - at))
        if not piece:
            break
        if np.frombuffer(piece, np.uint8).any():
            last = max(last, at + len(piece.rstrip(b"\0")))
        at += len(piece)
    return last
