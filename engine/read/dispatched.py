"""Reads of what is in the queues already.

A read of a store that is open for writing dispatches what was put since, so that it finds every put that has returned.
A pop puts records of its own between its reads: to dispatch those each time took it half of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...index.queue.queue_table import QueueTable
from ...store.queue_offsets import QueueKey
from .reading import QueueReader

WAITING_SIZE: Final = 64 << 10
"""How many bytes of records may wait for dispatch. A message that was put to another queue meanwhile is found once more
wait, or after the next round of the flush service."""


class Dispatched:
    """Thread-safe."""

    def __init__(self, reader: QueueReader, table: QueueTable, waiting_size: Callable[[], int]) -> None:
        """`waiting_size`: how many bytes of records that may be read are not dispatched yet."""
        self.get = reader.get
        self._table, self._waiting_size = table, waiting_size

    def holds(self, queue: QueueKey, start: int, count: int) -> bool:
        """Whether the queue has `count` messages from `start` on, and at most WAITING_SIZE bytes wait for dispatch: a
        receive of that many needs none."""
        return self.end_offset(queue) - start >= count and self._waiting_size() <= WAITING_SIZE

    def end_offset(self, queue: QueueKey) -> int:
        """One past the last message that is in the queue; 0 without a queue."""
        found = self._table.get(queue)
        return 0 if found is None else found.end
