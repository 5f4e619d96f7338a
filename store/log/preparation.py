"""Preparation ahead of appends: blocks, pages in memory, and the next segment.

An append that reaches the end of what is prepared does the work itself: it allocates blocks, faults in pages, creates
the next segment. Preparation only saves it the wait: an error here is ignored, and the append that needs the blocks,
pages or segment meets its own.

    populated     pages present, for as much as the log grows in HORIZON_S: at least LEAST_AHEAD_SIZE, at most
                  `prepare_ahead_size`. They are dirty, and the next sync writes them: that turns their blocks from
                  allocated into written ones, which the syncs of single records then need not tell the journal.
                  They come one by one, so that a sync of one record writes one page, or in large pieces, which is
                  five times as fast, while the log grows fast and is synced by a timer.
                  After a burst, and once the log is at rest, as much as it grew by in the burst (`rest`): the next one
                  then finds all that it needs, where it would have to wait for pages to be cleared. At most
                  BURST_AHEAD_SIZE, a quarter of a segment, a part of the machine's memory and of what is free on the
                  disk
    allocated     blocks, `allocate_step_size` ahead. Room is left on the disk as an append leaves it
    next segment  once this one is half full or ends in NEXT_WITHIN_SIZE: a file without a name, which no other process
                  sees. It gets its name at the roll. A close or a crash leaves nothing of it. (A RocketMQ that tries to
                  open the store deletes a file with a name, before it fails on the lock, even beside an append.)

The length of the next segment is synced here, while it is empty: if that fails, the file is dropped, with all that the
failure may have affected. Its name is synced before any record in it is acknowledged as durable, and before another
segment follows: not here, because that failure must poison the log.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from ..disk.clock import Clock
from ..disk.disk import Disk
from ..errors import DiskError, StoreClosedError
from ..segments.log_files import LogFiles
from ..segments.segment import AppendSegment
from ..settings import FlushMode, StoreSettings

log = logging.getLogger("flightlog.store")

DEFAULT_AHEAD_SIZE = 64 << 20
LEAST_SEGMENT_SIZE = 8 << 20
"""The first append to a smaller one allocates most of it: no thread prepares these unless a setting asks for it."""
LEAST_AHEAD_SIZE = 256 << 10
HORIZON_S = 0.1
NEXT_WITHIN_SIZE = 128 << 20
BULK_SIZE = 1 << 20
"""A log that grows by more in HORIZON_S, and is synced by a timer, gets its pages in large pieces."""

BURST_AHEAD_SIZE = 256 << 20
LEAST_BURST_SIZE = 16 << 20
"""A log that has grown by less since it was last at rest gets no more than usual."""
PART_OF_MEMORY = PART_OF_FREE_DISK = 1 / 64
SLICE_SIZE = 8 << 20
"""How much is prepared for a burst before the next check whether it has begun."""
CALM_SIZE = 16 << 20
"""Appends call at least once in so many bytes, however much is ready: that drives dispatch, too."""


class Preparation:
    """The preparation of one open log. One thread appends at a time, another one prepares."""

    def __init__(
        self,
        disk: Disk,
        files: LogFiles,
        settings: StoreSettings,
        clock: Clock,
        make: type[AppendSegment],
        wake: Callable[[], object],
    ) -> None:
        self._disk, self._files, self._clock, self._make = disk, files, clock, make
        self._size = files.segment_size or 0
        self._step_size, self._full_ratio = settings.allocate_step_size, settings.disk_clean_forcibly_percent
        ahead_size = settings.prepare_ahead_size
        if ahead_size is None:
            ahead_size = DEFAULT_AHEAD_SIZE if self._size >= LEAST_SEGMENT_SIZE else 0
        self._most_ahead = min(ahead_size, self._size // 4)
        is_bounded = settings.prepare_ahead_size is not None or settings.flush_mode is not FlushMode.ASYNC
        most = 0 if is_bounded else min(BURST_AHEAD_SIZE, self._size // 4, int(_memory_size() * PART_OF_MEMORY))
        self._most_for_burst = most
        """How many bytes ahead pages are present at most when the log is at rest."""
        self._for_burst, self._rested_at = 0, -1
        """The same as it was last wished for, and where the log ended when it was last at rest."""
        self.wake = wake if self._most_ahead else None
        """An append calls it, with the append lock held, so that `CommitLog.prepare` is called soon. None: each append
        prepares for itself."""
        self._next_lock = threading.Lock()
        """Held while the next segment is created or taken; only locks of segments are taken under it."""
        self._next: AppendSegment | None = None
        self._taken = -1
        """The base of the newest segment that was taken: the preparing thread may be late."""
        self._makes_next = True
        self._seen: tuple[float, int] | None = None
        """The time of the last round, and the end of the log then."""
        self._call_every = LEAST_AHEAD_SIZE // 4
        self._may_expect_bulk = settings.flush_mode is FlushMode.ASYNC
        self._is_failing = False

    @property
    def is_wanted(self) -> bool:
        """Whether anything is to be prepared."""
        return self._most_ahead > 0

    def abandon(self) -> None:
        """Leave it to each append to prepare for itself."""
        self.wake = None

    def make_room(self, segment: AppendSegment, needed: int, undispatched_size: int) -> None:
        """For an append that comes up to position `needed`, beyond `fast_path_limit`. Raises DiskFullError."""
        if needed > segment.allocated:
            segment.allocate_up_to(needed, self._step_size, undispatched_size)
        self.call(segment, needed)

    def call(self, segment: AppendSegment, needed: int) -> None:
        """Wake the preparing thread, for an append beyond `fast_path_limit` that has its blocks. If nothing was
        prepared a little later, the next append calls again."""
        if self.wake is None:
            segment.call_again_at(segment.size)
        else:
            segment.call_again_at(needed + self._call_every)
            self.wake()

    def round(self, active: AppendSegment, end: int, undispatched_size: int) -> None:
        """Prepare what the appends from `end` on will need."""
        if not active.size:
            return  # there is no segment yet
        position = min(max(end - active.base, 0), active.size)
        if self._rested_at < 0:
            self._rested_at = end
        ahead = self._ahead(end)
        self._call_every = max(ahead, LEAST_AHEAD_SIZE) // 4
        next_at = active.size - min(active.size // 2, NEXT_WITHIN_SIZE)
        call_at = active.size
        try:
            active.expect_bulk(self._may_expect_bulk and ahead >= BULK_SIZE)
            active.prepare(position, self._step_size, ahead, undispatched_size)
            if active.allocated < active.size:
                call_at = active.allocated - self._step_size // 2
            if active.populated < active.size:
                ready = max(active.populated - position, 0)  # less than `ahead` where blocks end before that
                call_at = min(call_at, active.populated - min(ahead, ready) // 2)
            if position < next_at:
                call_at = min(call_at, next_at)
            else:
                self._prepare_next(active.end, ahead, undispatched_size)
            self._is_failing = False
        except StoreClosedError:
            pass  # meanwhile: nothing needs to be prepared any more
        except DiskError as e:
            if not self._is_failing:
                text = "%s: cannot prepare blocks and segments, appends wait for their own: %s"
                log.info(text, self._files.folders.main.parent, e, extra={"cause": repr(e)})
            self._is_failing = True
        active.call_again_at(min(call_at, position + CALM_SIZE))

    def has_burst(self, end: int) -> bool:
        """Whether enough was appended to prepare for another burst (`rest`) once appends stop."""
        is_known = self._most_for_burst > 0 and self._rested_at >= 0
        return is_known and end - self._rested_at >= LEAST_BURST_SIZE

    def rest(self, active: AppendSegment, end: int, undispatched_size: int) -> bool:
        """Prepare a slice of what a burst like the last one will need; whether there is more to do. The preparing
        thread calls it while no thread appends."""
        if not active.size:
            return False
        if self.has_burst(end):
            self._for_burst = max(min(end - self._rested_at, self._most_for_burst), self._for_burst // 2)
            self._rested_at = end
        position = min(max(end - active.base, 0), active.size)
        first, stop = max(active.populated, position), min(position + self._for_burst, active.size)
        if first >= stop or self._is_failing:
            return False
        ahead = min(first + SLICE_SIZE, stop) - position
        try:
            if ahead > self._disk.free_size(active.path.parent) * PART_OF_FREE_DISK:
                return False
            active.expect_bulk(True)
            active.prepare(position, max(ahead, self._step_size), ahead, undispatched_size)
        except (DiskError, StoreClosedError):
            return False  # the next round logs it, if it lasts
        active.call_again_at(position + CALM_SIZE)
        return active.populated < stop

    def _ahead(self, end: int) -> int:
        """How many bytes ahead pages are to be present: what the log grows by in a while, judged by the last rounds."""
        now_s = self._clock.monotonic_s()
        seen_s, seen_end = self._seen or (now_s - HORIZON_S, end)
        self._seen, seconds, grown = (now_s, end), now_s - seen_s, end - seen_end
        wanted = int(grown / seconds * HORIZON_S) if seconds > 0 else self._most_ahead
        return min(max(wanted, LEAST_AHEAD_SIZE), self._most_ahead)

    def _prepare_next(self, base: int, ahead: int, undispatched_size: int) -> None:
        with self._next_lock:
            if self._next is not None or base <= self._taken or not self._makes_next:
                return
            segment = self._new(base)
            try:
                self._makes_next = segment.open_unnamed()
                if self._makes_next:
                    segment.expect_bulk(self._may_expect_bulk and ahead >= BULK_SIZE)
                    segment.prepare(0, self._step_size, ahead, undispatched_size)
                    self._next = segment
            finally:
                if self._next is not segment:
                    segment.close()

    def take(self, base: int, last: AppendSegment) -> AppendSegment:
        """The segment at `base`, new, which follows the `last` one. Raises DiskError or SyncFailedError."""
        last.sync_name()  # else a power cut could leave a gap, where segments lie in several folders
        with self._next_lock:
            segment, self._next, self._taken = self._next, None, base
            if segment is not None and segment.base == base:
                try:
                    segment.link()
                except DiskError:
                    segment.close()  # one is made with a name, then, and if that fails it says why
                else:
                    return segment
        segment = self._new(base)
        try:
            segment.create()
        except BaseException:
            segment.close()
            raise
        return segment

    def _new(self, base: int) -> AppendSegment:
        return self._make(self._disk, self._files.new_path(self._disk, base, self._full_ratio), base, self._size)

    def close(self) -> None:
        """Let go of what nobody has taken, once nobody prepares any more."""
        with self._next_lock:
            segment, self._next = self._next, None
            if segment is not None:
                segment.close()


def _memory_size() -> int:
    """Bytes of the machine's memory; 0 where it is not told."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    except (AttributeError, ValueError, OSError):
        return 0
