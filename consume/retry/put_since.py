"""The records of a topic with one queue that were put since a time, by something that they name.

Each is read once, and only from the time on that was asked for; the last COUNT of them are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from ...engine.message_store import MessageStore
from ...store.stored_message import StoredMessage

COUNT: Final = 65_536

K = TypeVar("K", bound=Hashable)


class PutSince(Generic[K]):
    """Not thread-safe."""

    def __init__(
        self, store: MessageStore, topic: str, name_of: Callable[[StoredMessage], K | None], *, is_growing: bool
    ) -> None:
        """`is_growing`: what is put from now on counts, too. Records with the name None are left out."""
        self._store, self._topic, self._name_of, self._is_growing = store, topic, name_of, is_growing
        self._since_ms: float = math.inf
        self._first = self._end = self._bound()
        """These queue offsets were read."""
        self._put_ms: dict[K, int] = {}
        """When each was put, in the order of the queue."""

    def has(self, name: K, since_ms: int) -> bool:
        """Whether one with this name was put at this time or later. Raises as `read`."""
        if since_ms < self._since_ms:
            first = max(self._store.offset_at(self._topic, 0, since_ms), self._end - COUNT)
            self._put_ms = self._read(first, self._first) | self._put_ms
            self._first, self._since_ms = min(first, self._first), since_ms
        if self._is_growing and (bound := self._bound()) != self._end:
            self._put_ms |= self._read(self._end if self._end < bound else 0, bound)  # else the topic was made anew
            self._end = bound
            for oldest in list(self._put_ms)[:-COUNT]:
                del self._put_ms[oldest]
        return self._put_ms.get(name, -1) >= since_ms

    def _bound(self) -> int:
        return self._store.queue_bounds(self._topic, 0)[1]

    def _read(self, first: int, end: int) -> dict[K, int]:
        found: dict[K, int] = {}
        if first < end:
            for message in self._store.read(self._topic, 0, first, on_corrupt="skip"):
                if message.queue_offset >= end:
                    break
                name = self._name_of(message)
                if name is not None:
                    found[name] = message.store_timestamp_ms
        return found
