"""Walking the frames of a segment piece by piece, with bounded memory.

The pieces come from a callable, so one walk serves mapped segments, read calls and remote ranges alike.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .. import native
from ..disk.thread_start import thread_start_errors
from ..format.crc_property import check_crc_properties
from ..format.frame import FRAME_DTYPE, Rows, WalkEnd
from ..format.record import FIXED_V1_V4_SIZE
from ..settings import MAX_RECORD_SIZE

ReadPiece = Callable[[int, int], bytes | memoryview]
"""(position, size) -> the bytes there; fewer where the file ends."""

PIECE_SIZE = 2 << 20
ROWS_A_PIECE = 32768
"""Between pieces the interpreter's lock is asked for: dispatch of small records beside busy appends waits for it."""
FRAME_SIZE = struct.Struct(">i")
WALK_ENDS = tuple(WalkEnd)
"""By their numbers: to ask the class takes longer."""
assert all(WALK_ENDS[end] is end for end in WalkEnd)


class SegmentScan:
    """Iterate over (piece, rows); afterwards `position` and `end` say where and why the walk stopped.

    The rows are reused: take what you need before the next step. `ahead` gives the same. A body that differs from its
    CRC does not stop the walk; its row has `crc_ok` 0, and so has that of a record without a right CRC property where
    that is asked for. A filler that does not reach exactly to the end of the segment is none: BAD_LENGTHS.
    """

    def __init__(
        self,
        read: ReadPiece,
        base: int,
        segment_size: int,
        position: int,
        stop: int,
        *,
        check_crc: bool,
        check_crc_property: bool = False,
        piece_size: int = PIECE_SIZE,
        first_piece_size: int | None = None,
    ) -> None:
        self._read, self._base, self._stop, self._check_crc = read, base, stop, check_crc
        self._check_crc_property = check_crc and check_crc_property
        self._segment_size = segment_size
        self._piece_size = piece_size
        self._first_piece_size = piece_size if first_piece_size is None else first_piece_size
        most = max(stop - position, 0) // FIXED_V1_V4_SIZE + 1
        self._rows, self._other_rows = (np.empty(min(ROWS_A_PIECE, most), FRAME_DTYPE) for _ in range(2))
        self.position = position
        """Position in the segment of the first frame not yet yielded."""
        self.end = WalkEnd.END

    @property
    def is_whole(self) -> bool:
        """Whether the scan came to the filler of the segment or to `stop`, and not to damage. Valid after iteration."""
        return self.end in (WalkEnd.BLANK, WalkEnd.END)

    def __iter__(self) -> Iterator[tuple[bytes | memoryview, Rows]]:
        wanted = self._first_piece_size
        while self._stop - self.position >= 8:
            piece = self._read(self.position, min(wanted, self._stop - self.position))
            at = 0
            while True:
                base = self._base + self.position - at
                count, next_at, end = native.walk(piece, at, len(piece), base, self._check_crc, self._rows)
                self.end = WALK_ENDS[end]
                self.position += next_at - at
                at = next_at
                if count:
                    rows = self._rows[:count]
                    if self._check_crc_property:
                        check_crc_properties(piece, rows)
                    self._rows, self._other_rows = self._other_rows, self._rows
                    yield piece, rows
                if self.end is not WalkEnd.ROWS_FULL:
                    break
            if self.end is WalkEnd.BLANK and FRAME_SIZE.unpack_from(piece, at)[0] != self._segment_size - self.position:
                self.end = WalkEnd.BAD_LENGTHS
            if self.end not in (WalkEnd.END, WalkEnd.TRUNCATED):
                return
            if self.position + len(piece) - at >= self._stop:
                return  # the piece reached the end of what may be read
            if at == 0:
                if len(piece) < min(wanted, self._stop - self.position):
                    self.end = WalkEnd.TRUNCATED  # the file is shorter than it should be
                    return
                # One record larger than a piece: fetch all of it. Its claimed size is bounded by the segment, too.
                wanted = max(self._piece_size, FRAME_SIZE.unpack_from(piece)[0])
                if min(wanted, self._stop - self.position) > MAX_RECORD_SIZE:
                    self.end = WalkEnd.BAD_LENGTHS
                    return
            else:
                wanted = self._piece_size

    def ahead(self) -> Iterator[tuple[bytes | memoryview, Rows]]:
        """The same, of much each step taken in another thread while the one before it is looked at. `position` and
        `end` say something once all has been looked at.

        A program that is ending starts no threads.
        """
        if self._stop - self.position <= 2 * self._piece_size or not threading.main_thread().is_alive():
            yield from self
            return
        steps = iter(self)
        with ThreadPoolExecutor(1, "flightlog-ahead") as pool:
            with thread_start_errors("flightlog-ahead"):
                step = pool.submit(next, steps, None)
            while (found := step.result()) is not None:
                step = pool.submit(next, steps, None)
                yield found
