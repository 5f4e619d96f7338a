"""Many messages of a queue at once: the way of nearly every message that is read.

The kernel takes the entries in one go, up to the first that is odd in any way. Such a one goes the way of
`entries.message_of`, alone, and what that says of it is what counts.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...index.queue.batch_queue import BatchQueue
from ...index.queue.queue_table import Queue
from ...index.queue.queue_unit import Units
from ...store.format.light_queues import is_light
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ...store.stored_message import StoredMessage

FETCH_COUNT: Final = 512
FETCH_SIZE: Final = 1 << 20
"""Entries, and bytes of records, that are fetched at once at most: bounds the memory, and what is done in vain."""


READ_AHEAD_SIZE: Final = 8 << 20
"""Bytes of the log that are fetched from the disk ahead of an iterator."""
SPARSE: Final = 4
"""Where a queue's records are less than one part in so many of what lies between them, most of what is read ahead would
be other queues'."""


class ReadAhead:
    """Has the log fetched from the disk ahead of one who reads a queue through: a reader waits for the memory then."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._ahead_to = 0
        """Physical offset up to which the log is being fetched."""
        self._look_at = 0
        """Physical offset from which on to look again."""

    def look(self, units: Units) -> None:
        """These entries are read now, those behind them next."""
        stop = int(units["physical_offset"][-1]) + int(units["size"][-1])
        if stop <= self._look_at <= stop + READ_AHEAD_SIZE:
            return
        # Seldom: numpy releases the GIL over this many entries, and a reader among many waits long for it.
        self._look_at = stop + READ_AHEAD_SIZE // 2
        first, size = int(units["physical_offset"][0]), int(units["size"].astype(np.int64).sum())
        if 0 <= first < stop < first + SPARSE * size:
            start = max(stop, min(self._ahead_to, stop + READ_AHEAD_SIZE))
            self._ahead_to = stop + READ_AHEAD_SIZE
            self._reader.will_read(start, self._ahead_to)


class Fetcher:
    """Reads messages of one queue, in order."""

    def __init__(self, reader: LogReader, key: QueueKey, queue: Queue) -> None:
        self._reader, self._queue_id = reader, key[1]
        self._topic_raw = key[0].encode("utf-8", "surrogatepass")
        # Their entries stand for parts of a record, and for records of other queues.
        self._is_odd = isinstance(queue, BatchQueue) or is_light(key[0])
        self._ahead = FETCH_COUNT

    def some(
        self, units: Units, queue_offsets: NDArray[np.int64], at: int, limit: int = FETCH_COUNT
    ) -> list[StoredMessage]:
        """The messages of the entries from number `at` on, `limit` at most; empty if that one must be read alone."""
        if self._is_odd:
            return []
        stop = at + min(self._ahead, limit)
        found = self._reader.messages(
            *(units[at:stop].tobytes(), queue_offsets[at:stop], self._queue_id, self._topic_raw, FETCH_SIZE)
        )
        # Where one is odd, the next ones may be: none is to be looked at many times.
        self._ahead = min(4 * self._ahead, FETCH_COUNT) if found else 1
        return found
