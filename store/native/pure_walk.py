"""Walking record frames in Python: one by one, and from some two dozen on by the gross."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ..format.frame import FRAME_DTYPE, WalkEnd
from .pure_arguments import integer, readable, writable
from .pure_bulk import walk_bulk
from .pure_frame import HEAD, examine

if TYPE_CHECKING:
    from typing_extensions import Buffer

BULK_FROM: Final = 24
"""Frames from which numpy's calls, some 60 to a piece, cost less than examining one by one."""
BULK_PIECE: Final = 16_384
"""Frames gathered at once: bounds the memory, and the work done in vain beyond a bad frame."""


def walk(
    buffer: Buffer, start: int, stop: int, physical_base: int, check_crc: bool, rows: Buffer, /
) -> tuple[int, int, int]:
    """(rows filled, position of the first frame not consumed, WalkEnd). See `native.walk`."""
    start = integer(start, "start", 64)
    stop = integer(stop, "stop", 64)
    physical_base = integer(physical_base, "physical_base", 64)
    check_crc = bool(check_crc)
    data = readable(buffer)
    row_bytes = writable(rows, "rows")
    if not 0 <= start <= stop <= len(data):
        raise ValueError(f"start and stop must satisfy 0 <= start <= stop <= {len(data)} (bytes in the buffer)")
    if len(row_bytes) % FRAME_DTYPE.itemsize:
        raise ValueError(
            f"rows has {len(row_bytes)} bytes, which is no multiple of FRAME_DTYPE.itemsize ({FRAME_DTYPE.itemsize})"
        )
    table = np.ndarray(len(row_bytes) // FRAME_DTYPE.itemsize, FRAME_DTYPE, row_bytes)
    filled, position = 0, start
    while True:
        count, position, end = _walk_one_by_one(
            data, position, stop, physical_base, check_crc, table[filled : filled + BULK_FROM]
        )
        filled += count
        if end is not WalkEnd.ROWS_FULL or filled == len(table):
            return filled, position, int(end)
        # As far as it goes; what stops it, the next step examines.
        count, position = walk_bulk(data, position, stop, physical_base, check_crc, table[filled : filled + BULK_PIECE])
        filled += count


def _walk_one_by_one(
    data: memoryview, position: int, stop: int, physical_base: int, check_crc: bool, rows: NDArray[Any]
) -> tuple[int, int, WalkEnd]:
    count = 0
    while stop - position >= HEAD.size:
        if count == len(rows):
            return count, position, WalkEnd.ROWS_FULL
        found = examine(data, position, stop, physical_base, check_crc)
        if isinstance(found, WalkEnd):
            return count, position, found
        rows[count] = found
        count += 1
        position += found[9]
    return count, position, WalkEnd.END
