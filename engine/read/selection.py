"""Which messages of a store are wanted, over many queues, in the order of the commit log.

A selection narrows before it reads: topics and a queue id to queues, store times and offsets to a range of each queue,
tags to queue entries, a key to what the key index names. What is left is checked message by message.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from ...index.filter.sql_filter import SqlFilter
from ...index.filter.wanted import message_filter, tags_or_filter
from ...store.format.light_queues import is_light, light_places_in
from ...store.queue_offsets import QueueKey
from ...store.stored_message import StoredMessage
from ...store.topic import is_system_topic
from .finding import Boundary
from .key_query import QueryResult
from .reading import OnCorrupt

Bounds = dict[QueueKey, tuple[int, int]]
"""Queue -> the first queue offset, and the one past the last."""
FIRST_BLOCK: Final = 64
"""How many messages of a queue are looked at first for its newest ones."""
ALL_MATCHES: Final = (1 << 31) - 1


class Selectable(Protocol):
    """A store or a view of one, as a selection reads it."""

    def queues(self) -> Bounds: ...

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = "lower") -> int: ...

    def read(
        self,
        topic: str,
        queue_id: int = 0,
        queue_offset: int | None = None,
        *,
        tags: str | None = None,
        filter: SqlFilter | None = None,
        decompress: bool = False,
        on_corrupt: OnCorrupt = "raise",
    ) -> Iterator[StoredMessage]: ...

    def query(
        self,
        topic: str,
        key: str,
        begin_ms: int = 0,
        end_ms: int | None = None,
        max_count: int = ALL_MATCHES,
        *,
        on_corrupt: OnCorrupt = "raise",
    ) -> QueryResult: ...


@dataclass(frozen=True, slots=True)
class Selection:
    """Messages for which everything holds that is given."""

    topics: tuple[str, ...] = ()
    """None given: all but RocketMQ's own. Light queues are read only where they are named."""
    queue_id: int | None = None
    tags: str | None = None
    """Such as `A || B`."""
    filter: SqlFilter | None = None
    key: str | None = None
    """One of its keys, or its uniq key."""
    begin_ms: int | None = None
    """The least store time, in ms since 1970."""
    end_ms: int | None = None
    """The store time that a message is before."""
    first_offset: int | None = None
    """The least queue offset."""
    end_offset: int | None = None
    """The queue offset that a message is below."""
    body: re.Pattern[bytes] | None = None
    """Is found somewhere in the body, decompressed."""
    include_system: bool = False
    """Also RocketMQ's own topics, where no topic is given."""

    def __post_init__(self) -> None:
        """Raises InvalidArgumentError for tags that name none, and for tags beside a filter."""
        message_filter(tags_or_filter(self.tags, self.filter))

    def bounds(self, store: Selectable) -> Bounds:
        """The ranges of queues that hold what is wanted; queues without any of it are not there. Raises as
        `offset_at`."""
        found: Bounds = {}
        for (topic, queue_id), (first, end) in store.queues().items():
            if not self._has_queue(topic, queue_id):
                continue
            first = max(first, self.first_offset or 0)
            end = end if self.end_offset is None else min(end, self.end_offset)
            if self.begin_ms is not None and first < end:
                first = max(first, store.offset_at(topic, queue_id, self.begin_ms))
            if self.end_ms is not None and first < end:
                end = min(end, store.offset_at(topic, queue_id, self.end_ms))
            if first < end:
                found[topic, queue_id] = first, end
        return found

    def _has_queue(self, topic: str, queue_id: int) -> bool:
        if self.queue_id is not None and queue_id != self.queue_id:
            return False
        if self.topics:
            return topic in self.topics
        return (self.include_system or not is_system_topic(topic)) and not is_light(topic)

    def messages(self, store: Selectable, *, on_corrupt: OnCorrupt = "raise") -> Iterator[StoredMessage]:
        """The messages in the order of the log, with their bodies decompressed. Raises as `read` and `query`."""
        if self.key is not None:
            return iter(self._with_key(store, self.key, on_corrupt))
        return self.within(store, self.bounds(store), on_corrupt=on_corrupt)

    def within(
        self, store: Selectable, bounds: Mapping[QueueKey, tuple[int, int]], *, on_corrupt: OnCorrupt = "raise"
    ) -> Iterator[StoredMessage]:
        """Those of these ranges of queues, in the order of the log."""
        return heapq.merge(*(self._of_queue(store, key, *bounds[key], on_corrupt) for key in bounds), key=_place)

    def newest(self, store: Selectable, count: int, *, on_corrupt: OnCorrupt = "raise") -> list[StoredMessage]:
        """The `count` last of `messages`. Reads each queue backwards, as far as it must."""
        if self.key is not None:
            return self._with_key(store, self.key, on_corrupt)[-count:]
        found: list[StoredMessage] = []
        for key, (first, end) in self.bounds(store).items():
            block = max(FIRST_BLOCK, count)
            start, of_queue = end, list[StoredMessage]()
            while start > first and len(of_queue) < count:
                start, stop = max(first, start - block), start
                of_queue = [*self._of_queue(store, key, start, stop, on_corrupt), *of_queue]
                block *= 2
            found += of_queue[-count:]
        return sorted(found, key=_place)[-count:]

    def _of_queue(
        self, store: Selectable, key: QueueKey, first: int, end: int, on_corrupt: OnCorrupt
    ) -> Iterator[StoredMessage]:
        found = store.read(*key, first, tags=self.tags, filter=self.filter, decompress=True, on_corrupt=on_corrupt)
        for message in found:
            if _queue_offset(message, key) >= end:
                return
            if self._matches(message):
                yield message

    def _with_key(self, store: Selectable, key: str, on_corrupt: OnCorrupt) -> list[StoredMessage]:
        """By the key index."""
        wanted, found = message_filter(tags_or_filter(self.tags, self.filter)), list[StoredMessage]()
        for topic in dict.fromkeys(topic for topic, queue_id in store.queues() if self._has_queue(topic, queue_id)):
            answer = store.query(topic, key, self.begin_ms or 0, max_count=ALL_MATCHES, on_corrupt=on_corrupt)
            found += (each.decompressed() for each in answer.messages if self._is_in_range(each))
        return sorted(
            (each for each in found if (wanted is None or wanted.matches(each)) and self._matches(each)), key=_place
        )

    def _is_in_range(self, message: StoredMessage) -> bool:
        return (
            (self.queue_id is None or message.queue_id == self.queue_id)
            and message.queue_offset >= (self.first_offset or 0)
            and (self.end_offset is None or message.queue_offset < self.end_offset)
        )

    def _matches(self, message: StoredMessage) -> bool:
        """What no queue and no index tells."""
        if self.begin_ms is not None and message.store_timestamp_ms < self.begin_ms:
            return False
        if self.end_ms is not None and message.store_timestamp_ms >= self.end_ms:
            return False
        if self.key is not None and self.key not in message.keys and self.key != message.uniq_key:
            return False
        return self.body is None or self.body.search(message.body) is not None


def _queue_offset(message: StoredMessage, key: QueueKey) -> int:
    """In the queue that it was read from: a message in a light queue has that of its own queue."""
    if not is_light(key[0]):
        return message.queue_offset
    return dict(light_places_in(message.properties)).get(key, 0)


def _place(message: StoredMessage) -> tuple[int, int]:
    return message.physical_offset, message.batch_index or 0
