"""Where a group begins in a queue that it has no offset in.

RocketMQ: `RebalancePushImpl#computePullFromWhereWithException`. A retry topic holds what the group itself has yet to
work off, so there LAST begins at the first message; and a time at the end, as RocketMQ has it.
"""

from __future__ import annotations

import enum
from typing import Protocol

from ..store.errors import UsageError
from ..store.record import RETRY_TOPIC_PREFIX

Bounds = tuple[int, int]
"""Of a queue: the offset of its first message, one past its last."""


class StartFrom(enum.Enum):
    """RocketMQ's `ConsumeFromWhere`."""

    LAST = "last"
    """With what comes from now on."""
    FIRST = "first"
    """With the first message that is there."""


_NAMES = tuple(each.value for each in StartFrom)


class OffsetByTime(Protocol):
    """Where messages of a time begin."""

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int: ...


def check_start(start: object) -> None:
    """Raises UsageError for what is no place to begin at: a name such as "last", too, which is easily mistyped."""
    if isinstance(start, StartFrom) or (isinstance(start, int) and not isinstance(start, bool) and start >= 0):
        return
    raise UsageError(
        f"start={start!r}: expected StartFrom.FIRST, StartFrom.LAST or a store time in ms, 0 or more"
        + (f": StartFrom.{start.upper()} here" if isinstance(start, str) and start.lower() in _NAMES else "")
    )


def start_offset(store: OffsetByTime, topic: str, queue_id: int, start: StartFrom | int, bounds: Bounds) -> int:
    """The queue offset to begin at; a start that is a number is a store time in ms."""
    is_retry = topic.startswith(RETRY_TOPIC_PREFIX)
    first, end = bounds
    if start is StartFrom.FIRST:
        return first
    if start is StartFrom.LAST:
        return first if is_retry else end
    return end if is_retry else store.offset_at(topic, queue_id, start)
