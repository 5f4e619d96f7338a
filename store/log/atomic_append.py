"""Atomic append of many rows: all of them are in the log afterwards, or none, even after a crash.

The first 8 bytes of the first record, its size and its magic, are written last. Without them no scan of the log, ours
or RocketMQ's, gets past that place: the bytes behind it are not part of the log. So the rows are written behind the end
of the log, through as many segments as they need, and synced; then the 8 bytes are stored, which is the commit point,
and synced, too. Only then the end of the log, the queue offsets and the visible end move, at once.

A writer that dies before the commit point leaves a log that ends where the rows begin, and bytes behind it that the
next open removes; `flightlog/held` tells it to keep no copy of them. One that dies after it leaves all rows.

Invariants:
- No other thread appends meanwhile: the append lock is held from the first row to the commit.
- An error after the first byte poisons the log: the next open undoes what was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..disk.clock import Clock
from ..disk.disk import Disk
from ..format.record import BLANK_SIZE, encode_blank
from ..queue_offsets import QueueKey
from ..segments.segment import HEAD_SIZE, AppendSegment
from ..settings import StoreSettings
from ..state.progress import FLIGHTLOG_FOLDER, read_progress
from .column_records import ColumnRecords

NOTE_FILE = "held"
"""Its name on the disk, as docs/format.md has it."""
NOTE_SIZE = 64
"""Bytes of the note, padded with spaces: it is written in one piece over an earlier one."""
NOTE = re.compile(rb"([0-9]+) in ([0-9]+) *")

ROWS_SIZE = 1 << 20
"""About how many bytes of records are encoded at once."""


@dataclass(frozen=True, slots=True)
class AtomicRange:
    """Where the rows of one such append are, or are to be."""

    start: int
    """Physical offset of the first record."""
    end: int
    count: int
    first_record: bytes
    """All of it: no other record is like it, for it holds its own place and time."""


Commit = Callable[[AtomicRange], None]


def note_append_start(disk: Disk, root: Path, start: int) -> None:
    """Tell the next open that what lies behind `start` was never part of the log, if it ends there."""
    progress = read_progress(disk, root)
    assert progress is not None, "an append creates the page first"
    content = f"{start} in {progress.epoch}".encode().ljust(NOTE_SIZE)
    file = disk.open(root / FLIGHTLOG_FOLDER / NOTE_FILE, writable=True, create=True)
    try:
        file.write(0, content)
        file.sync()
    finally:
        file.close()
    disk.sync_folder(root / FLIGHTLOG_FOLDER)


def read_append_start(disk: Disk, root: Path) -> int | None:
    """Where the last writer's rows begin that it may not have committed; None if it noted none."""
    try:
        file = disk.open(root / FLIGHTLOG_FOLDER / NOTE_FILE)
    except FileNotFoundError:
        return None
    try:
        found = NOTE.fullmatch(file.read(0, NOTE_SIZE + 1))
    finally:
        file.close()
    progress = read_progress(disk, root)
    if found is None or progress is None or int(found[2]) != progress.epoch:
        return None  # another session's: its rows were settled by the open that came after it
    return int(found[1])


class AtomicAppend:
    """The rows of one such append, and where they have come to. It moves nothing of the log: `CommitLog` does, once
    `commit` has returned."""

    first_segment: AppendSegment
    last_segment: AppendSegment
    """The segments of the first row and of the next one."""

    def __init__(
        self,
        clock: Clock,
        settings: StoreSettings,
        start_segment: Callable[[int, AppendSegment], AppendSegment],
        dispatched: Callable[[], int],
    ) -> None:
        """`start_segment` makes the one at a physical offset, behind the last one; `dispatched` tells up to which
        physical offset every record is in its queue."""
        self._clock, self._step_size = clock, settings.allocate_step_size
        self._start_segment, self._dispatched = start_segment, dispatched
        self.has_begun = False
        """Whether anything may have been written behind the log's end."""
        self._count = 0
        self._first_record = b""

    def begin(self, segment: AppendSegment, start: int, known: Mapping[QueueKey, int], store_timestamp_ms: int) -> None:
        """The first row goes to physical offset `start`, in this segment; `known` are the next offsets of queues."""
        self.first_segment = self.last_segment = segment
        self._start = self._end = start
        self._synced = start
        """Physical offset below which everything but the first record's head is durable."""
        self._known = dict(known)
        self.next_offsets = dict[QueueKey, int]()
        """The next offset of each queue that the rows advance."""
        self.store_timestamp_ms = store_timestamp_ms
        self.has_begun = True

    def range(self) -> AtomicRange:
        return AtomicRange(self._start, self._end, self._count, self._first_record)

    def append(self, records: ColumnRecords) -> None:
        """Write these rows behind the ones before. Raises DiskFullError, SyncFailedError."""
        while records.done < len(records):
            self._append_some(records)

    def _append_some(self, records: ColumnRecords) -> None:
        first = records.done
        segment = self._segment_with_room(records.size_of(first, first + 1))
        position = self._end - segment.base
        room = segment.size - position - BLANK_SIZE
        is_head = not self._first_record
        stop_row = first + 1 if is_head else max(records.fitting(first, min(room, ROWS_SIZE)), first + 1)
        size = records.size_of(first, stop_row)
        self._allocate(segment, position + size + BLANK_SIZE, self._step_size)
        now_ms = self.store_timestamp_ms = max(self._clock.now_ms(), self.store_timestamp_ms)
        next_offsets = records.place(first, stop_row, self._end, now_ms, self._known)
        if is_head:
            aside = bytearray(size)
            records.encode_into(aside, 0, first, stop_row)
            segment.store(position + HEAD_SIZE, aside[HEAD_SIZE:])
            self._first_record = bytes(aside)
        else:
            records.encode(segment, first, stop_row)
        self._known.update(next_offsets)
        self.next_offsets.update(next_offsets)
        self._end += size
        self._count += stop_row - first
        records.done = stop_row

    def _segment_with_room(self, size: int) -> AppendSegment:
        segment = self.last_segment
        remaining = segment.end - self._end
        if size + BLANK_SIZE <= remaining:
            return segment
        position = self._end - segment.base
        self._allocate(segment, position + BLANK_SIZE, 0)
        segment.store(position, encode_blank(remaining))
        self._end = segment.end
        self._leave(segment)  # synced as it goes: the disk works meanwhile, and one segment at most is dirty
        self.last_segment = self._start_segment(self._end, segment)
        return self.last_segment

    def _allocate(self, segment: AppendSegment, needed: int, step: int) -> None:
        if needed > segment.allocated:
            segment.allocate_up_to(needed, step, self._end - self._dispatched())

    def sync(self) -> None:
        """Make durable what was written. Raises SyncFailedError."""
        segment = self.last_segment
        segment.release_pages(self._synced - segment.base, self._end - segment.base)
        segment.sync()
        self._synced = self._end

    def _leave(self, segment: AppendSegment) -> None:
        """Finish this segment: nothing more is written to it, except perhaps the first record's head."""
        self.sync()
        if segment is not self.first_segment:
            segment.finish_appends()

    def commit(self) -> None:
        """The rows are on the disk, durable, when this returns. Raises SyncFailedError: then it is not known."""
        position = self._start - self.first_segment.base
        self.first_segment.store(position, self._first_record[:HEAD_SIZE])
        self.first_segment.sync()
        if self.first_segment is not self.last_segment:
            self.first_segment.finish_appends()
