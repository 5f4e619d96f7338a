"""Groups and queues that get more than their share."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ..store.message_queue import MessageQueue

WINDOW = 10_000
"""Sends that are looked at together."""
CANDIDATES = 16
HOT_GROUP_PART = 0.25
HOT_QUEUE_TIMES = 4.0
"""Its fair share."""

Item = TypeVar("Item")


class Heavy(Generic[Item]):
    """The items that are more than one in `CANDIDATES + 1` of all, in bounded memory, and at least how often they came
    (Misra and Gries)."""

    def __init__(self) -> None:
        self.counts: dict[Item, int] = {}

    def add(self, item: Item) -> None:
        if item in self.counts or len(self.counts) < CANDIDATES:
            self.counts[item] = self.counts.get(item, 0) + 1
        else:
            self.counts = {known: count - 1 for known, count in self.counts.items() if count > 1}


@dataclass(frozen=True)
class HotSpots:
    """What stood out among the last whole `WINDOW` sends."""

    groups: dict[str, float] = field(default_factory=dict)
    """Message group -> at least this part of the sends."""
    queues: dict[MessageQueue, float] = field(default_factory=dict)
    """Queue -> at least this part of the sends."""


class HotWatch:
    """Counts sends. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin()
        self.found = HotSpots()

    def _begin(self) -> None:
        self._count = 0
        self._groups: Heavy[str] = Heavy()
        self._queues: Heavy[MessageQueue] = Heavy()

    def note(self, queue: MessageQueue, group: str | None, queue_count: int) -> HotSpots | None:
        """One send to one of `queue_count` queues. Once a window, if something stood out: what."""
        with self._lock:
            self._count += 1
            self._queues.add(queue)
            if group is not None:
                self._groups.add(group)
            if self._count < WINDOW:
                return None
            fair = min(HOT_QUEUE_TIMES / queue_count, 1.0)
            self.found = HotSpots(
                _above(self._groups, HOT_GROUP_PART), _above(self._queues, fair) if queue_count > 1 else {}
            )
            self._begin()
        return self.found if self.found.groups or self.found.queues else None


def _above(heavy: Heavy[Item], part: float) -> dict[Item, float]:
    return {item: count / WINDOW for item, count in heavy.counts.items() if count >= part * WINDOW}
