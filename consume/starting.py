"""Where a group begins in a queue that it has no offset in.

RocketMQ: `RebalancePushImpl#computePullFromWhereWithException`. A retry topic holds what the group itself has yet to
work off, so there LAST begins at the first message; and a time at the end, as RocketMQ has it.
"""

from __future__ import annotations

import enum
from typing import Protocol

from ..store.record import RETRY_TOPIC_PREFIX

Bounds = tuple[int, int]
"""Of a queue: the offset of its first message, one past its last."""


class StartFrom(enum.Enum):
    """RocketMQ's `ConsumeFromWhere`."""

    LAST = "last"
    """With what comes from now on."""
    FIRST = "first"
    """With the first message that is there."""


class OffsetByTime(Protocol):
    """Where messages of a time begin."""

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int: ...


def start_offset(store: OffsetByTime, topic: str, queue_id: int, start: StartFrom | int, bounds: Bounds) -> int:
    """The queue offset to begin at; a start that is a number is a store time in ms."""
    is_retry = topic.startswith(RETRY_TOPIC_PREFIX)
    first, end = bounds
    if start is StartFrom.FIRST:
        return first
    if start is StartFrom.LAST:
        return first if is_retry else end
    return end if is_retry else store.offset_at(topic, queue_id, start)
