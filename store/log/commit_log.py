"""The writable commit log of one open store: appends, group commit, and what ends both.

    fast path    an ordinary put in one call, without a lock of ours; see native/fast_path_protocol.py
    slow path    everything else, under the append lock, in this module

fast_path_conditions.py lists the conditions that disable the fast path.

Invariants:
- `end` is always the end of a whole record or of a segment; it is the one commit point of an append. It moves only
  under the append lock, or in the fast path, which never runs while a thread holds that lock and has entered the slow
  path. A thread that reads `end` without the lock gets the end of a whole record, which may have moved since.
- The fast path owns `end`, the store time and the count of records. The dict owns the queue offsets once the fast path
  has written them back: `_enter_slow_path` disables the fast path, then makes it write them back; `_leave_slow_path`
  enables it again.
- An append that an exception interrupts (a KeyboardInterrupt may come between any two bytecodes) leaves its intent
  among the conditions, which keeps puts off the fast path; the next append finishes it if `end` had moved, and wipes
  its bytes if not. Queue offsets are therefore exact. The kernel's fast path cannot be interrupted.
- A store through the mapping never meets a hole: blocks are allocated before the bytes are placed. If a file system
  does not guarantee that, nothing is stored through a mapping (CallSegment), and the fast path stays disabled.
- Store times never run backwards.
- A flush checks whether the segments that it synced are still at their paths: a log that was removed on disk poisons
  the store before anything more is acknowledged.
- After a failed sync `poison` is set until the store is reopened: nothing is appended, acknowledged or synced any more.
  It is one of the conditions, so the assignment that sets it also disables the fast path.

Lock order: the append lock, then those of the preparation and of segments. No thread waits for a sync with it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from .. import native
from ..disk.clock import Clock, SystemClock
from ..disk.disk import Disk
from ..errors import DiskFullError, StoreClosedError, StorePoisonedError
from ..format.crc_property import EMPTY as EMPTY_CRC_PROPERTY
from ..format.crc_property import put_crc_property
from ..format.host import encode_host
from ..format.light_queues import LIGHT_QUEUE_ID, encode_light_offsets, light_offsets_max_size
from ..format.properties import FAST_PATH_NEVER_TAKES, encode_inner_base
from ..format.record import BLANK_SIZE, PreparedRecord, encode_blank, prepare
from ..format.sys_flag import has_queue_entry
from ..message import Message
from ..meters import Latest
from ..native.fast_path_protocol import FastPathProtocol
from ..queue_offsets import QueueKey, QueueOffsets
from ..results import PutResult, PutStatus
from ..segments.log_files import LogFiles
from ..segments.segment import AppendSegment, CallSegment, Segment
from ..settings import PAGE_SIZE, FlushMode, StoreSettings
from ..state.progress import APPENDED, FLUSHED, VISIBLE, ProgressPage
from .atomic_append import AtomicAppend, AtomicRange, Commit, note_append_start
from .column_records import ColumnRecords
from .fast_path_conditions import FastPathConditions
from .log_reader import FirstBroken, LogReader
from .poison import Poison, tell_room
from .preparation import Preparation


@dataclass(frozen=True, slots=True)
class LogStart:
    """Where an opened log continues, as recovery found it."""

    end: int
    """Physical offset of the next append."""
    flushed: int
    last_store_timestamp_ms: int
    queue_offsets: QueueOffsets


Appended = tuple[int, int, int, int]
"""Queue offset, physical offset, store time in ms, bytes of the record."""


class CommitLog:
    """The writable commit log of one open store. It owns its reader, and what prepares segments ahead of appends."""

    def __init__(
        self,
        disk: Disk,
        files: LogFiles,
        settings: StoreSettings,
        clock: Clock,
        progress: ProgressPage,
        start: LogStart,
        wake_preparing: Callable[[], object],
        *,
        maps_appends: bool,
        first_broken: FirstBroken | None = None,
    ) -> None:
        """`wake_preparing`: see `Preparation.wake`. `maps_appends`: whether all file systems promise that a store
        through a mapping of allocated blocks never fails. `first_broken`: see `LogReader`."""
        assert files.segment_size is not None
        make_segment = AppendSegment if maps_appends else CallSegment
        self.reader = LogReader(
            disk, files, make_segment, check_crc_property=settings.check_crc_property, first_broken=first_broken
        )
        self._disk, self._folder, self.segment_size = disk, files.folders.main, files.segment_size
        self.preparation = Preparation(disk, files, settings, clock, make_segment, wake_preparing)
        self._settings, self._clock, self._progress = settings, clock, progress
        self._sees_unflushed = settings.flush_mode is FlushMode.ASYNC
        self._append_lock = threading.Lock()
        self._queue_offsets = start.queue_offsets
        self.conditions = FastPathConditions()
        self.conditions.slow_path = True
        if settings.append_crc_property:
            self.conditions.setting = "append_crc_property"
        self.fast_path: FastPathProtocol[Message, PutResult] = native.FastPath(
            self.conditions.active,
            start.queue_offsets,
            Message,
            PutResult,
            PutStatus.PUT_OK,
            encode_host(*settings.store_host),
            FAST_PATH_NEVER_TAKES,
            settings.max_message_size,
            None if type(clock) is SystemClock else clock.now_ms,
            progress.mapping,
            APPENDED,
            VISIBLE if self._sees_unflushed else -1,
            self._append_lock,
            progress.publisher(*((APPENDED, VISIBLE) if self._sees_unflushed else (APPENDED,))),
            partial(prepare, settings=settings, segment_size=files.segment_size),
        )
        self.fast_path.end = start.end
        self.fast_path.last_store_timestamp_ms = start.last_store_timestamp_ms
        self.put_ms = Latest()
        """How long puts took: samples of the fast path, and of the slow one."""
        self.fast_path.note = self.put_ms.note
        self._group_commit = native.GroupCommit(start.flushed)
        self._poison = Poison(self._folder.parent, self.conditions, self.fast_path, self._group_commit)
        self.dispatched = start.end
        """Physical offset below which every record is in its queue; moved by whoever dispatches."""
        self.sync_count = 0  # since the log was opened
        self.sync_ms, self.group_messages = Latest(), Latest()  # how long syncs took; records that each made durable
        self._synced_records = 0
        self._lacks_room = self._is_released = False
        self._active = self._find_active()

    # -- where it is

    @property
    def end(self) -> int:
        """Physical offset of the next append; the commit point."""
        return self.fast_path.end

    @end.setter
    def end(self, end: int) -> None:
        self.fast_path.end = end

    @property
    def last_store_timestamp_ms(self) -> int:
        return self.fast_path.last_store_timestamp_ms

    @property
    def appended_records(self) -> int:
        """Since the log was opened."""
        return self.fast_path.appended_records

    @property
    def queue_offsets(self) -> QueueOffsets:
        """The next offset of every queue, as it is now."""
        self.fast_path.write_back_offsets()
        return self._queue_offsets

    @property
    def flushed(self) -> int:
        return self._group_commit.synced_to

    @property
    def visible(self) -> int:
        """Physical offset that readers may read up to: under sync flush only what is durable."""
        return self.end if self._sees_unflushed else self.flushed

    # -- appends on the slow path

    def append(self, records: Sequence[PreparedRecord], appended: list[Appended]) -> None:
        """Append records in order. When this returns they are whole and in the page cache; durable only after `flush`.

        What was appended is added to `appended` one by one, so that it is known if this raises: DiskFullError before
        the record that has no room, SyncFailedError if a new segment could not be made durable, StorePoisonedError
        after a failed sync, StoreClosedError after `stop_appends`.
        """
        with self._append_lock:
            self._check_appendable()
            self._enter_slow_path()
            self.settle()
            try:
                for record in records:
                    appended.append(self._append_one(record))
            except DiskFullError as e:
                self._tell_room(e)
                raise
            finally:
                self.fast_path.appended_records += len(appended)
                self._publish_end()
            self._leave_slow_path()

    def _append_one(self, record: PreparedRecord) -> Appended:
        next_offsets: dict[QueueKey, int] = {}
        if record.light_queues:
            record = self._with_light_offsets(record, next_offsets)
        segment = self._segment_with_room(record.size)
        start = self.end
        position = start - segment.base
        if position + record.size + BLANK_SIZE > segment.fast_path_limit:
            self.preparation.make_room(segment, position + record.size + BLANK_SIZE, start - self.dispatched)
            self._tell_room(None)
        fast_path = self.fast_path
        now_ms = max(self._clock.now_ms(), fast_path.last_store_timestamp_ms)
        queue_offset = 0
        if has_queue_entry(record.sys_flag):
            key = (record.topic, record.queue_id)
            queue_offset = self._queue_offsets.get(key, 0)
            next_offsets[key] = queue_offset + (record.inner_count or 1)
        stop = start + record.size
        self.conditions.intent = (start, stop, next_offsets)
        properties_raw = record.properties_raw
        if record.inner_count:
            base = encode_inner_base(queue_offset)
            properties_raw = base + properties_raw[len(base) :]
        has_crc = self._settings.append_crc_property
        if has_crc:
            properties_raw += EMPTY_CRC_PROPERTY
        aside = bytearray(record.size) if has_crc or not segment.maps_appends else None
        native.encode_record(
            segment.append_mapping() if aside is None else aside,
            position if aside is None else 0,
            record.magic,
            record.queue_id,
            record.flag,
            queue_offset,
            start,
            record.sys_flag,
            now_ms if record.born_timestamp_ms is None else record.born_timestamp_ms,
            record.born_host,
            now_ms,
            record.store_host,
            record.reconsume_times,
            record.prepared_transaction_offset,
            record.body,
            record.topic_raw,
            properties_raw,
        )
        if aside is not None:
            if has_crc:
                put_crc_property(aside)
            segment.store(position, aside)
        fast_path.last_store_timestamp_ms = now_ms
        fast_path.end = stop  # the commit point
        self._queue_offsets.update(next_offsets)
        self.conditions.intent = None
        return queue_offset, start, now_ms, record.size

    def _with_light_offsets(self, record: PreparedRecord, next_offsets: dict[QueueKey, int]) -> PreparedRecord:
        """The record with its place in the light queues that list it, which are to advance with it."""
        keys = [(name, LIGHT_QUEUE_ID) for name in record.light_queues]
        offsets = [self._queue_offsets.get(key, 0) for key in keys]
        next_offsets.update((key, offset + 1) for key, offset in zip(keys, offsets, strict=True))
        added = encode_light_offsets(offsets)
        size = record.size - light_offsets_max_size(len(keys)) + len(added)
        return replace(record, size=size, properties_raw=record.properties_raw + added)

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
        if position + records.size_of(first, stop_row) + BLANK_SIZE > segment.fast_path_limit:
            stop_row = self._allocate_rows(segment, records, stop_row)
            self._tell_room(None)
            self.preparation.call(segment, position + records.size_of(first, stop_row) + BLANK_SIZE)
        fast_path = self.fast_path
        now_ms = max(self._clock.now_ms(), fast_path.last_store_timestamp_ms)
        next_offsets = records.place(first, stop_row, start, now_ms, self._queue_offsets)
        stop = start + records.size_of(first, stop_row)
        self.conditions.intent = (start, stop, next_offsets)
        records.encode(segment, first, stop_row)
        fast_path.last_store_timestamp_ms = now_ms
        fast_path.end = stop  # the commit point
        records.done = stop_row
        self._queue_offsets.update(next_offsets)
        self.conditions.intent = None

    def _allocate_rows(self, segment: AppendSegment, records: ColumnRecords, stop_row: int) -> int:
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

    def append_atomically(self, parts: Iterable[ColumnRecords], before_commit: Commit) -> AtomicRange:
        """Append the rows of all parts, durably: all of them or none; see atomic_append.py.

        `before_commit` is called when everything but the commit point is durable. Whatever it, or `parts`, raises ends
        the append. Raises DiskFullError, SyncFailedError, StorePoisonedError, StoreClosedError. If anything was written
        by then, the log is poisoned, and the next open tells whether the rows are there.
        """
        with self._append_lock:
            self._check_appendable()
            self._enter_slow_path()
            self.settle()
            rows = AtomicAppend(self._clock, self._settings, self._start_segment, lambda: self.dispatched)
            try:
                for records in parts:
                    if not rows.has_begun and len(records):
                        segment = self._segment_with_room(records.size_of(0, 1))
                        note_append_start(self._disk, self._folder.parent, self.end)
                        rows.begin(segment, self.end, self._queue_offsets, self.last_store_timestamp_ms)
                    rows.append(records)
                if not rows.has_begun:
                    found = AtomicRange(self.end, self.end, 0, b"")
                else:
                    found = rows.range()
                    rows.sync()
                    before_commit(found)
                    rows.commit()
                    self._active, self.end = rows.last_segment, found.end
                    self.fast_path.last_store_timestamp_ms = rows.store_timestamp_ms
                    self.fast_path.appended_records += found.count
                    self._queue_offsets.update(rows.next_offsets)
            except BaseException as e:
                if rows.has_begun:
                    self.refuse_all(e)
                raise
            finally:
                self._publish_end()
            self._leave_slow_path()
            return found

    def stop_appends(self) -> None:
        """Refuse every append from now on; wait for the one under way."""
        with self._append_lock:
            self.conditions.closed = True
            self._enter_slow_path()
            self.settle()
            self._publish_end()

    def remove_oldest(self, segment: Segment) -> None:
        """Remove the oldest segment, which is flushed and not the last: from the list, then from the disk, durably.
        Raises DiskError, and the segment is listed again, or SyncFailedError.

        Readers that have it open can still read it.
        """
        with self._append_lock:
            assert self.reader.segments[0] is segment and len(self.reader.segments) > 1
            self.reader.segments = self.reader.segments[1:]
        try:
            self._disk.remove(segment.path)
        except FileNotFoundError:
            pass  # another program removed it
        except BaseException:
            with self._append_lock:
                self.reader.segments = [segment, *self.reader.segments]
            raise
        self._disk.sync_folder(segment.path.parent)  # one by one: a segment that came back would leave a gap

    def restart_topic(self, topic: str, commit: Callable[[int], None]) -> None:
        """Let the queues of a topic begin at 0 again. `commit` gets the physical offset from which on, before anything
        is appended there, and may raise: then nothing has changed. Raises StorePoisonedError, StoreClosedError."""
        with self._append_lock:
            self._check_appendable()
            self._enter_slow_path()
            self.settle()
            commit(self.end)
            for key in [key for key in self._queue_offsets if key[0] == topic]:
                del self._queue_offsets[key]

    def _enter_slow_path(self) -> None:
        """Keep puts off the fast path, so that the caller alone appends. Called under the append lock."""
        self.conditions.slow_path = True
        self.fast_path.write_back_offsets()

    def _leave_slow_path(self) -> None:
        """Enable the fast path again, at the end of the log. Not called if an error or an interrupt ended the append:
        the next append that succeeds calls it."""
        segment = self._active
        if self.conditions.intent is None and segment.fast_path_limit > 0 and segment.maps_appends:
            self.fast_path.open(segment.append_mapping(), segment.base, segment.fast_path_limit)
            self.conditions.slow_path = None

    def _publish_end(self) -> None:
        self._progress.publish(APPENDED, self.end)
        if self._sees_unflushed:
            self._progress.publish(VISIBLE, self.end)

    def settle(self) -> None:
        """Finish or undo the append that an exception interrupted. Called under the append lock, after
        `_enter_slow_path`."""
        intent = self.conditions.intent
        if intent is None:
            return
        start, stop, next_offsets = intent
        if self.end >= stop:
            self._queue_offsets.update(next_offsets)
        else:
            segment = self._active
            segment.wipe(start - segment.base, min(stop - segment.base, segment.allocated))
        self.conditions.intent = None

    # -- segments

    def _segment_with_room(self, size: int) -> AppendSegment:
        """The active segment, after a roll if the record and a filler behind it do not fit."""
        while True:
            segment = self._active
            if self.end < segment.base or self.end >= segment.end:
                self._active = self._start_segment(self.end, self._active)
                continue
            remaining = segment.end - self.end
            if size + BLANK_SIZE <= remaining:
                return segment
            position = self.end - segment.base
            if position + BLANK_SIZE > segment.allocated:
                segment.allocate_up_to(position + BLANK_SIZE, 0, self.end - self.dispatched)
            segment.store(position, encode_blank(remaining))
            self.end = segment.end

    def _start_segment(self, base: int, last: AppendSegment) -> AppendSegment:
        """Create the segment at `base`, after the `last` one, or take the one that a halted writer prepared there."""
        prepared = self.reader.segment_at(base)
        if prepared is not None:
            assert isinstance(prepared, AppendSegment)
            return prepared
        outer = sys.exception()
        try:
            segment = self.preparation.take(base, last)
        except BaseException as e:
            self._poison.judge(e, outer)
            raise
        self.reader.segments = [*self.reader.segments, segment]
        return segment

    def _find_active(self) -> AppendSegment:
        """The segment that holds `end`; a placeholder without a file if the next append must create one."""
        segment = self.reader.segment_at(self.end)
        if segment is None:
            return AppendSegment(self._disk, self._folder, self.end, 0)
        assert isinstance(segment, AppendSegment)
        segment.allocated = self.end - segment.base
        return segment

    def prepare(self) -> bool:
        """Prepare what the next appends need; one thread at a time. Whether it is due again."""
        active = self._active
        self.preparation.round(active, self.end, self.end - self.dispatched)
        return self.end - active.base > active.fast_path_limit

    def prepare_for_burst(self) -> bool:
        """Prepare some of what a burst of appends will need, while there are none; whether there is more to do."""
        return self.preparation.rest(self._active, self.end, self.end - self.dispatched)

    def _tell_room(self, lack: DiskFullError | None) -> None:
        if self._lacks_room != (lack is not None):
            self._lacks_room = lack is not None
            tell_room(self._folder.parent, lack, self.end)

    # -- syncs

    def is_dirty(self, least_pages: int = 0) -> bool:
        """Whether that many pages of 4 KiB wait for a sync, or a segment is full; 0: whether a byte does.

        Counted as RocketMQ counts (`isAbleToFlush`): by the page borders between what is flushed and the end.
        """
        flushed, end = self.flushed, self.end
        if least_pages == 0:
            return end > flushed
        is_full = end // self.segment_size > flushed // self.segment_size
        return is_full or end // PAGE_SIZE - flushed // PAGE_SIZE >= least_pages

    def flush(self, timeout_s: float | None = None, up_to: int | None = None) -> bool:
        """Sync everything appended so far, or up to `up_to`; one sync serves all who wait for it.

        Returns False if another thread's sync did not end within `timeout_s`. Raises SyncFailedError in the thread
        whose sync failed and StorePoisonedError in every later caller; StoreClosedError after `close`.
        """
        goal = self.end if up_to is None else up_to
        return self._group_commit.wait_for(goal, self._sync_all, timeout_s)

    def _sync_all(self) -> None:
        if self.conditions.active and self.poison is not None:
            raise StorePoisonedError(self._folder.parent, self.poison)
        if self._is_released:
            raise self._closed_error()
        target, records, began_s = self.end, self.appended_records, time.perf_counter()
        self._sync_segments(self.flushed, target)
        self.sync_ms.note((time.perf_counter() - began_s) * 1000)
        self.group_messages.note(records - self._synced_records)
        self._synced_records = records
        self.sync_count += 1
        self._progress.publish(FLUSHED, target)
        if not self._sees_unflushed:
            self._progress.publish(VISIBLE, target)
        self._group_commit.synced_to = (
            target  # last: what an interrupt left unpublished is synced and published once more
        )

    def _sync_segments(self, start: int, stop: int) -> None:
        outer, active = sys.exception(), self._active
        try:
            if active.base <= start:  # mostly; and `stop`, where the log ended a moment ago, is in there too
                active.release_pages(start - active.base, stop - active.base)
                active.sync(start - active.base, stop - active.base)
                active.check_in_place()
                return
            for segment, first, last in self.reader.segments_between(start, stop):
                assert isinstance(segment, AppendSegment)
                segment.release_pages(first, last)
                segment.sync(first, last)
                segment.check_in_place()
                if segment.end <= stop and segment is not self._active:
                    segment.finish_appends()
        except BaseException as e:
            self._poison.judge(e, outer)
            raise

    def close(self) -> None:
        """Close the files, once no thread appends or syncs any more. Flush before."""
        with self._append_lock:
            self.conditions.closed = True
            self.fast_path.close()
        self._group_commit.run_exclusive(self._release)

    def _release(self) -> None:
        self._is_released = True
        self.preparation.close()
        self.reader.close()

    # -- what ends appends

    @property
    def poison(self) -> BaseException | None:
        """The error that ended puts and syncs until the store is reopened; None if there is none."""
        return self._poison.cause

    @property
    def poison_wake_ups(self) -> list[Callable[[], object]]:
        """Called once an error ended puts and syncs, by the thread that found it: they must take no lock."""
        return self._poison.wake_ups

    def refuse_all(self, cause: BaseException) -> None:
        """Append, acknowledge and sync nothing any more. The first cause counts."""
        self._poison.refuse_all(cause)

    def _check_appendable(self) -> None:
        if self.poison is not None:
            raise StorePoisonedError(self._folder.parent, self.poison)
        if self.conditions.closed:
            raise self._closed_error()

    def _closed_error(self) -> StoreClosedError:
        return StoreClosedError(f"{self._folder.parent}: the store was closed; open it again")
