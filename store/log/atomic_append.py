"""Appends of many rows that belong together: all of them are in the log afterwards, or none, whatever happens.

The first 8 bytes of the first record, its size and its magic, are held back. Without them no walk over the log gets
past that place, neither ours nor RocketMQ's: what lies behind is no part of the log. So the rows are written behind the
log's end, through as many segments as they need, and synced; then the 8 bytes are stored, which is the commit point,
and synced too. Only after that the end of the log, the queue offsets and what readers may see move, at once.

A writer that dies before the commit point leaves a log that ends where the rows begin, and bytes behind it that the
next open removes; `flightlog/held` tells it that they are worth no copy. One that dies after it leaves all of them.

Invariants:
- Nobody else appends meanwhile: the append lock is held from the first row to the commit.
- An error behind the first byte poisons the log: what was written is undone by the next open, not here.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..disk.disk import Disk
from ..format.record import BLANK_SIZE, encode_blank
from ..segments.segment import HEAD_SIZE, AppendSegment
from ..state.progress import FLIGHTLOG_FOLDER, read_progress
from .column_appends import ColumnAppends
from .column_records import ColumnRecords

HELD_FILE = "held"
HELD_SIZE = 64
"""Bytes of the note, padded with spaces: it is written in one piece over an earlier one."""
HELD = re.compile(rb"([0-9]+) in ([0-9]+) *")

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


class AtomicAppends(ColumnAppends):
    """The part of a CommitLog that takes rows that belong together."""

    _disk: Disk

    def append_atomically(self, parts: Iterable[ColumnRecords], before_commit: Commit) -> AtomicRange:
        """Append the rows of all parts, durably: all of them or none.

        `before_commit` is called when everything but the commit point is durable. Whatever it, or `parts`, raises ends
        the append. Raises DiskFullError, SyncFailedError, StorePoisonedError, StoreClosedError. If anything was written
        by then, the log is poisoned, and the next open tells whether the rows are there.
        """
        with self._append_lock:
            self._check_appendable()
            self._enter_slow_path()
            self.settle()
            rows = _AtomicRows(self)
            try:
                for records in parts:
                    rows.append(records)
                found = rows.range()
                if rows.has_begun:
                    rows.sync()
                    before_commit(found)
                    rows.commit()
            except BaseException as e:
                if rows.has_begun:
                    self.refuse_all(e)
                raise
            finally:
                self._publish_end()
            self._leave_slow_path()
            return found

    def note_held(self, start: int) -> None:
        """Tell the next open that what lies behind `start` was never part of the log, if it ends there."""
        root = self._folder.parent
        progress = read_progress(self._disk, root)
        assert progress is not None, "whoever appends has made the page"
        content = f"{start} in {progress.epoch}".encode().ljust(HELD_SIZE)
        file = self._disk.open(root / FLIGHTLOG_FOLDER / HELD_FILE, writable=True, create=True)
        try:
            file.write(0, content)
            file.sync()
        finally:
            file.close()
        self._disk.sync_folder(root / FLIGHTLOG_FOLDER)

    @abstractmethod
    def _start_segment(self, base: int, last: AppendSegment) -> AppendSegment: ...


def read_held(disk: Disk, root: Path) -> int | None:
    """Where the last writer's rows began that it may not have committed; None if it noted none."""
    try:
        file = disk.open(root / FLIGHTLOG_FOLDER / HELD_FILE)
    except FileNotFoundError:
        return None
    try:
        found = HELD.fullmatch(file.read(0, HELD_SIZE + 1))
    finally:
        file.close()
    progress = read_progress(disk, root)
    if found is None or progress is None or int(found[2]) != progress.epoch:
        return None  # another session's: its rows were settled by the open that came after it
    return int(found[1])


class _AtomicRows:
    """The rows of one append, and where they have come to. It moves nothing of the log before `commit`, except that a
    segment which has no room for the first record is closed by its filler."""

    def __init__(self, log: AtomicAppends) -> None:
        self._log = log
        self._start = self._end = log.end
        self._count = 0
        self._first = self._last = log._active
        """The segments of the first row and of the next one."""
        self._first_record = b""
        self._known = dict(log._queue_offsets)
        self._changed = dict[tuple[str, int], int]()
        self._store_timestamp_ms = log.last_store_timestamp_ms
        self._synced = self._start
        """Physical offset below which all but the held bytes is durable."""
        self.has_begun = False
        """Whether anything may have been written behind the log's end."""

    def range(self) -> AtomicRange:
        return AtomicRange(self._start, self._end, self._count, self._first_record)

    def append(self, records: ColumnRecords) -> None:
        if not self.has_begun and len(records):
            self._first = self._last = self._log._segment_with_room(records.size_of(0, 1))
            self._start = self._end = self._synced = self._log.end
            self._log.note_held(self._start)
            self.has_begun = True
        while records.done < len(records):
            self._append_some(records)

    def _append_some(self, records: ColumnRecords) -> None:
        log, first = self._log, records.done
        segment = self._segment_with_room(records.size_of(first, first + 1))
        position = self._end - segment.base
        room = segment.size - position - BLANK_SIZE
        is_head = not self._first_record
        stop_row = first + 1 if is_head else max(records.fitting(first, min(room, ROWS_SIZE)), first + 1)
        size = records.size_of(first, stop_row)
        self._allocate(segment, position + size + BLANK_SIZE, log._settings.allocate_step_size)
        now_ms = self._store_timestamp_ms = max(log._clock.now_ms(), self._store_timestamp_ms)
        next_offsets = records.place(first, stop_row, self._end, now_ms, self._known)
        if is_head:
            aside = bytearray(size)
            records.encode_into(aside, 0, first, stop_row)
            segment.store(position + HEAD_SIZE, aside[HEAD_SIZE:])
            self._first_record = bytes(aside)
        else:
            records.encode(segment, first, stop_row)
        self._known.update(next_offsets)
        self._changed.update(next_offsets)
        self._end += size
        self._count += stop_row - first
        records.done = stop_row

    def _segment_with_room(self, size: int) -> AppendSegment:
        segment = self._last
        remaining = segment.end - self._end
        if size + BLANK_SIZE <= remaining:
            return segment
        position = self._end - segment.base
        self._allocate(segment, position + BLANK_SIZE, 0)
        segment.store(position, encode_blank(remaining))
        self._end = segment.end
        self._leave(segment)  # synced as it goes: the disk works meanwhile, and one segment at most is dirty
        self._last = self._log._start_segment(self._end, segment)
        return self._last

    def _allocate(self, segment: AppendSegment, needed: int, step: int) -> None:
        if needed > segment.allocated:
            segment.allocate_up_to(needed, step, self._end - self._log.dispatched)

    def sync(self) -> None:
        """Make durable what was written. Raises SyncFailedError."""
        segment = self._last
        segment.release_pages(self._synced - segment.base, self._end - segment.base)
        segment.sync()
        self._synced = self._end

    def _leave(self, segment: AppendSegment) -> None:
        """Nothing more comes into this segment, but perhaps the held bytes."""
        self.sync()
        if segment is not self._first:
            segment.finish_appends()

    def commit(self) -> None:
        """Everything is in the log when this returns, and durable. Raises SyncFailedError: then nobody knows yet."""
        log, position = self._log, self._start - self._first.base
        self._first.store(position, self._first_record[:HEAD_SIZE])
        self._first.sync()
        if self._first is not self._last:
            self._first.finish_appends()
        log._active = self._last
        log.end = self._end
        log.fast_path.last_store_timestamp_ms = self._store_timestamp_ms
        log.fast_path.appended_records += self._count
        log._queue_offsets.update(self._changed)
