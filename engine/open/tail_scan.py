"""Where the commit log ends, and what is damaged before that.

*Torn tail*: bytes above the durable mark with no intact record behind them. The log ends before them.
*Corrupt middle*: below the durable mark, or with intact records behind. Readers continue behind it; opening for writing
fails.

The durable mark is flightlog's own (the progress page). A log that RocketMQ wrote has no mark, so behind every problem
the scan searches for intact records. One case looks like a corrupt middle but is none: RocketMQ truncates in memory
only, so after its recovery the records that it dropped are still behind its end, intact. After a clean close they can
be recognized: they are newer than the newest dispatched record by the checkpoint, or older than the record before them,
or the checkpoint names the record before them as the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...store.errors import CorruptLogError
from ...store.format.frame import Rows, WalkEnd
from ...store.format.properties import SECTOR_SIZE
from ...store.log.log_reader import BAD_CRC, BAD_CRC_PROPERTY, WALK_END_TEXT, LogReader
from ...store.scan.salvage import next_intact
from ...store.segments.segment import Segment
from .shutdown_state import LastWriter, ShutdownState

LOST_SECTOR = "a record whose topic or properties lost a sector"
"""Bytes that a disk writes atomically."""
FIRST_PIECE_SIZE: Final = 64 << 10
"""First read of a walk that begins within a segment: usually the log ends there, and nothing follows."""
ROCKETMQ_BEGAN_MS = 1_325_376_000_000
"""2012-01-01: no checkpoint of RocketMQ names an earlier time."""
STALE = "records that RocketMQ's recovery had thrown away"
LOG_IS_SHORT = "the end of the last segment, before what was synced"


@dataclass(frozen=True)
class Damage:
    """A damaged place of the log."""

    path: Path
    physical_offset: int
    found: str
    resumes_at: int | None
    """Physical offset of the next intact record; None if none follows."""


@dataclass
class TailScan:
    """Result of a tail scan."""

    start: int
    end: int
    """Physical offset where the log ends."""
    records: int = 0
    last_store_timestamp_ms: int = 0
    last_record_offset: int = -1
    """Physical offset of the last intact record before the first problem or the end; -1 before any."""
    extents: list[tuple[int, int]] = field(default_factory=list)
    """Physical [start, stop) ranges without structural damage, in order."""
    damage: list[Damage] = field(default_factory=list)
    """Damage before `end`."""
    torn: Damage | None = None
    """The torn tail at `end`, if bytes were found there."""
    is_bounded: bool = False
    """Whether the scan had a given end, because a live writer may be appending behind it."""


Look = Callable[[Segment, bytes | memoryview, Rows], None]
"""Called with pieces of a segment and the intact records in each, in the order of the log."""


def scan_tail(
    reader: LogReader,
    shutdown_state: ShutdownState,
    start: int,
    limit: int | None,
    *,
    for_writing: bool,
    look: Look | None = None,
) -> TailScan:
    """Scan the log from `start`, a record's or a segment's first byte, checking every CRC. `limit` is the end that a
    live writer shows its readers; None without one. `look` gets everything up to the first problem. Raises
    CorruptLogError for a corrupt middle when `for_writing`. Changes nothing.
    """
    found = _TailScanner(reader, shutdown_state, start, limit, for_writing, look).run()
    if found.end < shutdown_state.durable_below and found.torn is None:
        path = reader.segments[-1].path if reader.segments else reader.folder
        if for_writing:
            raise CorruptLogError(path, found.end, LOG_IS_SHORT, 0, shutdown_state.durable_below)
        found.damage.append(Damage(path, found.end, LOG_IS_SHORT, None))
    return found


class _TailScanner:
    def __init__(
        self,
        reader: LogReader,
        shutdown_state: ShutdownState,
        start: int,
        limit: int | None,
        for_writing: bool,
        look: Look | None,
    ) -> None:
        self._reader, self._shutdown_state, self._for_writing, self._look = reader, shutdown_state, for_writing, look
        self._limit = reader.files_end if limit is None else min(limit, reader.files_end)
        self._found = TailScan(start, start, is_bounded=limit is not None)
        self._extent_start = start

    def run(self) -> TailScan:
        found = self._found
        position = found.start
        while position < self._limit:
            segment = self._reader.segment_at(position)
            if segment is None:  # a missing segment; only readers get here
                later = [s.base for s in self._reader.segments if s.base > position]
                if not later:
                    break
                self._close_extent(position)
                self._extent_start = position = later[0]
                continue
            stop = min(segment.size, self._limit - segment.base)
            problem, reason = self._walk(segment, position - segment.base, stop)
            if reason is None:
                position = segment.base + stop
                continue
            self._look = None
            resumes_at = self._judge(segment, problem, reason)
            if resumes_at is None:
                found.end = problem
                self._close_extent(problem)
                return found
            if reason not in (BAD_CRC, BAD_CRC_PROPERTY):
                self._close_extent(problem)
                self._extent_start = resumes_at
            position = resumes_at
        found.end = min(position, self._limit)
        self._close_extent(found.end)
        return found

    def _walk(self, segment: Segment, position: int, stop: int) -> tuple[int, str | None]:
        """(physical offset of the first problem, its description), or (_, None) if the segment is sound up to
        `stop`."""
        first_piece_size = FIRST_PIECE_SIZE if position else None
        scan = self._reader.scan(
            segment, position, stop, check_crc=True, mapped=False, first_piece_size=first_piece_size
        )
        for piece, rows in scan if self._look is None else scan.ahead():
            bad = np.flatnonzero(rows["crc_ok"] == 0)
            torn = self._first_torn(piece, rows)
            if torn is not None and not (len(bad) and bad[0] < torn):
                self._note(rows[:torn])
                return int(rows["physical_offset"][torn]), LOST_SECTOR
            good = rows[: bad[0]] if len(bad) else rows
            self._note(good)
            if len(bad):
                reason = BAD_CRC_PROPERTY if self._reader.check_crc_property else BAD_CRC
                return int(rows["physical_offset"][bad[0]]), reason
            if self._look is not None:
                self._look(segment, piece, rows)
        if scan.is_whole:
            return 0, None
        return segment.base + scan.position, WALK_END_TEXT[scan.end]

    def _note(self, good: Rows) -> None:
        if len(good):
            self._found.records += len(good)
            self._found.last_store_timestamp_ms = int(good["store_timestamp_ms"][-1])
            self._found.last_record_offset = int(good["physical_offset"][-1])

    def _first_torn(self, piece: bytes | memoryview, rows: Rows) -> int | None:
        """The first row whose topic or properties, which no CRC covers, lost a sector: allocated bytes that were never
        written are zero. Above the durable mark a power cut causes that; below, a wrong mark, or the disk. After a
        clean close, and beside a live writer, no sector can be lost."""
        shutdown_state = self._shutdown_state
        if shutdown_state.last_writer is not LastWriter.FLIGHTLOG_KILLED or shutdown_state.is_served:
            return None
        for i in np.flatnonzero(_may_have_lost_sector(piece, rows)).tolist():
            row = rows[i]
            piece_offset = int(row["physical_offset"] - row["position"])
            for name in ("topic", "properties"):
                start = int(row[f"{name}_position"])
                if _has_lost_sector(piece, start, start + int(row[f"{name}_size"]), piece_offset):
                    return int(i)
        return None

    def _judge(self, segment: Segment, problem: int, reason: str) -> int | None:
        """Physical offset at which the scan continues behind a problem; None if the log ends there."""
        shutdown_state, found = self._shutdown_state, self._found
        is_empty = reason == WALK_END_TEXT[WalkEnd.EMPTY]
        if shutdown_state.is_ours and problem >= shutdown_state.durable_below and not self._found.is_bounded:
            if not is_empty:
                found.torn = Damage(segment.path, problem, reason, None)
            return None
        resumes_at = self._next_intact(problem + (reason == LOST_SECTOR))  # else the search finds this record again
        if resumes_at is not None and self._is_stale(resumes_at):
            found.torn = Damage(segment.path, problem, STALE, None)
            return None
        damage = Damage(segment.path, problem, reason, resumes_at)
        if self._for_writing and (resumes_at is not None or problem < shutdown_state.durable_below):
            behind = 0 if resumes_at is None else self._count_intact(resumes_at)
            raise CorruptLogError(segment.path, problem, reason, behind, shutdown_state.durable_below)
        if resumes_at is not None:
            found.damage.append(damage)
        elif not is_empty:
            found.torn = damage
        return resumes_at

    def _next_intact(self, physical_offset: int) -> int | None:
        for segment, first, stop in self._reader.segments_between(physical_offset, self._limit):
            place = next_intact(segment, first, stop, check_crc_property=self._reader.check_crc_property)
            if place is not None:
                return segment.base + place
        return None

    def _is_stale(self, physical_offset: int) -> bool:
        """Whether RocketMQ's recovery dropped the record at this physical offset; see the module's docstring."""
        checkpoint = self._shutdown_state.checkpoint
        if self._shutdown_state.last_writer is not LastWriter.ROCKETMQ_CLOSED or checkpoint is None:
            return False
        newest, found = checkpoint.logics_timestamp_ms, self._found
        if newest < max(ROCKETMQ_BEGAN_MS, found.last_store_timestamp_ms):
            return False  # damaged: everything before this place was dispatched when the store was closed
        stored = self._reader.message_at(physical_offset).store_timestamp_ms
        if stored > newest or stored < found.last_store_timestamp_ms:
            return True
        # RocketMQ's own recovery noted the record before this place as the last one, and nothing was dispatched after
        # it.
        return (
            found.last_record_offset == checkpoint.confirm_physical_offset and found.last_store_timestamp_ms == newest
        )

    def _count_intact(self, physical_offset: int) -> int:
        """Number of intact records from this one on."""
        count = 0
        position: int | None = physical_offset
        while position is not None:
            for segment, first, stop in self._reader.segments_between(position, self._limit):
                scan = self._reader.scan(segment, first, stop, check_crc=True, mapped=False)
                for _, rows in scan:
                    count += int(np.count_nonzero(rows["crc_ok"]))
                position = segment.base + scan.position
                if not scan.is_whole:
                    break
            else:
                return count
            position = self._next_intact(position + 1)
        return count

    def _close_extent(self, stop: int) -> None:
        if stop > self._extent_start:
            self._found.extents.append((self._extent_start, stop))


def _may_have_lost_sector(piece: bytes | memoryview, rows: Rows) -> NDArray[np.bool_]:
    """Which rows may have lost a sector: the first byte of a sector's part of their topic or properties is zero, or
    these span more than two sectors."""
    found = np.zeros(len(rows), dtype=bool)
    data = np.frombuffer(piece, np.uint8)
    piece_offset = int(rows["physical_offset"][0] - rows["position"][0])
    for name in ("topic", "properties"):
        starts = rows[f"{name}_position"].astype(np.int64)
        stops = starts + rows[f"{name}_size"]
        borders = starts + SECTOR_SIZE - (piece_offset + starts) % SECTOR_SIZE
        there, reaches = stops > starts, borders < stops
        found[there] |= data[starts[there]] == 0
        found[reaches] |= data[borders[reaches]] == 0
        found |= borders + SECTOR_SIZE < stops
    return found


def _has_lost_sector(piece: bytes | memoryview, start: int, stop: int, piece_offset: int) -> bool:
    """Whether the part of [start, stop) in one sector is all zero; the piece begins at physical `piece_offset`."""
    while start < stop:
        border = min(stop, start + SECTOR_SIZE - (piece_offset + start) % SECTOR_SIZE)
        if not any(piece[start:border]):
            return True
        start = border
    return False
