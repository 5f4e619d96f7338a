"""A queue of messages that wait, as their scheduler reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...index.queue.queue_table import QueueTable
from ...index.queue.queue_unit import QueueUnit
from ...store.errors import CorruptQueueError, CorruptRecordError
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ...store.stored_message import StoredMessage
from ..read.entries import message_of, missing_file
from ..read.fetching import Fetcher
from ..read.reading import queue_bounds


class LevelQueue:
    """One queue, which may not be there yet."""

    def __init__(self, reader: LogReader, table: QueueTable, key: QueueKey, catch_up: Callable[[], None]) -> None:
        self._reader, self._table, self._key = reader, table, key
        self.catch_up = catch_up
        """Dispatches what can be read and is not in its queue yet."""

    def bounds(self) -> tuple[int, int]:
        """Queue offsets of the first message, and one past the last; (0, 0) without a queue."""
        return queue_bounds(self._table.get(self._key))

    def times(self, queue_offset: int, count: int) -> Sequence[int]:
        """What stands in the entries from `queue_offset` on where other queues have the hash of the tag; fewer than
        `count` at the end of a queue file. Raises CorruptQueueError if there is no entry."""
        queue = self._table.get(self._key)
        if queue is not None:
            units = queue.resolved(queue.units(queue_offset, count))
            if len(units):
                times: list[int] = units["tags_code"].tolist()
                return times
            queue.skip_removed()
        raise missing_file(self._reader, self._key, queue_offset, self.bounds()[1])

    def messages(self, queue_offset: int, count: int) -> list[StoredMessage | None]:
        """The messages of so many entries that `times` has told of; None for one that is damaged, or gone from the
        log. Raises DiskError."""
        queue = self._table.get(self._key)
        if queue is None:
            return []
        units = queue.units(queue_offset, count)
        offsets = np.arange(queue_offset, queue_offset + len(units), dtype=np.int64)
        fetcher = Fetcher(self._reader, self._key, queue)
        found: list[StoredMessage | None] = []
        while len(found) < len(units):
            some = fetcher.some(units, offsets, len(found))
            found += some or [self._one(QueueUnit(*units[len(found)].item()), queue_offset + len(found))]
        return found

    def _one(self, unit: QueueUnit, queue_offset: int) -> StoredMessage | None:
        try:
            return message_of(self._reader, self._key, queue_offset, unit)
        except (CorruptRecordError, CorruptQueueError):
            return None
