"""Live dispatch: from what the log has made visible into the queues, on demand and by the flush service.

Invariants:
- `position` moves after the entries of everything below it are in their queues.
- Only the holder of the dispatch lock writes queues.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import NamedTuple

from ..index.consume_queue import ConsumeQueue, open_writable
from ..index.dispatch import DispatchCount, DispatchRules
from ..index.queue_table import QueueTable
from ..store.commit_log import CommitLog
from ..store.disk import Disk
from ..store.errors import DiskFullError, StoreClosedError
from ..store.progress import DISPATCHED, ProgressPage
from .dispatching import dispatch_range

log = logging.getLogger("flightlog.store")


class SyncedQueues(NamedTuple):
    """What a sync of all queues reached."""

    position: int
    """Physical offset below which every entry is now durable; the log itself need not be."""
    queue_count: int
    ends: int
    """The sum of the queues' ends."""
    starts: int
    """The sum of the queues' first queue offsets."""


class Dispatcher:
    """Brings the queues of an open store up to its log."""

    def __init__(
        self, disk: Disk, log: CommitLog, table: QueueTable, rules: DispatchRules, progress: ProgressPage, position: int
    ) -> None:
        self._disk, self._log, self._table, self._rules, self._progress = disk, log, table, rules, progress
        self._lock = threading.Lock()
        self.position = position
        """Physical offset below which every record is in its queue."""
        self.is_stalled = False
        """Whether the disk had no room for queue entries. Puts are refused then: they could not be read."""
        self._is_closed = False

    def catch_up(self) -> None:
        """Dispatch everything visible. A put that returned is in its queue afterwards.

        Raises DiskFullError and DiskError; the next call goes on from the same place.
        """
        if self.position >= self._log.visible:
            return
        with self._lock:
            if self._is_closed:
                raise StoreClosedError(f"{self._log.reader.folder.parent}: the store was closed; open it again")
            target = self._log.visible
            if self.position < target:
                count = DispatchCount()
                try:
                    dispatch_range(
                        self._log.reader, self._table, self._rules, self.position, target, count, mapped=True
                    )
                except DiskFullError as e:
                    if not self.is_stalled:  # once, however often it is tried again
                        log.warning("messages wait in the log for room for their queue entries: %s", e)
                    self.is_stalled = True
                    raise
                self.position = self._log.dispatched = target
                self.is_stalled = False
                self._progress.publish(DISPATCHED, target)

    def close(self) -> None:
        """Write no queue from now on; the dispatch that is under way is waited for."""
        with self._lock:
            self._is_closed = True

    def sync_queues(self) -> SyncedQueues:
        """Sync every queue file written so far. Raises SyncFailedError."""
        with self._lock:
            position = self.position
            dirty: set[Path] = set()
            count = ends = starts = 0
            for _, queue in self._table.on_disk():
                dirty |= queue.take_dirty()
                count += 1
                ends += queue.end
                starts += queue.min_index
        sync_files(self._disk, dirty)
        return SyncedQueues(position, count, ends, starts)


def sync_files(disk: Disk, paths: set[Path]) -> None:
    """Sync queue files and the folders that hold them. Raises SyncFailedError, or DiskError for one that is gone."""
    for path in paths:
        file = open_writable(disk, path)
        try:
            file.sync()
        finally:
            file.close()
    for folder in {path.parent for path in paths}:
        disk.sync_folder(folder)


def sync_table(disk: Disk, table: QueueTable) -> None:
    """Sync all that recovery wrote into queues."""
    dirty: set[Path] = set()
    for _, queue in table.on_disk():
        assert isinstance(queue, ConsumeQueue)
        dirty |= queue.take_dirty()
    sync_files(disk, dirty)
