"""Where a group begins in a queue that it has no offset in.

RocketMQ: `RebalancePushImpl#computePullFromWhereWithException`. A retry topic holds what the group itself has yet to
work off, so there LAST begins at the first message; and a time at the end, as RocketMQ has it.
"""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Protocol

from ...store.arguments import check_time_ms, is_whole
from ...store.errors import InvalidArgumentError, WrongTypeError
from ...store.format.record import RETRY_TOPIC_PREFIX

Bounds = tuple[int, int]
"""Bounds of a queue: the offset of its first message, and one past its last."""


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


def check_start(start: object) -> StartFrom | int:
    """Where to begin, a time as ms. Raises InvalidArgumentError for what is no such place: a name such as "last", too,
    which is easily mistyped."""
    if isinstance(start, StartFrom):
        return start
    expected = "StartFrom.FIRST, StartFrom.LAST or a store time in ms, 0 or more"
    if isinstance(start, datetime):
        return check_time_ms("start", start)
    if not is_whole(start):
        hint = f": StartFrom.{start.upper()} here" if isinstance(start, str) and start.lower() in _NAMES else ""
        raise WrongTypeError("start", start, expected + hint)
    found = check_time_ms("start", start)
    if found < 0:
        raise InvalidArgumentError("start", start, expected)
    return found


def start_offset(store: OffsetByTime, topic: str, queue_id: int, start: StartFrom | int, bounds: Bounds) -> int:
    """The queue offset to begin at; a start that is a number is a store time in ms."""
    is_retry = topic.startswith(RETRY_TOPIC_PREFIX)
    first, end = bounds
    if start is StartFrom.FIRST:
        return first
    if start is StartFrom.LAST:
        return first if is_retry else end
    return end if is_retry else store.offset_at(topic, queue_id, start)
