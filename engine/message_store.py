"""The store that an application embeds: put, read, verify, close.

Invariants:
- A put that returned PUT_OK is stored once, in order, and visible to the next read of this process; under sync flush it
  is durable. A put that did not wait for its sync, or waited too long, becomes visible only once it is durable.
- A put that raised an InvalidMessageError or a DiskFullError stored nothing of that message.
- After a failed sync or a failed service thread, puts raise StorePoisonedError and reads continue.
- A child made by fork can neither read nor write with this handle.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..index.filter.wanted import Wanted
from ..store import native
from ..store.arguments import check_queue, check_settings, checked_folder, checked_path
from ..store.disk.clock import Clock, SystemClock
from ..store.disk.disk import Disk, RealDisk
from ..store.disk.lock import watch_fork
from ..store.errors import ForkedStoreError, StoreClosedError
from ..store.get_result import GetResult
from ..store.log.atomic_append import AtomicRange, Commit
from ..store.message import Message
from ..store.queue_offsets import QueueKey
from ..store.results import AppendResult, PutResult
from ..store.settings import StoreSettings
from ..store.stored_message import StoredMessage
from ..store.topic import READ_WRITE, Topic
from .delay.delay_service import DelayService
from .delay.store_timers import checked_cancellation
from .documented import documented_by
from .open.boot import recover_store
from .read.finding import Boundary
from .read.get_limits import DEFAULT_MAX_COUNT, GetLimits
from .read.key_query import KeyQuery, LiveKeys, QueryResult
from .read.reader import DEFAULT_BATCH_COUNT, DEFAULT_BATCH_SIZE, Reader
from .read.reading import OnCorrupt, queue_bounds
from .read_only import open_read_only
from .services.arrivals import Arrivals
from .services.flush_service import FlushService
from .services.long_polls import DEFAULT_WAIT_S, LongPolls
from .services.prepare_service import PrepareService
from .services.retention import CleanUpReport
from .services.store_maintenance import StoreMaintenance
from .services.wake_up import WakeUp
from .shutdown import Service, close_at_exit, make_shutdown, shut_down_dropped
from .statistics import StoreStatistics, live_statistics
from .topics.offset_table import OffsetTable
from .topics.topic_admin import TopicAdmin
from .verify.findings import VerifyReport
from .write.append_atomically import TopicColumns
from .write.putting import DelayHook, PrePutHook, Putter
from .write.queue_handle import QueueHandle

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("flightlog.store")


class MessageStore(native.OrdinaryPut):
    """One store, open for writing. Of consumer groups it knows only their offsets. A context manager.

    Thread-safe. Every call raises StoreClosedError after `close`, and ForkedStoreError in a child made by
    fork. No part and no service keeps the handle alive: a handle without references is closed.
    """

    _is_released = True  # until there is something to release
    _forked = False

    if TYPE_CHECKING:  # the kernel implements it, and does not know these types

        def put(self, message: Message) -> PutResult: ...

    def __init__(
        self, path: Path, settings: StoreSettings, disk: Disk, clock: Clock, pre_put_hook: PrePutHook | None
    ) -> None:
        self.path, self.settings = path, settings
        self.disk, self.clock, self._pid = disk, clock, os.getpid()
        self._close_lock, self._closed = threading.Lock(), False
        self._at_exit = close_at_exit(self)
        with ExitStack() as undo:  # on any failure everything is released, as by a writer that was killed
            # Recovery. Local names: no part reaches the others through the handle.
            wake_preparing = WakeUp()
            found = recover_store(path, settings, disk, clock, undo, wake_preparing.notify)
            commit_log, dispatcher, topics = found.log, found.dispatcher, found.topics
            table, index, deleted = dispatcher.table, dispatcher.index, dispatcher.deleted

            # The services, without their threads.
            offsets = OffsetTable(disk, path, clock, commit_log.flush, lambda: commit_log.end)
            maintenance = StoreMaintenance(
                *(disk, path, settings, clock, commit_log, dispatcher, topics, offsets, found.session)
            )
            flushing = FlushService(settings, clock, maintenance)
            undo.callback(flushing.stop)
            preparing = PrepareService(commit_log, flushing.dispatch_beside, wake_preparing)
            undo.callback(preparing.stop)
            arrivals = Arrivals(commit_log, flushing, maintenance)
            undo.callback(arrivals.stop)

            # Reading.
            reader = Reader(
                *(path, commit_log.reader, table, GetLimits.of(settings)),
                readable_end=lambda: commit_log.visible,
                dispatched_end=lambda: dispatcher.position,
                keys=KeyQuery(commit_log.reader, LiveKeys(index, dispatcher), deleted) if index else None,
                topics=topics.all,
                catch_up=maintenance.catch_up,
                catch_up_keys=dispatcher.catch_up,
                unindexed=lambda: (dispatcher.index_position, commit_log.end),
            )
            get, catch_up = reader.queue_reader.get, maintenance.catch_up
            pulls = LongPolls(path, get, catch_up, lambda: commit_log.visible, arrivals, clock)
            undo.callback(pulls.stop)
            dispatcher.add_listener(pulls.note)  # first: arrivals wake the pulls
            dispatcher.add_listener(arrivals.note)

            # Writing, and delayed messages.
            delay_service = DelayService(
                *(disk, path, settings, clock, commit_log, table, found.report.last_writer, maintenance),
                deliver=lambda due: putter.deliver(due),  # of the putter below, whose hook parks for these delays
            )
            undo.callback(delay_service.timers.close)
            undo.callback(delay_service.stop)
            putter = Putter(
                *(commit_log, dispatcher, settings, clock),
                pre_put_hook or DelayHook(settings, park_timer=delay_service.timers.admission),
                *(flushing, maintenance, topics, delay_service),
            )
            topic_admin = TopicAdmin(
                *(path, settings, topics, offsets, deleted, found.deleted_file),
                *(reader.queues, maintenance.delete_topic, maintenance.poison),
            )

            self.recovery_report = found.report
            self._log, self._dispatcher, self._table, self._maintenance = commit_log, dispatcher, table, maintenance
            self._reader, self.dispatched = reader, reader.dispatched
            self.putter, self._topic_admin = putter, topic_admin
            self.put_fast_path = self._put_fast_path = putter.put_fast_path
            self.offsets, self.arrivals, self.poison_wake_ups = offsets, arrivals, commit_log.poison_wake_ups
            self._service, self._preparing, self._pulls = flushing, preparing, pulls
            self._delay_service, self.timers, self.topic_table = delay_service, delay_service.timers, topics
            self.retention, self.delay_levels = maintenance.retention, delay_service.levels
            self.log_end: Callable[[], int] = lambda: commit_log.end
            self.services: list[Service] = [pulls, arrivals, delay_service, flushing, preparing]  # as they are stopped
            self._shut_down = make_shutdown(self.services, putter.pending, delay_service.close, maintenance)

            # Threads start here.
            watch_fork(self)
            flushing.start()
            preparing.start()
            delay_service.resume()
            undo.callback(atexit.unregister, self._at_exit)
            atexit.register(self._at_exit)  # last: an exit before this closes nothing half made
            undo.pop_all()
        self._is_released = False
        self.recovery_report.tell_open(path, log)
        with ExitStack() as undo:
            undo.callback(self.close)
            offsets.load(lambda key: queue_bounds(table.get(key))[1])
            offsets.save()  # lowered offsets, before the first put
            undo.pop_all()

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
        """Open a store for writing, created by flightlog or RocketMQ; create it if there is none. Recovers it first if
        necessary. File sizes that the settings leave open are those that the store was created with.

        Tests and services pass `disk`, `clock` and `pre_put_hook` (see PrePutHook). Raises StoreLockedError,
        CorruptLogError, StrayFileError, SegmentLengthError, GeometryMismatchError, UnsupportedStoreError,
        ClockBehindError, ConfigFileError, DiskError, InvalidArgumentError for a path that is not a folder, and
        ThreadStartError if the system refuses a thread. On any error the lock, files and threads are released. Durable
        when it returns: everything that was found, and that the store is now in use (`abort`).
        """
        found = checked_folder("path", path) if disk is None else checked_path("path", path)
        check_settings(settings)
        return cls(found, settings or StoreSettings(), disk or RealDisk(), clock or SystemClock(), pre_put_hook)

    # -- putting

    def put_slow(self, message: Message) -> PutResult:
        """The slow path of `put`. The kernel calls it after the fast path declined the message."""
        self.check_usable()
        return self.putter.put(message)

    _put_slow = put_slow

    @documented_by(Putter.put_async)
    def put_async(self, message: Message) -> Future[PutResult]:
        self.check_usable()
        return self.putter.put_async(message)

    @documented_by(Putter.put_many)
    def put_many(self, messages: Iterable[Message]) -> list[PutResult]:
        self.check_usable()
        return self.putter.put_many(messages)

    @documented_by(Putter.put_batch)
    def put_batch(self, messages: Iterable[Message]) -> list[PutResult]:
        self.check_usable()
        return self.putter.put_batch(messages)

    def queue(self, topic: str, queue_id: int = 0) -> QueueHandle:
        """Lowest-overhead API: append to one queue without building a `Message`. Otherwise `append` works as `put`.

        This call stores nothing; the first append creates topic and queue, as a put does. Raises InvalidMessageError,
        StoreClosedError, ForkedStoreError.
        """
        self.check_usable()
        queue_id = check_queue(topic, queue_id)
        return QueueHandle(topic, queue_id, self.putter.ordinary_append, self.put)

    @documented_by(Putter.append_columns)
    def append_columns(self, topic: str, columns: Any) -> AppendResult:
        self.check_usable()
        return self.putter.append_columns(topic, columns)

    @documented_by(Putter.append_atomically)
    def append_atomically(
        self, parts: Iterable[TopicColumns], before_commit: Commit = lambda appended: None
    ) -> AtomicRange:
        self.check_usable()
        return self.putter.append_atomically(parts, before_commit)

    @documented_by(checked_cancellation)
    def cancel_timer(self, topic: str, uniq_key: str, deliver_at_ms: int) -> PutResult:
        self.check_usable()
        return self.put(checked_cancellation(self._reader, self._log, self.clock, topic, uniq_key, deliver_at_ms))

    def flush(self) -> None:
        """Return once everything put so far is durable, however long that takes: under sync flush also puts that did
        not wait for their sync, or waited too long. Raises SyncFailedError, StorePoisonedError, StoreClosedError,
        ForkedStoreError."""
        self.check_usable()
        self._log.flush()

    def wait_until_prepared(self, timeout_s: float) -> bool:
        """Wait, while no put runs, until blocks and pages for the next puts are ready. False: not within that time."""
        self.check_usable()
        return self._preparing.settled(timeout_s)

    # -- reading

    @documented_by(Reader.get)
    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = DEFAULT_MAX_COUNT,
        *,
        tags: Wanted = None,
        max_size: int | None = None,
    ) -> GetResult:
        if self._closed or self._forked:
            self.check_usable()
        return self._reader.get(topic, queue_id, queue_offset, max_count, tags=tags, max_size=max_size)

    @documented_by(Reader.read)
    def read(
        self,
        topic: str,
        queue_id: int = 0,
        queue_offset: int | None = None,
        *,
        tags: Wanted = None,
        decompress: bool = False,
        on_corrupt: OnCorrupt = "raise",
        must_exist: bool = False,
    ) -> Iterator[StoredMessage]:
        if self._closed or self._forked:
            self.check_usable()
        return self._reader.read(
            *(topic, queue_id, queue_offset),
            tags=tags,
            decompress=decompress,
            on_corrupt=on_corrupt,
            must_exist=must_exist,
            check=self.check_usable,
        )

    @documented_by(Reader.read_all)
    def read_all(
        self,
        topic: str,
        physical_offset: int | None = None,
        *,
        begin_ms: int | datetime | None = None,
        tags: Wanted = None,
        decompress: bool = False,
        on_corrupt: OnCorrupt = "raise",
        must_exist: bool = False,
    ) -> Iterator[StoredMessage]:
        self.check_usable()
        return self._reader.read_all(
            *(topic, physical_offset, begin_ms, tags, decompress, on_corrupt, must_exist), check=self.check_usable
        )

    @documented_by(Reader.read_batch)
    def read_batch(
        self,
        topic: str,
        queue_id: int = 0,
        queue_offset: int | None = None,
        *,
        max_count: int = DEFAULT_BATCH_COUNT,
        max_size: int = DEFAULT_BATCH_SIZE,
        columns: Sequence[str] | None = None,
        on_corrupt: OnCorrupt = "raise",
    ) -> pa.RecordBatch:
        self.check_usable()
        return self._reader.read_batch(
            *(topic, queue_id, queue_offset),
            max_count=max_count,
            max_size=max_size,
            columns=columns,
            on_corrupt=on_corrupt,
        )

    @documented_by(Reader.body_view)
    def body_view(self, message: StoredMessage) -> memoryview:
        self.check_usable()
        return self._reader.body_view(message)

    @property
    def corrupt_skipped(self) -> int:
        """Messages that `on_corrupt="skip"` has left out so far."""
        return self._reader.corrupt_skipped

    @documented_by(Reader.queues)
    def queues(self) -> dict[QueueKey, tuple[int, int]]:
        self.check_usable()
        return self._reader.queues()

    @documented_by(Reader.queue_bounds)
    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        self.check_usable()
        return self._reader.queue_bounds(topic, queue_id)

    @documented_by(Reader.end_offsets)
    def end_offsets(self, queues: Iterable[QueueKey]) -> list[int]:
        self.check_usable()
        return self._reader.end_offsets(queues)

    @documented_by(Reader.offset_at)
    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int | datetime, boundary: Boundary = "lower") -> int:
        self.check_usable()
        return self._reader.offset_at(topic, queue_id, timestamp_ms, boundary)

    @documented_by(Reader.estimate_count)
    def estimate_count(self, topic: str, queue_id: int, start: int, stop: int, *, tags: str | None = None) -> int:
        self.check_usable()
        return self._reader.estimate_count(topic, queue_id, start, stop, tags=tags)

    @documented_by(Reader.message_at)
    def message_at(self, physical_offset: int, batch_index: int | None = None) -> StoredMessage | None:
        self.check_usable()
        return self._reader.message_at(physical_offset, batch_index)

    @documented_by(Reader.message_by_id)
    def message_by_id(self, message_id: str) -> StoredMessage | None:
        self.check_usable()
        return self._reader.message_by_id(message_id)

    @documented_by(Reader.query)
    def query(
        self,
        topic: str,
        key: str,
        begin_ms: int | datetime = 0,
        end_ms: int | datetime | None = None,
        max_count: int = DEFAULT_MAX_COUNT,
        *,
        on_corrupt: OnCorrupt = "raise",
    ) -> QueryResult:
        self.check_usable()
        return self._reader.query(topic, key, begin_ms, end_ms, max_count, on_corrupt=on_corrupt)

    @documented_by(Reader.message_by_uniq_key)
    def message_by_uniq_key(self, topic: str, uniq_key: str) -> StoredMessage | None:
        self.check_usable()
        return self._reader.message_by_uniq_key(topic, uniq_key)

    @documented_by(Reader.was_stored)
    def was_stored(self, uniq_key: str, topic: str | None = None) -> bool:
        self.check_usable()
        return self._reader.was_stored(uniq_key, topic)

    @documented_by(Reader.topics)
    def topics(self, *, include_system: bool = False) -> dict[str, Topic]:
        self.check_usable()
        return self._reader.topics(include_system=include_system)

    @documented_by(Reader.topic)
    def topic(self, name: str) -> Topic | None:
        self.check_usable()
        return self._reader.topic(name)

    @documented_by(LongPolls.pull)
    def pull(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = DEFAULT_MAX_COUNT,
        *,
        tags: Wanted = None,
        max_size: int | None = None,
        wait_s: float = DEFAULT_WAIT_S,
    ) -> Future[GetResult]:
        self.check_usable()
        return self._pulls.pull(topic, queue_id, queue_offset, max_count, tags, max_size, wait_s)

    # -- topics

    @documented_by(TopicAdmin.create)
    def create_topic(
        self,
        name: str,
        queue_count: int | None = None,
        *,
        read_queue_count: int | None = None,
        write_queue_count: int | None = None,
        perm: int = READ_WRITE,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> Topic:
        self.check_usable()
        return self._topic_admin.create(
            *(name, queue_count),
            read_queue_count=read_queue_count,
            write_queue_count=write_queue_count,
            perm=perm,
            order=order,
            attributes=attributes,
        )

    @documented_by(TopicAdmin.update)
    def update_topic(
        self,
        name: str,
        queue_count: int | None = None,
        *,
        read_queue_count: int | None = None,
        write_queue_count: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        attributes: Mapping[str, str] | None = None,
        allow_unread: bool = False,
    ) -> Topic:
        self.check_usable()
        return self._topic_admin.update(
            *(name, queue_count),
            read_queue_count=read_queue_count,
            write_queue_count=write_queue_count,
            perm=perm,
            order=order,
            attributes=attributes,
            allow_unread=allow_unread,
        )

    @documented_by(TopicAdmin.delete)
    def delete_topic(self, name: str) -> None:
        self.check_usable()
        self._topic_admin.delete(name)

    # -- checking

    def verify(self) -> VerifyReport:
        """Check every byte of the store against itself, as a reader beside this writer would."""
        self.check_usable()
        self._maintenance.catch_up()
        with open_read_only(self.path, self.settings, disk=self.disk) as view:
            return view.verify()

    def statistics(self) -> StoreStatistics:
        """Sizes, topics, throughput, latencies, and the lag of flush, dispatch and index; see engine/statistics.py.
        Cheap. Works on a poisoned store too."""
        self.check_usable()
        parts = self._log, self._dispatcher, self._table, self._maintenance
        return live_statistics(self.disk, self.path, *parts, self.clock, *self._delay_service.states())

    @documented_by(StoreMaintenance.clean_up_now)
    def clean_up(
        self, retention_hours: int | None = None, *, consumed_by_all: bool = False, dry_run: bool = False
    ) -> CleanUpReport:
        self.check_usable()
        return self._maintenance.clean_up_now(retention_hours, consumed_by_all=consumed_by_all, dry_run=dry_run)

    # -- life

    def close(self) -> None:
        """Flush everything, mark the store as cleanly closed, and release it. Calling it twice is fine.

        The order, and why: refuse new calls; stop the long polls and the arrivals, which run callbacks; stop the delay
        service, which puts; stop the flush service, so that it flushes nothing during the close; complete the futures
        of `put_async`, durable or with their error, because nothing is synced later; write how far deliveries are;
        dispatch and flush, so that the log and the queues are whole; write the checkpoint, then the clean-close words
        that rely on it; remove `abort` only when all that is durable; release the lock last, so that no other writer
        opens the store before.

        Raises what the flush raises; the store is closed all the same, as one that was killed. If a KeyboardInterrupt
        ends it, call it again. Do not call it from a signal handler, which may interrupt a put: raise an exception
        there (as `sys.exit` does) and close the store where you catch it.

        A store that is never closed is closed at the exit of the interpreter, or when its handle is collected (with a
        ResourceWarning).
        """
        self._closed = True
        self._log.conditions.handle = "closed"
        if self._forked:
            return
        if not (self.putter.pending.runs_callbacks_here() or self._pulls.thread.is_current()):
            with self._close_lock:
                self._close_locked()
        elif self._close_lock.acquire(blocking=False):  # another closing thread may be waiting for this callback
            try:
                self._close_locked()
            finally:
                self._close_lock.release()

    def _close_locked(self) -> None:
        if self._is_released:
            return
        self._reader.queue_reader.release()
        try:
            self._shut_down()
        finally:
            self._is_released = self._maintenance.is_over
            if self._is_released:
                atexit.unregister(self._at_exit)

    def __del__(self) -> None:
        if self._is_released or self._forked:
            return
        warnings.warn(f"{self.path}: the store was never closed; closing it now", ResourceWarning, 2, self)
        atexit.unregister(self._at_exit)
        threads = *(each.thread for each in self.services), *self.putter.pending.threads
        shut_down_dropped(self.path, self._shut_down, threads)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.path)!r}, {'closed' if self._closed else 'open for writing'}>"

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def poison(self) -> BaseException | None:
        """The error that ended puts and syncs until the store is reopened; None if there is none."""
        return self._log.poison

    @property
    def is_usable(self) -> bool:
        """Whether it is open, in the process that opened it."""
        return not self._closed and not self._forked

    def mark_forked(self) -> None:
        """Called in a forked child: this copy of the handle must not touch the parent's store."""
        self._forked = True
        self._reader.queue_reader.empty_pages()
        self._log.conditions.handle = "forked"

    def check_usable(self) -> None:
        """Raise StoreClosedError or ForkedStoreError unless `is_usable`."""
        if self._forked:
            raise ForkedStoreError(
                f"{self.path}: this handle was opened by process {self._pid}, before a fork. "
                "Open the store again in this process, read-only while the parent writes"
            )
        if self._closed:
            raise StoreClosedError(f"{self.path}: the store was closed; open it again")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


open_store = MessageStore.open
