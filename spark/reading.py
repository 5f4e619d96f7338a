"""Reading ranges of the log in a task: walk, check, choose, unwrap, and hand over Arrow batches.

A task opens the segment files of its ranges and nothing else of the store, and reads them by read calls: a file that
another process cuts short is then an error with a name, where a mapping would kill the worker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..engine.columns.message_columns import MessageColumns
from ..engine.columns.schema import find_column
from ..store.deleted_topics import DeletedTopics
from ..store.disk import Disk, RealDisk
from ..store.errors import CorruptRecordError, DamagedStoreError
from ..store.frame import FRAME_DTYPE, Rows, WalkEnd
from ..store.log_reader import WALK_END_TEXT
from ..store.salvage import next_intact
from ..store.scan import SegmentScan
from ..store.segment import Segment
from .inner_batch import unwrap
from .options import OnCorrupt
from .planning import LogRange, gone
from .visibility import is_message

log = logging.getLogger("flightlog.spark")

ROWS_A_BATCH = 32768
"""A piece of 128-byte records; smaller ones come in more batches than pieces."""

ROW_BYTES = np.dtype((np.void, FRAME_DTYPE.itemsize))

FRAME_START_SIZE = 8
"""The bytes of size and magic: fewer than these are left unused at a segment's end."""


class RangeReader:
    """Reads ranges and counts what it leaves out.

    Invariants: every intact record that starts in a range is seen once, in order; the bytes of at most two pieces are
    held at a time (a piece is 4 MiB, or one record that is larger).
    """

    def __init__(
        self,
        schema: Any,
        *,
        include_internal: bool = False,
        on_corrupt: OnCorrupt = "fail",
        disk: Disk | None = None,
    ) -> None:
        """`schema` is an Arrow schema with names of columns, as `schema.arrow_schema` makes it."""
        self._schema = schema
        self._columns = [find_column(name).name for name in schema.names]
        self._include_internal, self._on_corrupt = include_internal, on_corrupt
        self._disk = disk or RealDisk()
        self._rows: Rows = np.empty(ROWS_A_BATCH, FRAME_DTYPE)
        self.damaged_places = 0
        """Records and stretches of bytes left out by `on_corrupt="skip"`."""
        self._first_damage: CorruptRecordError | None = None

    def read(self, piece_range: LogRange) -> Iterator[Any]:
        """The messages of one range as RecordBatches of the schema.

        Raises CorruptRecordError at the first damage unless told to skip, and DiskError where the segment is gone or
        cannot be read.
        """
        path = Path(piece_range.segment_path)
        segment = Segment(self._disk, path, piece_range.base, piece_range.segment_size)
        try:
            before, self._first_damage = self.damaged_places, None
            position: int | None = piece_range.start
            while position is not None:
                scan = SegmentScan(segment.read, segment.base, segment.size, position, piece_range.stop, check_crc=True)
                for piece, rows in self._joined(scan):
                    yield from self._batches(
                        piece, _not_deleted(piece, self._intact(segment, rows), piece_range.deleted)
                    )
                position = self._resume(segment, piece_range, scan)
            if self._first_damage is not None:
                log.warning(
                    "%s: left out %d damaged places in bytes %d to %d, the first at physical offset %d: %s",
                    path,
                    self.damaged_places - before,
                    piece_range.start,
                    piece_range.stop,
                    self._first_damage.physical_offset,
                    self._first_damage.found,
                    extra={"path": str(path), "physical_offset": self._first_damage.physical_offset},
                )
        except FileNotFoundError as e:
            raise gone(path) from e
        finally:
            segment.close()

    def _joined(self, scan: SegmentScan) -> Iterator[tuple[bytes | memoryview, Rows]]:
        """The rows of a piece together, so that a piece makes one batch. They are reused, as the scan's are."""
        held: bytes | memoryview = b""
        count = 0
        for piece, rows in scan:
            if count and (piece is not held or count + len(rows) > len(self._rows)):
                yield held, self._rows[:count]
                count = 0
            held = piece
            # As plain bytes: numpy copies structured rows field by field.
            self._rows[count : count + len(rows)].view(ROW_BYTES)[:] = rows.view(ROW_BYTES)
            count += len(rows)
        if count:
            yield held, self._rows[:count]

    def _batches(self, piece: bytes | memoryview, rows: Rows) -> Iterator[Any]:
        if not self._include_internal:
            rows = _only(rows, is_message(piece, rows))
        if not len(rows):
            return
        for message_rows, batch_indexes in unwrap(piece, rows):
            messages = MessageColumns(piece, message_rows, batch_indexes)
            arrays = [messages.column(name) for name in self._columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _intact(self, segment: Segment, rows: Rows) -> Rows:
        """The rows whose bodies are what their CRC says; what happens to the others is the caller's wish."""
        intact = rows["crc_ok"] != 0
        for row in rows[~intact]:
            found, expected = "a body that differs from its CRC", f"CRC {row['body_crc']:08X}"
            self._meet_damage(CorruptRecordError(segment.path, int(row["physical_offset"]), found, expected))
        return _only(rows, intact)

    def _resume(self, segment: Segment, piece_range: LogRange, scan: SegmentScan) -> int | None:
        """Where to go on after the walk stopped; None at a sound end, and where nothing intact follows."""
        position, stop = scan.position, piece_range.stop
        if position == stop:
            return None
        if scan.end is WalkEnd.BLANK:
            if piece_range.is_cut:
                # What lies behind the filler may be intact records of an earlier life. No other task may show those.
                raise DamagedStoreError(
                    f"{segment.path}: records end at position {position}, but the segment's seal knows one at {stop}. "
                    f"The seal is stale: remove flightlog/seals/{segment.path.name} and run the query again"
                )
            return None
        if scan.end is WalkEnd.END and stop == segment.size and stop - position < FRAME_START_SIZE:
            return None
        found = WALK_END_TEXT[scan.end]
        self._meet_damage(CorruptRecordError(segment.path, segment.base + position, found, "a record"))
        return next_intact(segment, position, stop)

    def _meet_damage(self, damage: CorruptRecordError) -> None:
        if self._on_corrupt == "fail":
            raise damage
        self.damaged_places += 1
        self._first_damage = self._first_damage or damage


def _not_deleted(piece: bytes | memoryview, rows: Rows, deleted: DeletedTopics | None) -> Rows:
    """The rows that belong to no deleted topic."""
    if deleted is None or not len(rows) or int(rows["physical_offset"][0]) >= deleted.highest:
        return rows
    names = (
        bytes(piece[start : start + size]).decode("utf-8", "replace")
        for start, size in zip(rows["topic_position"].tolist(), rows["topic_size"].tolist(), strict=True)
    )
    below = np.fromiter(map(deleted.below, names), np.int64, len(rows))
    return _only(rows, rows["physical_offset"] >= below)


def _only(rows: Rows, wanted: Any) -> Rows:
    return rows if wanted.all() else rows[wanted]
