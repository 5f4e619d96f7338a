"""The store that an application embeds: put, read, verify, close.

Invariants:
- A put that returned PUT_OK is stored once, in order, and visible to the next read of this process; under sync flush it
  is durable. Two are visible only once they are durable: what did not wait for its sync, and what waited too long.
- A put that raised an InvalidMessageError or a DiskFullError stored nothing of that message.
- After a failed sync or a failed service thread, puts raise StorePoisonedError and reads go on.
- A child made by fork can neither read nor write with this handle.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from ..index.queue.queue_table import QueueTable
from ..schedule.timer_request import TIMER_TOPIC
from ..store.arguments import (
    INT64_MAX,
    check_queue,
    check_seconds,
    check_settings,
    check_whole,
    checked_folder,
    checked_path,
)
from ..store.disk.clock import Clock, SystemClock
from ..store.disk.disk import Disk, RealDisk
from ..store.disk.lock import watch_fork
from ..store.errors import (
    DiskError,
    DiskFullError,
    FlightlogError,
    ForkedStoreError,
    StoreClosedError,
    SyncFailedError,
)
from ..store.format import property_names as props
from ..store.get_result import GetResult
from ..store.settings import StoreSettings
from ..store.timer_errors import UnknownTimerError
from .delay.delay_levels import begin_levels
from .delay.store_timers import Timers
from .dispatch.live_keys import LiveKeys
from .open.boot import boot
from .open.recovery import RecoveryReport
from .read.finding import Finder
from .read.get_limits import DEFAULT_MAX_COUNT, GetLimits
from .read.key_query import KeyQuery, has_uniq_key
from .read.readable import ReadableStore
from .read.reading import QueueReader
from .read_only import open_read_only
from .services.arrivals import Arrivals
from .services.delay_service import DelayService
from .services.flush_service import FlushService
from .services.long_polls import DEFAULT_WAIT_S, MAX_WAIT_S, LongPolls, PullRequest
from .services.prepare_service import PrepareService
from .services.retention import CleanUpReport
from .services.store_maintenance import StoreMaintenance
from .shutdown import Service, close_at_exit, ending
from .statistics import StoreStatistics, live_statistics
from .topics.topic_calls import TopicWriting
from .verify.findings import VerifyReport
from .write.delay_hook import DelayHook, PrePutHook
from .write.put_calls import PutCalls
from .write.putting import Putter

log = logging.getLogger("flightlog.store")

TIMERS_MAX_COUNT = 1000
"""Timers of one uniq key that a cancellation looks at; with more it is appended."""

HANDLE = "handle"
"""Among the log's blockers: that this handle was closed, or is the copy of one in a forked child."""


def looking(queues: QueueReader) -> Callable[[PullRequest], GetResult]:
    """How pulls ask queues; without the store, which they do not keep alive."""

    def look(ask: PullRequest) -> GetResult:
        return queues.get(*ask.key, ask.queue_offset, ask.max_count, tags=ask.tags, max_size=ask.max_size)

    return look


class MessageStore(PutCalls, TopicWriting, ReadableStore):
    """One store, open for writing. Made by `flightlog.open`; a context manager.

    Safe from many threads. The stop order of `close` is written there, with its reasons.
    """

    _is_released = True  # until there is something to let go of
    _forked = False

    def __init__(
        self, path: Path, settings: StoreSettings, disk: Disk, clock: Clock, pre_put_hook: PrePutHook | None
    ) -> None:
        self.path, self.settings = path, settings
        self._disk, self._clock, self._pid = disk, clock, os.getpid()
        self._close_lock = threading.Lock()
        self._closed = False
        self._told_missing = set()
        self._at_exit = close_at_exit(self)
        parts = boot(path, settings, disk, clock)
        services: list[Service] = []
        timers: Timers | None = None
        try:
            self._log, self._dispatcher = parts.log, parts.dispatcher
            self._table: QueueTable = parts.table
            self.recovery_report: RecoveryReport = parts.report
            commit_log = parts.log  # not reached through self: a handle that nobody holds is to be collected at once
            self._queues = QueueReader(
                commit_log.reader, parts.table, GetLimits.of(settings), lambda: commit_log.visible
            )
            self._finder = Finder(commit_log.reader, parts.table, lambda: commit_log.visible)
            self._keys = (
                KeyQuery(commit_log.reader, LiveKeys(parts.index, parts.dispatcher), parts.deleted)
                if parts.index is not None
                else None
            )
            self._maintenance = keep = StoreMaintenance(disk, path, settings, clock, parts)
            self._catch_up, self._catch_up_keys = keep.catch_up, parts.dispatcher.catch_up
            self._service = service = FlushService(settings, clock, keep)
            self._preparing = preparing = PrepareService(parts.log, service.dispatch_beside)
            self._delay_service = delay_service = DelayService(settings, clock)
            self._timers = timers = Timers(disk, path, settings, clock, delay_service)
            self._arrivals = arrivals = Arrivals(parts.log, service, keep)
            self._pulls = pulls = LongPolls(
                *(path, looking(self._queues), keep.catch_up, lambda: commit_log.visible, arrivals, clock)
            )
            parts.dispatcher.note_arrivals = pulls.note, arrivals.note
            services += pulls, arrivals, delay_service, service, preparing
            self._topic_table = parts.topics
            self._deleted, self._deleted_file = parts.deleted, parts.deleted_file
            self._putter = Putter(
                *(parts.log, parts.dispatcher, settings, clock),
                pre_put_hook or DelayHook(settings, park_timer=timers.admission),
                *(service, keep, parts.topics, delay_service),
            )
            self._put_fast_path = self._putter.put_fast_path
            self._end = ending(services, self._putter.pending, (delay_service.save, timers.close), keep)
            watch_fork(self)
            service.start()
            preparing.start()
            self._levels = begin_levels(disk, path, settings, clock, parts, keep, self._putter, delay_service)
            timers.begin(parts, keep, self._putter)
            atexit.register(self._at_exit)  # last: at an exit in between, nothing half made is closed
        except BaseException:  # closed as one that was killed before anything happened
            self._closed = True
            atexit.unregister(self._at_exit)
            for each in services:
                each.stop()
            if timers is not None:
                timers.close()
            parts.release()
            raise
        self._is_released = False
        report = parts.report
        log.info(
            "%s: open for writing, the log goes on at physical offset %d",
            *(path, report.end),
            extra={"path": str(path), "physical_offset": report.end, "last_writer": report.last_writer.name},
        )

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        settings: StoreSettings | None = None,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        pre_put_hook: PrePutHook | None = None,
    ) -> Self:
        """Open a store for writing, made by flightlog or RocketMQ; create it where there is none. Recovers it first if
        need be. Sizes of files that the settings leave open are those that the store was made with.

        `disk`, `clock` and `pre_put_hook` are the doors that tests and services hand in. Raises StoreLockedError,
        CorruptLogError, StrayFileError, SegmentLengthError, GeometryMismatchError, UnsupportedStoreError,
        ClockBehindError, ConfigFileError, DiskError, InvalidArgumentError for a path that is
        no folder's, and ThreadStartError if the system has no thread to give. Whatever
        is raised, everything is given back: the lock, files and threads. Durable when it returns: everything that was
        found, and that the store is now in use (`abort`).
        """
        found = checked_folder("path", path) if disk is None else checked_path("path", path)
        check_settings(settings)
        return cls(found, settings or StoreSettings(), disk or RealDisk(), clock or SystemClock(), pre_put_hook)

    # -- what can be put stands in engine/write/put_calls.py

    def _delete_topic(self, name: str) -> None:
        note, deleted = self._deleted_file, self._deleted

        def finish() -> None:
            note.write(deleted, pending=[])
            deleted.pending = []

        try:
            self._topic_table.delete(name, lambda: self._maintenance.delete_topic(name, note), finish)
        except DiskError as e:  # with a full disk, what has begun is done by the next open
            if isinstance(e, SyncFailedError) or (name in deleted.pending and not isinstance(e, DiskFullError)):
                self._maintenance.poison(e)
            raise

    def _bounds(self, name: str, queue_ids: range) -> dict[int, tuple[int, int]]:
        return {key[1]: bounds for key, bounds in self.queues().items() if key[0] == name and key[1] in queue_ids}

    def _default_queue_count(self) -> int:
        return self.settings.default_queue_count

    # -- what can be read stands in engine/read/readable.py, what can be done to topics in engine/topics/topic_calls.py

    def pull(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = DEFAULT_MAX_COUNT,
        *,
        tags: str | None = None,
        max_size: int | None = None,
        wait_s: float = DEFAULT_WAIT_S,
    ) -> Future[GetResult]:
        """What `get` answers, once there is a message: a future that waits up to `wait_s` seconds for one, 30 at most.

        It is done when it is returned if `get` finds something, or there is nothing to wait for (an offset before the
        first message, or past the end). Otherwise a put to this queue completes it, under sync flush once the message
        is durable; messages that the tags leave out wake nobody. When its time is over it answers what `get` would:
        without messages, and with the offset to go on from.

        A pull that waits is no thread: there may be tens of thousands. `await asyncio.wrap_future(store.pull(...))`
        waits in a coroutine; cancelling takes it back. Callbacks run in the one thread that answers pulls: they may use
        the store, pull again, and close it, but while one waits, other pulls do. `close` completes every future with
        StoreClosedError; in a child made by fork those of the parent are never completed.

        Raises what `get` raises now; what a look at a message raises later is the future's. Raises UsageError for
        another `wait_s`.
        """
        self._check_usable()
        queue_id = check_queue(topic, queue_id)
        queue_offset = check_whole("queue_offset", queue_offset, ~INT64_MAX)
        max_count = check_whole("max_count", max_count, 1)
        if max_size is not None:
            max_size = check_whole("max_size", max_size)
        check_seconds("wait_s", wait_s, MAX_WAIT_S)
        return self._pulls.pull(PullRequest((topic, queue_id), queue_offset, max_count, tags, max_size), wait_s)

    def _check_timer(self, topic: str, uniq_key: str, slot_ms: int) -> None:
        if self._keys is None:
            return
        if not self.was_stored(uniq_key, topic):
            raise UnknownTimerError(topic, uniq_key, "found no message of it", "one that was put with a delivery time")
        found, at = self._keys.query(TIMER_TOPIC, uniq_key, 0, None, TIMERS_MAX_COUNT, "skip", self._log.visible), set()
        for message in found.messages:
            if message.properties.get(props.REAL_TOPIC) == topic:
                at.add(message.properties.get(props.TIMER_OUT_MS, ""))
        visible_only = self._log.visible == self._log.end
        if str(slot_ms) not in at and visible_only and not found.has_more:
            places = ", ".join(sorted(at))
            seen = f"found it due in the second from {places} on" if at else "found it as a message without a timer"
            raise UnknownTimerError(topic, uniq_key, seen, f"the second from {slot_ms} on: its own delivery time")

    def _readable_end(self) -> int:
        return self._log.visible

    def _unread_from(self) -> int:
        return self._dispatcher.index_position

    def _is_unread(self, start: int, uniq_key: str, topic: str | None) -> bool:
        return has_uniq_key(self._log.reader, start, self._log.end, topic, uniq_key)

    # -- checking

    def verify(self) -> VerifyReport:
        """Check every byte of the store against itself, as a reader beside this writer would."""
        self._check_usable()
        self._maintenance.catch_up()
        with open_read_only(self.path, self.settings, disk=self._disk) as view:
            return view.verify()

    def statistics(self) -> StoreStatistics:
        """What it holds, how far each part lags behind, how fast it is; see engine/statistics.py. Cheap, and on a
        poisoned store too."""
        self._check_usable()
        parts = self._log, self._dispatcher, self._table, self._maintenance
        delays = () if self._levels is None else self._levels.states()
        return live_statistics(self._disk, self.path, *parts, self._clock, delays, self._timers.state())

    def clean_up(self, retention_hours: int | None = None) -> CleanUpReport:
        """One round of retention now: the oldest full segments go, `clean_batch_count` at most, if they were last
        written to `retention_hours` ago (None: the setting of that name, and without that nothing goes), or for want of
        room as the settings say; then the queue files, index files and seals of what is gone. Says what went.

        The last segment stays, and so does what an iterator or an open view of this process is yet to read. What has
        gone from the log is answered as OFFSET_TOO_SMALL by `get`.

        Raises DiskError if a file cannot be removed: what went before is gone, and the next round goes on. Raises
        UsageError, StorePoisonedError, StoreClosedError, ForkedStoreError.
        """
        self._check_usable()
        if retention_hours is not None:
            retention_hours = check_whole("retention_hours", retention_hours)
        hours = self.settings.retention_hours if retention_hours is None else retention_hours
        return self._maintenance.clean_up(hours, is_asked_for=True)

    # -- life

    def close(self) -> None:
        """Flush everything, mark the store as cleanly closed, let it go. Calling it twice is fine.

        The order, and why: refuse new calls; stop the long polls and those who wait for arrivals, which call back; stop
        the delay service, which put; stop the service thread, so that it flushes nothing behind the closer; complete
        the futures of `put_async`, durable or with their error, for nothing is synced after the rest; write how far
        deliveries are; dispatch and flush, so that the log and the queues are whole; write the checkpoint, then the
        clean-close words that rest on it; remove `abort` only when all that is durable; free the lock last, so that
        nobody opens the store before.

        Raises what the flush raises; the store is closed all the same, as one that was killed. If a KeyboardInterrupt
        ends it, call it again. Do not call it from a signal handler, which may have come in the middle of a put: raise
        an exception there (as `sys.exit` does) and close where that arrives.

        A store that is never closed is closed at the exit of the interpreter, or when its handle is collected (with a
        ResourceWarning).
        """
        self._closed = True
        self._log.blockers[HANDLE] = "closed"
        if self._forked:
            return
        if not (self._putter.pending.runs_callbacks_here() or self._pulls.thread.is_current()):
            with self._close_lock:
                self._close_locked()
        elif self._close_lock.acquire(blocking=False):  # who else closes may be waiting for this callback to end
            try:
                self._close_locked()
            finally:
                self._close_lock.release()

    def _close_locked(self) -> None:
        if self._is_released:
            return
        self._queues.release()
        try:
            self._end()
        finally:
            self._is_released = self._maintenance.is_over
            if self._is_released:
                atexit.unregister(self._at_exit)

    def __del__(self) -> None:
        if self._is_released or self._forked:
            return
        text = f"{self.path}: the store was never closed; closing it now"
        warnings.warn(text, ResourceWarning, stacklevel=2, source=self)
        atexit.unregister(self._at_exit)
        end, path = self._end, self.path

        def end_quietly() -> None:
            try:
                end()
            except FlightlogError as e:
                log.error("%s: closed as one that was killed: %s", path, e, extra={"path": str(path)})

        # A garbage collection may come in any thread, in the middle of what that one does for this store.
        services = self._pulls, self._arrivals, self._delay_service, self._service, self._preparing
        for thread in (*(each.thread for each in services), *self._putter.pending.threads):
            if thread.is_current():
                thread.stop_then(end_quietly)
                return
        end_quietly()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.path)!r}, {'closed' if self._closed else 'open for writing'}>"

    @property
    def is_closed(self) -> bool:
        return self._closed

    def mark_forked(self) -> None:
        """Called in a forked child: this copy of the handle must not touch the parent's store."""
        self._forked = True
        self._queues.empty_pages()
        self._log.blockers[HANDLE] = "forked"

    def _check_usable(self) -> None:
        if self._forked:
            raise ForkedStoreError(
                f"{self.path}: this handle was opened by process {self._pid}, before a fork. "
                "Open the store again in this process, read-only while the parent writes"
            )
        if self._closed:
            raise StoreClosedError(f"{self.path}: the store was closed; open it again")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


open_store = MessageStore.open
