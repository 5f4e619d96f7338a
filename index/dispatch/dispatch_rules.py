"""Rules by which a dispatch makes entries, and the counts that it returns."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ...store.format import property_names as props
from ...store.format.properties import decode_properties
from ...store.message import tags_code
from ...store.queue_offsets import QueueKey
from ...store.state.deleted_topics import DeletedTopics

DeliveryTime = Callable[[int, int], int]
"""(delay level, store time in ms) -> delivery time in ms."""

TAGS_MARK = f"{props.TAGS}{props.NAME_END}".encode()
DELAY_VALUES = re.compile(f"(?:^|{props.VALUE_END}){props.DELAY}{props.NAME_END}([^{props.VALUE_END}]+)".encode())
"""As `decode_properties` reads them: of two the later counts, an empty one is none. Every parked message has one, and
what waits for its dispatch is late by that: no mapping is made of all its properties."""
MAX_LEVEL_DIGITS = 10
"""Longest text that RocketMQ takes for a number; Python stops at 4,300 digits."""


@dataclass
class DispatchRules:
    """Rules for the third field of an entry, the tags code."""

    schedule_topic: str
    delivery_time_ms: DeliveryTime
    deleted: DeletedTopics = field(default_factory=DeletedTopics)
    """Topics whose records get no entry; light queues keep theirs, as in RocketMQ."""

    def tags_code(self, topic: str, properties_raw: bytes, store_timestamp_ms: int) -> int:
        """The hash of the tag; in the topic of parked messages the delivery time (ms)."""
        if topic == self.schedule_topic and (levels := DELAY_VALUES.findall(properties_raw)):
            level = levels[-1]
            if level.isdigit() and len(level) <= MAX_LEVEL_DIGITS and int(level) > 0:
                return self.delivery_time_ms(int(level), store_timestamp_ms)
        if TAGS_MARK not in properties_raw:
            return 0
        return tags_code(decode_properties(properties_raw).get(props.TAGS))


@dataclass
class DispatchCount:
    """Counts of a dispatch."""

    log_start: int = 0
    """Physical offset where the log begins: a missing entry whose record still exists is behind it."""
    entries: int = 0
    """Entries that were missing or wrong."""
    first_put: int | None = None
    """Physical offset of the first record whose entry was missing or wrong; None if none was."""
    starts: dict[QueueKey, int] = field(default_factory=dict)
    """The lowest queue offset seen, by queue."""
    ends: dict[QueueKey, int] = field(default_factory=dict)
    """One past the last queue offset seen, by queue."""
    gaps: dict[QueueKey, int] = field(default_factory=dict)
    """Queues whose first record had a later queue offset than their end, with that end."""
    impossible: list[tuple[int, int]] = field(default_factory=list)
    """Physical offset and queue offset of records that cannot have that queue offset; they get no entry."""
