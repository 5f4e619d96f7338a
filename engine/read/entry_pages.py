"""The entries of one queue from an offset on, a page at a time, past what was removed or is damaged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...index.queue.batch_queue import BatchQueue
from ...index.queue.memory_queue import MemoryQueue
from ...index.queue.queue_table import Queue, QueueTable
from ...index.queue.queue_unit import Units, valid_mask
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from .entries import missing_file


class EntryPages:
    """Pages of entries of one queue. `index` is the queue offset of the next one."""

    def __init__(
        self,
        reader: LogReader,
        key: QueueKey,
        queue: Queue,
        queue_offset: int | None,
        *,
        was_deleted: Callable[[str], bool],
        skip: Callable[[int], None] | None,
    ) -> None:
        """From `queue_offset` on (None: the first). `skip` is called with how many entries were left out because their
        file is missing or they are damaged; None: raise."""
        self._reader, self.key, self.queue = reader, key, queue
        self._was_deleted, self._skip = was_deleted, skip
        self.index = queue.min_index if queue_offset is None else max(queue_offset, queue.min_index)

    @property
    def is_at_end(self) -> bool:
        return self.index >= self.queue.end

    def follow(self, table: QueueTable) -> bool:
        """Continue in the queue that took this one's place: the disk has failed since. False: the queue is gone, as its
        topic was deleted."""
        now = table.get(self.key)
        if isinstance(now, MemoryQueue) and now.is_over(self.queue):
            self.queue = now
        return now is self.queue

    def next(self, count: int) -> tuple[Units, NDArray[np.int64]] | None:
        """At most `count` entries and their queue offsets; None at the end, or if the topic was deleted meanwhile.
        Raises CorruptQueueError if the file of the next entry is missing."""
        queue = self.queue
        while not self.is_at_end:
            units = queue.units(self.index, min(count, queue.end - self.index))
            if not len(units):
                if self.is_at_end:
                    break  # its topic was deleted meanwhile
                queue.skip_removed()
                if queue.min_index > self.index:
                    self.index = queue.min_index
                    continue
                if self._was_deleted(self.key[0]):
                    break
                if self._skip is None:
                    raise missing_file(self._reader, self.key, self.index, queue.end)
                self._skip_to(min(queue.next_file_index(self.index), queue.end), self._skip)
                continue
            if self._skip is not None and isinstance(queue, BatchQueue) and not valid_mask(units).any():
                # Damage can cover more entries than can be counted one by one.
                self._skip_to(queue.next_listed(self.index), self._skip)
                continue
            first, self.index = self.index, self.index + len(units)
            return units, np.arange(first, self.index, dtype=np.int64)
        return None

    def _skip_to(self, index: int, skip: Callable[[int], None]) -> None:
        skip(index - self.index)
        self.index = index
