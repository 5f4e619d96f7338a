"""Bounds of a query: messages outside of them need not be read.

Bounds come from filters that Spark pushes (plan/filters.py) and from options (tags, and times of everything), and are
merged with `&`. Spark evaluates every filter again, so a filter leaves out only what surely does not match. Options are
evaluated only here: `Bounds.mask` is exact about tags.

The names are those of the columns. The messages of an inner batch have their own queue offsets, tags and keys;
`Bounds.may_hold` decides about the batch as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...engine.columns.gathering import gather
from ...engine.columns.property_columns import PropertyColumns
from ...store.format import property_names as props
from ...store.format.frame import Rows
from ...store.format.sys_flag import INNER_BATCH

Mask = NDArray[np.bool_]

INTERNAL_TOPICS = (
    b"SCHEDULE_TOPIC_XXXX",  # messages that wait for a delay level
    b"TRANS_CHECK_MAX_TIME_TOPIC",  # transactions that were checked too often
    b"TBW102",  # the template of topics that are made on demand
    b"SELF_TEST_TOPIC",
    b"OFFSET_MOVED_EVENT",
)
INTERNAL_PREFIXES = (b"RMQ_SYS_", b"rmq_sys_")
"""Half messages and their ends, traces, timers, revived pop messages, and what later versions add."""

REPLACEMENT = "\ufffd"
"""Replaces bytes that are not UTF-8 in a column, so the bytes in the log are unknown."""

LEAST = -(1 << 63)
GREATEST = (1 << 63) - 1
"""Least and greatest value of a column of whole numbers."""


def is_internal(topic: bytes) -> bool:
    """Whether a broker keeps this topic for itself."""
    return topic in INTERNAL_TOPICS or topic.startswith(INTERNAL_PREFIXES)


@dataclass(frozen=True, slots=True)
class Span:
    """Whole numbers from `start` to below `stop`; by default all that a column can hold."""

    start: int = LEAST
    stop: int = GREATEST + 1

    def __and__(self, other: Span) -> Span:
        return Span(max(self.start, other.start), min(self.stop, other.stop))

    def __contains__(self, number: int) -> bool:
        return self.start <= number < self.stop

    @property
    def is_everything(self) -> bool:
        return self.start <= LEAST and self.stop > GREATEST

    @property
    def is_empty(self) -> bool:
        return self.start >= self.stop

    def meets(self, start: int, stop: int) -> bool:
        """Whether it contains any number in [start, stop)."""
        return max(self.start, start) < min(self.stop, stop)

    def mask(self, numbers: NDArray[Any]) -> Mask:
        """Which of the numbers it contains."""
        found = np.ones(len(numbers), np.bool_)
        if self.is_empty:
            return ~found
        if self.start > LEAST:
            found &= numbers >= self.start
        if self.stop <= GREATEST:
            found &= numbers < self.stop
        return found


EVERYTHING = Span()

Names = frozenset[str] | None
"""Some of all texts; None: all of them."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Prefixes, all of which a text must have."""

    texts: frozenset[str] = frozenset()

    def __and__(self, other: Starts) -> Starts:
        return Starts(self.texts | other.texts)

    def take(self, text: str) -> bool:
        """Whether a text has all of these prefixes."""
        return all(map(text.startswith, self.texts))

    @property
    def is_empty(self) -> bool:
        """Whether no text can have all of these prefixes."""
        return not self.take(max(self.texts, key=len, default=""))


ANY_START = Starts()


@dataclass(frozen=True)
class Bounds:
    """See the module docstring. Without arguments: no bounds."""

    stores: Names = None
    """Names of stores to read. A record does not contain the name of its store."""
    topics: Names = None
    topic_starts: Starts = ANY_START
    queue_ids: Span = EVERYTHING
    queue_offsets: Span = EVERYTHING
    physical_offsets: Span = EVERYTHING
    """Offsets of the first bytes of records."""
    store_times_ms: Span = EVERYTHING
    tags: Names = None
    tag_starts: Starts = ANY_START
    keys: Names = None
    """First index keys, as the column `key` has them."""
    uniq_keys: Names = None
    uniq_key_starts: Starts = ANY_START

    def __and__(self, other: Bounds) -> Bounds:
        """The intersection of both."""
        both = {field.name: _both(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)}
        return Bounds(**both)

    @cached_property
    def is_everything(self) -> bool:
        """Whether every message of the selected stores is within the bounds."""
        return replace(self, stores=None) == NO_BOUNDS

    @property
    def says_only_places(self) -> bool:
        """Whether only stores, queues and offsets are bounded, which queue entries contain."""
        places = Bounds(
            *(self.stores, self.topics, self.topic_starts, self.queue_ids, self.queue_offsets, self.physical_offsets)
        )
        return self == places

    @property
    def says_topics(self) -> bool:
        """Whether only some topics are wanted."""
        return self.topics is not None or self.topic_starts != ANY_START

    def takes_topic(self, topic: str) -> bool:
        """Whether messages of this topic are wanted."""
        return (self.topics is None or topic in self.topics) and self.topic_starts.take(topic)

    @property
    def is_nothing(self) -> bool:
        """Whether no message can be within the bounds."""
        return any(
            value.is_empty if isinstance(value, Span | Starts) else value is not None and not value
            for value in (getattr(self, field.name) for field in fields(self))
        )

    @property
    def asks_for_properties(self) -> bool:
        """Whether the properties of messages must be read."""
        some = self.tags, self.keys, self.uniq_keys
        return any(names is not None for names in some) or self.tag_starts & self.uniq_key_starts != ANY_START

    def may_hold(self, piece: bytes | memoryview, rows: Rows) -> Mask:
        """Which records can be, or hold, a message within these bounds. Exact but for inner batches."""
        is_batch = rows["sys_flag"] & INNER_BATCH != 0
        if not is_batch.any() or not (self.asks_for_properties or not self.queue_offsets.is_everything):
            return self.mask(piece, rows)
        found = self._of_record(piece, rows)
        alone = np.flatnonzero(found & ~is_batch)
        found[alone] = self._of_message(piece, rows[alone])
        return found

    def mask(self, piece: bytes | memoryview, rows: Rows) -> Mask:
        """Which messages are within these bounds. An inner batch counts as one message."""
        found = self._of_record(piece, rows)
        if self.asks_for_properties or not self.queue_offsets.is_everything:
            left = np.flatnonzero(found)
            found[left] = self._of_message(piece, rows[left])
        return found

    def _of_record(self, piece: bytes | memoryview, rows: Rows) -> Mask:
        """By the fields that all messages of a record share."""
        found = self.physical_offsets.mask(rows["physical_offset"])
        found &= self.store_times_ms.mask(rows["store_timestamp_ms"])
        found &= self.queue_ids.mask(rows["queue_id"])
        if self.says_topics:
            left = np.flatnonzero(found)
            found[left] = self._of_topics(piece, rows[left])
        return found

    def _of_topics(self, piece: bytes | memoryview, rows: Rows) -> Mask:
        data = np.frombuffer(piece, np.uint8)
        starts, sizes = rows["topic_position"], rows["topic_size"]

        def alike(places: NDArray[np.intp], text: bytes) -> NDArray[np.intp]:
            # From the last byte: names in one store differ there more often than at their beginning.
            for at in range(len(text) - 1, -1, -1):
                places = places[data[starts[places] + at] == text[at]]
            return places

        found = np.full(len(rows), self.topics is None)
        for topic in self._raw_topics:
            found[alike(np.flatnonzero(sizes == len(topic)), topic)] = True
        for text in map(str.encode, self.topic_starts.texts):
            begins = np.zeros(len(rows), np.bool_)
            begins[alike(np.flatnonzero(sizes >= len(text)), text)] = True
            found &= begins
        return found

    @cached_property
    def _raw_topics(self) -> list[bytes]:
        return [topic.encode() for topic in sorted(self.topics or ())]

    def _of_message(self, piece: bytes | memoryview, rows: Rows) -> Mask:
        found = self.queue_offsets.mask(rows["queue_offset"])
        if self.asks_for_properties:
            left = np.flatnonzero(found)
            positions, sizes = rows["properties_position"][left], rows["properties_size"][left]
            properties = PropertyColumns(gather(piece, positions, sizes))
            if self.tags is not None or self.tag_starts != ANY_START:
                found[left] &= _are_among(properties.value(props.TAGS), self.tags, self.tag_starts)
            if self.keys is not None:
                found[left] &= _are_among(properties.first_key().cast(pa.string()), self.keys, ANY_START)
            if self.uniq_keys is not None or self.uniq_key_starts != ANY_START:
                found[left] &= _are_among(properties.value(props.UNIQ_KEY), self.uniq_keys, self.uniq_key_starts)
        return found


NO_BOUNDS = Bounds()


def _are_among(texts: Any, names: Names, starts: Starts) -> Mask:
    found: Mask = np.ones(len(texts), np.bool_)
    if names is not None:
        found &= pc.is_in(texts, value_set=pa.array(sorted(names), pa.string())).to_numpy(zero_copy_only=False)
    for text in starts.texts:
        found &= pc.starts_with(texts, text).fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _both(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return one & other
