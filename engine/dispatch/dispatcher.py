"""Live dispatch: visible records of the log into the consume queues and the key index, on demand of a reader and by the
flush service.

Invariants:
- `position` advances after the entries of all records below it are in their queues, `index_position` after their keys
  are in the index. If the index cannot be written, dispatch into queues continues without it.
- Only the holder of the dispatch lock writes queues and the index.
- Dispatch is idempotent: after a failure or an interrupt a range is dispatched again, without duplicate entries.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ...index.dispatch.dispatch_rules import DispatchCount, DispatchRules
from ...index.key.index_writer import FlushRound
from ...index.key.key_entries import KeyEntries
from ...index.key.key_index import KeyIndex
from ...index.queue.queue_table import QueueTable
from ...store.disk.disk import Disk
from ...store.errors import (
    DiskError,
    DiskFullError,
    IndexFileGoneError,
    StoreClosedError,
    SyncFailedError,
    TooManyFilesError,
)
from ...store.log.commit_log import CommitLog
from ...store.queue_offsets import QueueKey
from ...store.state.deleted_topics import DeletedTopics, DeletedTopicsFile
from ...store.state.progress import DISPATCHED, ProgressPage
from .dispatching import dispatch_range
from .key_scan import keys_between

log = logging.getLogger("flightlog.dispatch")

LOOK_AGAIN_S = 0.0002
"""Pause between two checks whether another thread's dispatch has reached the target."""


class SyncedQueues(NamedTuple):
    """The state of all queues at a sync."""

    position: int
    """Physical offset below which every entry is durable. The log itself may not be."""
    queue_count: int
    ends: int
    """The sum of the queues' ends."""
    starts: int
    """The sum of the queues' first queue offsets."""


class Dispatcher:
    """Dispatches the log of an open store into its queues and key index."""

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        table: QueueTable,
        index: KeyIndex | None,
        rules: DispatchRules,
        progress: ProgressPage,
        position: int,
    ) -> None:
        self._disk, self._log, self._table, self._rules, self._progress = disk, log, table, rules, progress
        self._index = index
        self._listeners: list[Callable[[Mapping[QueueKey, int]], object]] = []
        self._lock = threading.Lock()
        self.position = position
        """Physical offset below which every record is in its queue."""
        self.index_position = position
        """Physical offset below which every key is in the index, if the store has one."""
        self.unsynced_entries = 0
        """Queue entries written since the last sync of the queues."""
        self._index_failure: DiskError | None = None
        """Why the index is no longer written in this session; a failed sync is never retried."""
        self._is_closed = False

    @property
    def table(self) -> QueueTable:
        return self._table

    @property
    def index(self) -> KeyIndex | None:
        return self._index

    @property
    def deleted(self) -> DeletedTopics:
        """The deleted topics, whose records are skipped."""
        return self._rules.deleted

    def add_listener(self, listener: Callable[[Mapping[QueueKey, int]], object]) -> None:
        """Call `listener` on each dispatch, before `position` advances, with the first new queue offset of each queue
        that got entries."""
        self._listeners.append(listener)

    @property
    def is_stalled(self) -> bool:
        """Whether the disk had no room for queue entries or keys. Then puts are refused: no reader would find them."""
        return self._log.conditions.dispatch_stalled is not None

    def catch_up(self) -> None:
        """Dispatch all visible records. Afterwards every put that has returned is in its queue, and its keys are in the
        index.

        Raises DiskFullError; the next call continues from the same position. Raises DiskError and SyncFailedError,
        which poison the log: later puts fail. Before these are raised, visible records are dispatched into queues in
        memory, so reads of queues still find them; only queries by key raise again. If `position` is still behind
        afterwards, the log itself cannot be read.
        """
        target = self._log.visible
        while not self._is_dispatched(target) and self._lock.locked():
            # Poll instead of waiting for the lock: many readers would acquire it in turn, each waiting for the GIL.
            time.sleep(LOOK_AGAIN_S)
        if self._is_dispatched(target):
            return
        with self._lock:
            if self._is_closed:
                raise self._closed_error()
            if self._is_dispatched(target):
                return
            try:
                self._dispatch_and_heal(self._log.visible)
            except (DiskFullError, TooManyFilesError) as e:
                if not self.is_stalled:  # logged once, not on every retry
                    text = "%s: messages wait in the log for room for their queue entries or keys: %s"
                    log.warning(text, self._root, e, extra=self._facts())
                self._log.conditions.dispatch_stalled = e.path
                raise
            except DiskError as e:
                self._log.refuse_all(e)
                if not self._table.is_in_memory:
                    self._continue_in_memory(e)
                raise
            if self.is_stalled:
                log.info("%s: there is room for queue entries and keys again", self._root, extra=self._facts())
            self._log.conditions.dispatch_stalled = None

    def _continue_in_memory(self, why: DiskError) -> None:
        """Stop writing queue files, and dispatch visible records into memory. The next open for writing dispatches them
        to disk. Raises DiskError if the log cannot be read."""
        text = "%s: queues are kept in memory from now on, because they cannot be written: %s"
        log.warning(text, self._root, why, extra=self._facts())
        self._table.continue_in_memory()
        if self._index is not None and self._index_failure is None:
            self._index_failure = why
        try:
            self._dispatch_up_to(self._log.visible)
        except DiskError as e:
            if e is not self._index_failure:
                raise

    def _is_dispatched(self, target: int) -> bool:
        return min(self.position, self.index_position) >= target

    def _closed_error(self) -> StoreClosedError:
        return StoreClosedError(f"{self._log.reader.folder.parent}: the store was closed; open it again")

    @property
    def _root(self) -> Path:
        return self._log.reader.folder.parent

    def _facts(self) -> dict[str, object]:
        """Structured fields for log messages."""
        lag = self._log.visible - min(self.position, self.index_position)
        return {"path": str(self._root), "physical_offset": self.position, "lag": lag}

    def _dispatch_and_heal(self, target: int) -> None:
        try:
            self._dispatch_up_to(target)
        except IndexFileGoneError as e:
            if self._index is None:
                raise
            self._forget_index(self._index, e)
            self._dispatch_up_to(target)

    def _dispatch_up_to(self, target: int) -> None:
        reader, index = self._log.reader, self._index
        failure: DiskError | None = self._index_failure

        def put_keys(keys: KeyEntries) -> None:
            nonlocal failure
            if index is not None and failure is None:
                try:
                    index.put(keys)
                except (DiskFullError, TooManyFilesError, IndexFileGoneError) as e:
                    failure = e
                except DiskError as e:
                    failure = self._index_failure = e

        if self.position < target:
            is_in_step = self.index_position == self.position
            count = DispatchCount(reader.min_offset)
            dispatch_range(
                *(reader, self._table, self._rules, self.position, target, count),
                mapped=True,
                put_keys=put_keys if index is not None and is_in_step else None,
            )
            self.unsynced_entries += count.entries
            for listener in self._listeners:
                listener(count.starts)
            if is_in_step and failure is None:
                self.index_position = target
            self.position = self._log.dispatched = target
            if not self._table.is_in_memory:
                self._progress.publish(DISPATCHED, target)
        if self.index_position < target and failure is None:
            for keys in keys_between(reader, self.index_position, target):
                put_keys(keys)
            if failure is None:
                self.index_position = target
        if failure is not None:
            raise failure

    def restart_index(self, index: KeyIndex) -> None:
        """Rebuild the index from the log if its files were deleted. Raises as `catch_up`."""
        with self._lock:
            try:
                index.check_files()  # another thread may have rebuilt it already
            except IndexFileGoneError as e:
                self._forget_index(index, e)
        self.catch_up()

    def _forget_index(self, index: KeyIndex, why: IndexFileGoneError) -> None:
        log.warning("%s: the key index is rebuilt from the log: %s", self._root, why, extra=self._facts())
        self.index_position = self._log.reader.min_offset  # queries by key now wait in `catch_up`
        index.clear()
        index.load()  # the program that deleted the files may have written a new one
        index.clear()

    def delete_topic(self, topic: str, note: DeletedTopicsFile) -> None:
        """Steps 1 and 2 of the deletion in engine/topics/topic_admin.py. Must not run concurrently with `sync_queues`,
        which may be syncing a file that is removed here.

        Raises DiskFullError and DiskError (nothing has happened); SyncFailedError, and any error after the note was
        written (the store is poisoned).
        """
        deleted, is_begun = self._rules.deleted, False

        def commit(end: int) -> None:
            nonlocal is_begun
            is_begun = True
            pending = [*deleted.pending, topic]
            note.write(deleted, deletedBelow=deleted.to_json()["deletedBelow"] | {topic: end}, pending=pending)
            deleted.pending = pending
            deleted.mark(topic, end)

        with self._lock:
            if self._is_closed:
                raise self._closed_error()
            try:
                self._log.restart_topic(topic, commit)
                self._table.drop_topic(topic)
            except BaseException as e:
                nothing_happened = isinstance(e, DiskError) and not isinstance(e, SyncFailedError)
                if topic in deleted.pending or (is_begun and not nothing_happened):
                    self._log.refuse_all(e)
                raise

    def close(self) -> None:
        """Wait for a running dispatch, then close queues and index. Idempotent."""
        with self._lock:
            self._is_closed = True
            self._table.close()
        if self._index is not None:
            self._index.close()

    def prepare_index_flush(self, index: KeyIndex) -> tuple[FlushRound, int, int]:
        """The writes that make the index durable, the physical offset below which it then has every key, and the number
        of its files."""
        with self._lock:
            return index.prepare_flush(), self.index_position, len(index.files)

    def index_full_timestamp_ms(self, index: KeyIndex) -> int:
        """The index timestamp for the checkpoint, read under the dispatch lock because puts change it."""
        with self._lock:
            return index.full_timestamp_ms

    def advance_queues(self, min_physical_offset: int) -> int:
        """Move the start of every queue past the entries of removed messages. Returns the sum of the starts."""
        starts = 0
        for _, queue in self._table.on_disk():
            with self._lock:  # the lock is taken for each queue: there may be many, and puts continue
                queue.set_min_offset(min_physical_offset)
                starts += queue.min_index
        return starts

    def entries_below(self, key: QueueKey, queue_offset: int, physical_offset: int) -> int:
        """How many entries of a queue, from this queue offset on, are of records below this physical offset."""
        with self._lock:
            queue = self._table.get(key)
            if queue is None:
                return 0
            return max(0, queue.first_at_or_after(physical_offset) - max(queue.min_index, queue_offset))

    def expire_queues(self) -> list[Path]:
        """Remove queue files whose entries all lie before the start of their queue. Raises DiskError."""
        removed: list[Path] = []
        for _, queue in self._table.on_disk():
            with self._lock:
                removed += queue.expire()
        return removed

    def index_count_from(self, index: KeyIndex, min_physical_offset: int) -> int:
        """The number of index files that `expire_index` would keep."""
        with self._lock:
            return len(index.files) - index.count_expired(min_physical_offset)

    def expire_index(self, index: KeyIndex, min_physical_offset: int) -> list[Path]:
        """Remove index files that only have keys of removed records. Raises DiskError."""
        with self._lock:
            return index.expire(min_physical_offset)

    def sync_queues(self) -> SyncedQueues:
        """Sync every queue file written so far. Raises SyncFailedError, and TooManyFilesError, which may be retried."""
        with self._lock:
            position = self.position
            self.unsynced_entries = 0
            unsynced = self._table.unsynced.take()
            queues = self._table.values()
            ends = sum(queue.end for queue in queues)
            starts = sum(queue.min_index for queue in queues)
        try:
            self._table.sync(unsynced)
        except TooManyFilesError:
            with self._lock:
                self._table.unsynced.take_back(unsynced)
            raise
        return SyncedQueues(position, len(queues), ends, starts)
