"""The commit log's append of columns: the invariants and the lock are those of `commit_log.py`."""

from __future__ import annotations

from abc import abstractmethod

from ..errors import DiskFullError
from ..format.record import BLANK_SIZE
from ..native.fast_path_protocol import APPEND
from ..segments.segment import AppendSegment
from .column_records import ColumnRecords
from .log_state import LogState
from .preparation import Preparation


class ColumnAppends(LogState):
    """The part of a CommitLog that takes many records at once."""

    dispatched: int
    preparation: Preparation

    def append_columns(self, records: ColumnRecords, size: int) -> None:
        """Append the next rows, about `size` bytes of them or one. As `append`; `records.done` moves behind what was
        appended, also if this raises."""
        with self._append_lock:
            self._check_appendable()
            self._enter_slow_path()
            self.settle()
            before = records.done
            stop_row = max(records.fitting(before, size), before + 1)
            try:
                while records.done < stop_row:
                    self._append_rows(records, stop_row)
            except DiskFullError as e:
                self._tell_room(e)
                raise
            finally:
                self.fast_path.appended_records += records.done - before
                self._publish_end()
            self._leave_slow_path()

    def _append_rows(self, records: ColumnRecords, stop_row: int) -> None:
        """Append the rows up to `stop_row`, or as many as the active segment has room for."""
        first = records.done
        segment = self._segment_with_room(records.size_of(first, first + 1))
        start = self.end
        position = start - segment.base
        stop_row = min(stop_row, records.fitting(first, segment.size - position - BLANK_SIZE))
        if position + records.size_of(first, stop_row) + BLANK_SIZE > segment.calm_below:
            stop_row = self._allocate(segment, records, stop_row)
            self._tell_room(None)
            self.preparation.call(segment, position + records.size_of(first, stop_row) + BLANK_SIZE)
        fast_path = self.fast_path
        now_ms = max(self._clock.now_ms(), fast_path.last_store_timestamp_ms)
        next_offsets = records.place(first, stop_row, start, now_ms, self._queue_offsets)
        stop = start + records.size_of(first, stop_row)
        self.blockers[APPEND] = (start, stop, next_offsets)
        records.encode(segment, first, stop_row)
        fast_path.last_store_timestamp_ms = now_ms
        fast_path.end = stop  # the commit point
        records.done = stop_row
        self._queue_offsets.update(next_offsets)
        self.blockers[APPEND] = None

    def _allocate(self, segment: AppendSegment, records: ColumnRecords, stop_row: int) -> int:
        """Have blocks for the rows up to `stop_row`, or for as many as there is room for; returns up to which."""
        first, position, undispatched = records.done, self.end - segment.base, self.end - self.dispatched
        try:
            needed = position + records.size_of(first, stop_row) + BLANK_SIZE
            segment.allocate_up_to(needed, self._settings.allocate_step_size, undispatched)
        except DiskFullError:
            if records.fitting(first, segment.allocated - position - BLANK_SIZE) == first:
                needed = position + records.size_of(first, first + 1) + BLANK_SIZE
                segment.allocate_up_to(needed, 0, undispatched)
        return min(stop_row, records.fitting(first, segment.allocated - position - BLANK_SIZE))

    @abstractmethod
    def _segment_with_room(self, size: int) -> AppendSegment: ...

    @abstractmethod
    def _tell_room(self, lack: DiskFullError | None) -> None: ...
