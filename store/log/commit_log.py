"""Appending to the commit log.

Ordinary puts take the fast path, in one call of the kernel; here is the slow path, and everything that needs the append
lock. What both share, and how they keep apart, stands in log_state.py.

Invariants:
- `end` is always the end of a whole record or of a segment; it is the one commit point of an append.
- An append that an exception interrupts (a KeyboardInterrupt may come between any two bytecodes) leaves its intent
  behind, which keeps puts off the fast path; the next append finishes it if `end` had moved, and wipes its bytes if
  not. Queue offsets are therefore exact. In the kernel's fast path no interrupt can come.
- A store through the mapping never meets a hole: blocks are allocated before the bytes are placed. Where a file system
  gives no such promise, nothing is stored through a mapping (call_segment.py), and the fast path stays closed.
- Store times never run backwards.
- A flush looks whether the segments that it synced are still at their paths: a log that was removed on disk poisons the
  store before anything more is acknowledged.
- After a failed sync `poison` is set for good: nothing is appended, acknowledged or synced any more. It is among the
  blockers, so the fast path is closed by the same store that sets it.

Lock order: the append lock, then those of the preparation and of segments. Nobody waits for a sync with it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .. import native
from ..disk.clock import Clock
from ..disk.disk import Disk
from ..errors import DiskFullError, StorePoisonedError
from ..format.crc_property import EMPTY as EMPTY_CRC_PROPERTY
from ..format.crc_property import put_crc_property
from ..format.light_queues import LIGHT_QUEUE_ID, encode_light_offsets, light_offsets_max_size
from ..format.properties import encode_inner_base
from ..format.record import BLANK_SIZE, PreparedRecord, encode_blank
from ..format.sys_flag import has_queue_entry
from ..meters import Latest
from ..native.fast_path_protocol import APPEND
from ..queue_offsets import QueueKey, QueueOffsets
from ..segments.call_segment import CallSegment
from ..segments.log_files import LogFiles
from ..segments.segment import AppendSegment, Segment
from ..settings import PAGE_SIZE, StoreSettings
from ..state.progress import FLUSHED, VISIBLE, ProgressPage
from .atomic_append import AtomicAppends
from .log_events import tell_room
from .log_reader import LogReader
from .log_state import CLOSED
from .preparation import Preparation


@dataclass(frozen=True, slots=True)
class LogStart:
    """Where an opened log goes on, as recovery found it."""

    end: int
    """Physical offset of the next append."""
    flushed: int
    last_store_timestamp_ms: int
    queue_offsets: QueueOffsets


Appended = tuple[int, int, int, int]
"""Queue offset, physical offset, store time in ms, bytes of the record."""


class CommitLog(AtomicAppends):
    """The writable commit log of one open store."""

    def __init__(
        self,
        disk: Disk,
        files: LogFiles,
        settings: StoreSettings,
        clock: Clock,
        progress: ProgressPage,
        start: LogStart,
        *,
        maps_appends: bool = True,
    ) -> None:
        """`maps_appends`: whether the file systems of all folders promise that a store through a mapping of allocated
        blocks never fails."""
        assert files.segment_size is not None
        make_segment = AppendSegment if maps_appends else CallSegment
        self.reader = LogReader(disk, files, make_segment, check_crc_property=settings.check_crc_property)
        self._disk, self._folder, self._segment_size = disk, files.folders.main, files.segment_size
        self.preparation = Preparation(disk, files, settings, clock, make_segment)
        super().__init__(settings, clock, progress, start.end, start.last_store_timestamp_ms, start.queue_offsets)
        self._group_commit = native.GroupCommit(start.flushed)
        self.dispatched = start.end
        """Physical offset below which every record is in its queue; moved by whoever dispatches."""
        self.sync_count = 0  # since the log was opened
        self.sync_ms, self.group_messages = Latest(), Latest()  # how long syncs took; records that each made durable
        self._synced_records = 0
        self._lacks_room = self._is_released = False
        self._active = self._find_active()

    @property
    def flushed(self) -> int:
        return self._group_commit.synced_to

    @flushed.setter
    def flushed(self, flushed: int) -> None:
        self._group_commit.synced_to = flushed

    @property
    def visible(self) -> int:
        """Physical offset that readers may read up to: under sync flush only what is durable."""
        return self.end if self._sees_unflushed else self.flushed

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

    def remove_oldest(self, segment: Segment) -> None:
        """Remove the oldest segment, which is flushed and not the last: from the list, then from the disk, durably.
        Raises DiskError, and the segment is listed again, or SyncFailedError.

        Whoever reads it now goes on reading it.
        """
        with self._append_lock:
            assert self.reader.segments[0] is segment and len(self.reader.segments) > 1
            self.reader.segments = self.reader.segments[1:]
        try:
            self._disk.remove(segment.path)
        except FileNotFoundError:
            pass  # somebody was faster
        except BaseException:
            with self._append_lock:
                self.reader.segments = [segment, *self.reader.segments]
            raise
        self._disk.sync_folder(segment.path.parent)  # one by one: a segment that came back would leave a gap

    def restart_topic(self, topic: str, commit: Callable[[int], None]) -> None:
        """Let the queues of a topic begin at 0 again. `commit` is told from which physical offset on, before anything
        is appended there, and may raise: then nothing has changed. Raises StorePoisonedError, StoreClosedError."""
        with self._append_lock:
            self._check_appendable()
            self._enter_slow_path()
            self.settle()
            commit(self.end)
            for key in [key for key in self._queue_offsets if key[0] == topic]:
                del self._queue_offsets[key]

    def _tell_room(self, lack: DiskFullError | None) -> None:
        if self._lacks_room != (lack is not None):
            self._lacks_room = lack is not None
            tell_room(self._folder.parent, lack, self.end)

    def stop_appends(self) -> None:
        """Refuse every append from now on; the one that is under way is waited for."""
        with self._append_lock:
            self.blockers[CLOSED] = True
            self._enter_slow_path()
            self.settle()
            self._publish_end()

    @property
    def segment_size(self) -> int:
        return self._segment_size

    def _append_one(self, record: PreparedRecord) -> Appended:
        next_offsets: dict[QueueKey, int] = {}
        if record.light_queues:
            record = self._with_light_offsets(record, next_offsets)
        segment = self._segment_with_room(record.size)
        start = self.end
        position = start - segment.base
        if position + record.size + BLANK_SIZE > segment.calm_below:
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
        self.blockers[APPEND] = (start, stop, next_offsets)
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
        self.blockers[APPEND] = None
        return queue_offset, start, now_ms, record.size

    def _with_light_offsets(self, record: PreparedRecord, next_offsets: dict[QueueKey, int]) -> PreparedRecord:
        """The record with its place in the light queues that list it, which are to advance with it."""
        keys = [(name, LIGHT_QUEUE_ID) for name in record.light_queues]
        offsets = [self._queue_offsets.get(key, 0) for key in keys]
        next_offsets.update((key, offset + 1) for key, offset in zip(keys, offsets, strict=True))
        added = encode_light_offsets(offsets)
        size = record.size - light_offsets_max_size(len(keys)) + len(added)
        return replace(record, size=size, properties_raw=record.properties_raw + added)

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
        """Make the segment at `base`, behind the `last` one, or take the one that a halted writer prepared there."""
        prepared = self.reader.segment_at(base)
        if prepared is not None:
            assert isinstance(prepared, AppendSegment)
            return prepared
        outer = sys.exception()
        try:
            segment = self.preparation.take(base, last)
        except BaseException as e:
            self._judge(e, outer)
            raise
        self.reader.segments = [*self.reader.segments, segment]
        return segment

    def _find_active(self) -> AppendSegment:
        """The segment that holds `end`; a placeholder without a file where the next append must make one."""
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
        return self.end - active.base > active.calm_below

    def prepare_for_burst(self) -> bool:
        """Prepare some of what a burst of appends will need, while there are none; whether there is more to do."""
        return self.preparation.rest(self._active, self.end, self.end - self.dispatched)

    def is_dirty(self, least_pages: int = 0) -> bool:
        """Whether that many pages of 4 KiB wait for a sync, or a segment is full; 0: whether a byte does.

        Counted as RocketMQ counts (`isAbleToFlush`): by the page borders between what is flushed and the end.
        """
        flushed, end = self.flushed, self.end
        if least_pages == 0:
            return end > flushed
        is_full = end // self._segment_size > flushed // self._segment_size
        return is_full or end // PAGE_SIZE - flushed // PAGE_SIZE >= least_pages

    def flush(self, timeout_s: float | None = None, up_to: int | None = None) -> bool:
        """Sync everything appended so far, or up to `up_to`; one sync serves all who wait for it.

        Returns False if another thread's sync did not end within `timeout_s`. Raises SyncFailedError in the thread
        whose sync failed and StorePoisonedError in every later caller; StoreClosedError after `close`.
        """
        goal = self.end if up_to is None else up_to
        return self._group_commit.wait_for(goal, self._sync_all, timeout_s)

    def _sync_all(self) -> None:
        if self.blockers and self.poison is not None:
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
        self.flushed = target  # last: what an interrupt left unpublished is synced and published once more

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
            self._judge(e, outer)
            raise

    def close(self) -> None:
        """Let go of the files, once nobody appends or syncs any more. Flush before."""
        with self._append_lock:
            self.blockers[CLOSED] = True
            self.fast_path.close()
        self._group_commit.run_exclusive(self._release)

    def _release(self) -> None:
        self._is_released = True
        self.preparation.close()
        self.reader.close()
