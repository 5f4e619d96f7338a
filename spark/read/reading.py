"""Reads the ranges of a task. Ranges of the log are read here: a walk that resumes behind damage. Ranges of queues are
read by queue_reading.py and queue_entries.py. batches.py makes the RecordBatches.

A task opens only the segment files of its ranges, and uses read calls: if another process truncates a file, that raises
an error, where a mapping would kill the worker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...store.disk.disk import Disk
from ...store.errors import CorruptRecordError, DamagedStoreError, FileGoneError
from ...store.format.frame import FRAME_DTYPE, SIZE_AND_MAGIC, Rows, WalkEnd
from ...store.log.log_reader import WALK_END_TEXT
from ...store.scan.salvage import scans_past_damage
from ...store.scan.scan import ReadPiece, SegmentScan
from ...store.segments.segment import Segment
from ..options.read_options import ReadOptions
from ..plan.log_planning import LogRange, gone
from ..plan.queue_planning import QueueRange
from ..remote.remote_disk import AheadReads
from .batches import BatchMaker
from .queue_entries import EntryRangeReader
from .queue_reading import QueueRangeReader

log = logging.getLogger("flightlog.spark")

ROWS_A_BATCH = 32768
"""A piece of 128-byte records. Smaller ones come in more batches than pieces."""

ROW_BYTES = np.dtype((np.void, FRAME_DTYPE.itemsize))


def read_ranges(ranges: Sequence[LogRange | QueueRange], schema: Any, options: ReadOptions) -> Iterator[Any]:
    """The messages of these ranges within the options' bounds, as batches of this Arrow schema: ranges of the log one
    by one, ranges of queues together in the order of the log.

    Raises CorruptRecordError and CorruptQueueError at the first damage if that is to fail the query; FileGoneError for
    a file that was removed since the query began, unless `failOnDataLoss=false`; DiskError.
    """
    of_queues = [each for each in ranges if isinstance(each, QueueRange)]
    by_entries = [each for each in of_queues if each.from_entries]
    if by_entries:
        yield from EntryRangeReader(schema, options).read(by_entries)
    by_records = [each for each in of_queues if not each.from_entries]
    yield from QueueRangeReader(schema, options).read(by_records)
    reader = RangeReader(schema, options)
    for piece in (each for each in ranges if isinstance(each, LogRange)):
        try:
            yield from reader.read(piece)
        except FileGoneError as e:
            if options.fail_on_data_loss or not piece.location.disk().exists(piece.location.path):
                raise
            log.warning("failOnDataLoss=false: the query goes on without %s", e, extra={"path": piece.segment_path})


class RangeReader:
    """Reads ranges of the log.

    Invariants: every intact record that starts in a range is returned once, in order; at most two pieces are held at a
    time (a piece is 4 MiB, or one larger record), besides decompressed bodies.
    """

    def __init__(self, schema: Any, options: ReadOptions, disk: Disk | None = None) -> None:
        """As `BatchMaker`; `disk` replaces the disk of each location."""
        self._maker, self._disk = BatchMaker(schema, options), disk
        self._rows: Rows = np.empty(ROWS_A_BATCH, FRAME_DTYPE)

    def read(self, piece_range: LogRange) -> Iterator[Any]:
        """The messages of one range as RecordBatches of the schema, in the order of the log.

        Raises CorruptRecordError at the first damage if that is to fail the query, and DiskError if the segment is gone
        or unreadable.
        """
        path, start, stop = Path(piece_range.segment_path), piece_range.start, piece_range.stop
        self._maker.store = piece_range.location.name
        if piece_range.lost:
            lost = CorruptRecordError(path, piece_range.base + start, piece_range.lost, "records")
            yield from self._maker.damaged(lost)
            self._maker.corruption.log_skipped(path, f"bytes {start} to {stop}")
            return
        disk = self._disk or piece_range.location.disk()
        segment = Segment(disk, path, piece_range.base, piece_range.segment_size)
        ahead = None if disk.maps_files else AheadReads(segment.read, stop)
        read: ReadPiece = segment.read if ahead is None else ahead.read

        def scan_from(position: int) -> SegmentScan:
            return SegmentScan(read, segment.base, segment.size, position, stop, check_crc=self._maker.checks_bodies)

        try:
            for scan in scans_past_damage(scan_from, segment, start, stop):
                for piece, rows in self._joined(scan):
                    yield from self._maker.batches(path, piece, rows, piece_range.deleted)
                damage = _damage_at_end(segment, piece_range, scan)
                if damage is not None:
                    yield from self._maker.damaged(damage)
            self._maker.corruption.log_skipped(path, f"bytes {start} to {stop}")
        except FileNotFoundError as e:
            raise gone(path) from e
        finally:
            if ahead is not None:
                ahead.close()
            segment.close()

    def _joined(self, scan: SegmentScan) -> Iterator[tuple[bytes | memoryview, Rows]]:
        """The rows of a piece together, so that it makes one batch. The array is reused, as the scan's is."""
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


def _damage_at_end(segment: Segment, piece_range: LogRange, scan: SegmentScan) -> CorruptRecordError | None:
    """The damage that stopped a walk; None at a regular end."""
    position, stop = scan.position, piece_range.stop
    if position == stop:
        return None
    if scan.end is WalkEnd.BLANK:
        if piece_range.is_cut:
            # Stale records may follow the filler. No task may return them.
            raise DamagedStoreError(
                f"{segment.path}: records end at position {position}, but a seal or a queue knows one at {stop}, which "
                f"is stale: remove flightlog/seals/{segment.path.name} if it is there, else set splitBytes to "
                f"{segment.size} or more, and run the query again"
            )
        return None
    # Fewer bytes are left unused at a segment's end.
    if scan.end is WalkEnd.END and stop == segment.size and stop - position < SIZE_AND_MAGIC.size:
        return None
    return CorruptRecordError(segment.path, segment.base + position, WALK_END_TEXT[scan.end], "a record")
