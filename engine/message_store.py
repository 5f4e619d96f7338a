"""The store that an application embeds: put, read, verify, close.

Invariants:
- A put that returned is stored once, in order, and visible to the next read of this process; under sync flush it is
  durable.
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
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from ..index.queue_table import QueueTable
from ..store.clock import Clock, SystemClock
from ..store.commit_log import Appended
from ..store.disk import Disk, RealDisk
from ..store.errors import DiskFullError, FlightlogError, ForkedStoreError, StoreClosedError
from ..store.lock import watch_fork
from ..store.message import GetResult, Message, PutResult, PutStatus, StoredMessage
from ..store.queue_offsets import QueueKey
from ..store.record import PreparedRecord, prepare
from ..store.settings import FlushMode, StoreSettings
from .boot import boot
from .diverting import Divert, refuse_delays
from .flush_service import FlushService
from .read_only import open_read_only
from .reading import DEFAULT_MAX_COUNT, OnCorrupt, QueueReader, queue_bounds
from .recovery import RecoveryReport
from .upkeep import Upkeep
from .verifying import VerifyReport

log = logging.getLogger("flightlog.store")

BATCH_SIZE = 256 << 10
"""How many bytes of records put_many appends under one hold of the append lock."""


class MessageStore:
    """One store, open for writing. Made by `flightlog.open`; a context manager.

    Safe from many threads. The stop order of `close` is written there, with its reasons.
    """

    _is_let_go = True  # until there is something to let go of
    _forked = False

    def __init__(self, path: Path, settings: StoreSettings, disk: Disk, clock: Clock, divert: Divert) -> None:
        self.path, self.settings = path, settings
        self._disk, self._divert, self._pid = disk, divert, os.getpid()
        self._close_lock = threading.Lock()
        self._closed = False
        parts = boot(path, settings, disk, clock)
        service: FlushService | None = None
        try:
            self._log, self._dispatcher = parts.log, parts.dispatcher
            self._table: QueueTable = parts.table
            self.recovery_report: RecoveryReport = parts.report
            self._queues = QueueReader(self._log.reader, self._table)
            self._sync_timeout_s = settings.sync_flush_timeout_ms / 1000
            self._is_sync = settings.flush_mode is FlushMode.SYNC
            self._upkeep = keep = Upkeep(disk, path, parts, syncs_log=not self._is_sync)
            service = FlushService(settings, clock, keep.flush_log, keep.flush_queues, keep.poison)
            self._service = service
            watch_fork(self)
            self._at_exit = _close_at_exit(self)
            atexit.register(self._at_exit)
            service.start()
        except BaseException:  # closed as one that was killed before anything happened
            if service is not None:
                service.stop()
            parts.let_go()
            raise
        self._is_let_go = False

    # -- putting

    def put(self, message: Message) -> PutResult:
        """Append one message.

        Under async flush it is in the page cache when this returns: it survives this process. Under sync flush it is on
        the disk, or the status is FLUSH_DISK_TIMEOUT: stored, not yet known to be durable; never put it again.

        Raises InvalidMessageError (nothing stored), DiskFullError (nothing stored), SyncFailedError and
        StorePoisonedError (stored at most in memory, not acknowledged), StoreClosedError, ForkedStoreError.
        """
        self._check_usable()
        if self._dispatcher.is_stalled:
            self._dispatcher.catch_up()
        record = prepare(self._divert(message), self.settings, self._log.segment_size)
        results: list[PutResult] = []
        try:
            self._append((record,), results)
        finally:
            self._service.wake()
        self._await_sync(results)
        return results[0]

    def put_many(self, messages: Iterable[Message]) -> list[PutResult]:
        """Append messages in order, with one sync for all of them under sync flush.

        All are checked before the first one is appended. A DiskFullError in the middle leaves the ones before it
        stored: their results are its `results`. Otherwise as `put`.
        """
        self._check_usable()
        if self._dispatcher.is_stalled:
            self._dispatcher.catch_up()
        divert, settings, segment_size = self._divert, self.settings, self._log.segment_size
        records = [prepare(divert(message), settings, segment_size) for message in messages]
        results: list[PutResult] = []
        try:
            for batch in _batches(records):
                self._append(batch, results)
        except DiskFullError as e:
            self._await_sync(results)
            e.results = results
            raise
        finally:
            self._service.wake()
        self._await_sync(results)
        return results

    def _await_sync(self, results: list[PutResult]) -> None:
        """Under sync flush: return once all of them are durable, or mark them as not known to be."""
        if self._is_sync and results:
            last = results[-1]
            if not self._log.flush(self._sync_timeout_s, last.physical_offset + last.size):
                results[:] = [result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT) for result in results]

    def _append(self, records: Sequence[PreparedRecord], results: list[PutResult]) -> None:
        """Append one batch and add what was appended to `results`, also if the append raises."""
        appended: list[Appended] = []
        try:
            self._log.append(records, appended)
        finally:
            results += [
                PutResult(
                    PutStatus.PUT_OK,
                    record.topic,
                    record.queue_id,
                    queue_offset,
                    physical_offset,
                    record.size,
                    store_timestamp_ms,
                    record.store_host,
                )
                for record, (queue_offset, physical_offset, store_timestamp_ms) in zip(records, appended, strict=False)
            ]

    def flush(self) -> None:
        """Return once everything put so far is on the disk. Raises SyncFailedError or StorePoisonedError."""
        self._check_usable()
        self._log.flush()

    # -- reading

    def get(self, topic: str, queue_id: int, queue_offset: int, max_count: int = DEFAULT_MAX_COUNT) -> GetResult:
        """Up to `max_count` messages of a queue from `queue_offset` on, with RocketMQ's status and next offset.

        Raises CorruptRecordError or CorruptQueueError where a message is damaged.
        """
        self._check_usable()
        self._upkeep.catch_up()
        return self._queues.get(topic, queue_id, queue_offset, max_count)

    def read(
        self, topic: str, queue_id: int = 0, queue_offset: int | None = None, *, on_corrupt: OnCorrupt = "raise"
    ) -> Iterator[StoredMessage]:
        """Every message of a queue from `queue_offset` (None: the first) to the end when it is reached.

        Raises CorruptRecordError or CorruptQueueError at a damaged message; `on_corrupt="skip"` leaves it out and
        counts it in `corrupt_skipped`. Raises StoreClosedError if the store is closed meanwhile.
        """
        self._check_usable()
        self._upkeep.catch_up()
        return self._queues.read(topic, queue_id, queue_offset, on_corrupt, self._check_usable, self._upkeep.catch_up)

    @property
    def corrupt_skipped(self) -> int:
        """Messages that `on_corrupt="skip"` has left out so far."""
        return self._queues.corrupt_skipped

    def queues(self) -> dict[QueueKey, tuple[int, int]]:
        """(topic, queue id) -> (offset of the first message, offset one past the last)."""
        self._check_usable()
        self._upkeep.catch_up()
        return {key: queue_bounds(queue) for key, queue in self._table.items()}

    def verify(self) -> VerifyReport:
        """Check every byte of the store against itself, as a reader beside this writer would."""
        self._check_usable()
        self._upkeep.catch_up()
        with open_read_only(self.path, self.settings, disk=self._disk) as view:
            return view.verify()

    # -- life

    def close(self) -> None:
        """Flush everything, mark the store as cleanly closed, let it go. Calling it twice is fine.

        The order, and why: refuse new calls; stop the service thread, so that nobody else flushes; dispatch and flush,
        so that the log and the queues are whole; write the checkpoint, then the clean-close words that rest on it;
        remove `abort` only when all that is durable; free the lock last, so that nobody opens the store before.

        Raises what the flush raises; the store is closed all the same, as one that was killed. If a KeyboardInterrupt
        ends it, call it again. Do not call it from a signal handler, which may have come in the middle of a put: raise
        an exception there (as `sys.exit` does) and close where that arrives.

        A store that is never closed is closed at the exit of the interpreter, or when its handle is collected (with a
        ResourceWarning).
        """
        self._closed = True
        if self._forked:
            return
        with self._close_lock:
            if self._is_let_go:
                return
            self._service.stop()
            try:
                self._upkeep.end()
            finally:
                self._is_let_go = self._upkeep.is_over
                if self._is_let_go:
                    atexit.unregister(self._at_exit)

    def __del__(self) -> None:
        if self._is_let_go or self._forked:
            return
        text = f"{self.path}: the store was never closed; closing it now"
        warnings.warn(text, ResourceWarning, stacklevel=2, source=self)
        atexit.unregister(self._at_exit)
        try:
            self._service.stop_then(self._upkeep.end)
        except FlightlogError as e:
            log.error("%s: closed as one that was killed: %s", self.path, e)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def mark_forked(self) -> None:
        """Called in a forked child: this copy of the handle must not touch the parent's store."""
        self._forked = True

    def _check_usable(self) -> None:
        if self._forked:
            raise ForkedStoreError(
                f"{self.path}: this handle was opened by process {self._pid}, before a fork. "
                "Open the store anew in this process, read-only while the parent writes"
            )
        if self._closed:
            raise StoreClosedError(f"{self.path}: the store was closed; open it again")

    def __enter__(self) -> MessageStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close_at_exit(store: MessageStore) -> Callable[[], None]:
    """A closer that does not keep the store alive."""
    reference = weakref.ref(store)

    def close() -> None:
        alive = reference()
        if alive is not None:
            try:
                alive.close()
            except FlightlogError as e:
                log.error("%s: closed as one that was killed: %s", alive.path, e)

    return close


def _batches(records: list[PreparedRecord]) -> Iterator[list[PreparedRecord]]:
    """Consecutive records of about BATCH_SIZE bytes together."""
    batch: list[PreparedRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += record.size
        if size >= BATCH_SIZE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def open_store(
    path: str | os.PathLike[str],
    settings: StoreSettings | None = None,
    *,
    disk: Disk | None = None,
    clock: Clock | None = None,
    divert: Divert | None = None,
) -> MessageStore:
    """Open a store for writing, made by flightlog or RocketMQ; create it where there is none. Recovers it first if need
    be.

    `disk`, `clock` and `divert` are the doors that tests and services hand in. Raises StoreLockedError,
    CorruptLogError, StrayFileError, SegmentLengthError, GeometryMismatchError, UnsupportedStoreError, ClockBehindError,
    DiskError. Durable when it returns: everything that was found, and that the store is now in use (`abort`).
    """
    return MessageStore(
        Path(path), settings or StoreSettings(), disk or RealDisk(), clock or SystemClock(), divert or refuse_delays
    )
