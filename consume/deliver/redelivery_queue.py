"""Messages that are handed out again, each not before its time."""

from __future__ import annotations

import heapq
import itertools

from ...store.message_queue import MessageQueue
from .received import ReceivedMessage


class RedeliveryQueue:
    """Pure: no clock, no thread; who shares one holds a lock."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, ReceivedMessage]] = []
        self._numbers = itertools.count()

    def add(self, due_s: float, message: ReceivedMessage) -> None:
        heapq.heappush(self._heap, (due_s, next(self._numbers), message))

    @property
    def next_due_s(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_s: float) -> list[ReceivedMessage]:
        """What is due, the longest due first; it is gone from here."""
        due = []
        while self._heap and self._heap[0][0] <= now_s:
            due.append(heapq.heappop(self._heap)[2])
        return due

    def forget(self, queue: MessageQueue) -> None:
        """Drop its messages: the queue has another owner."""
        if self._heap:
            self._heap = [each for each in self._heap if each[2].queue != queue]
            heapq.heapify(self._heap)
