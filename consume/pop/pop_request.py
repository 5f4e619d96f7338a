"""The arguments of a receive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...index.filter.wanted import Wanted, message_filter
from ...store.arguments import check_group, check_topic, check_whole
from ...store.errors import InvalidArgumentError, WrongTypeError
from ...store.format.record import RETRY_TOPIC_PREFIX
from ..group.initial_offset import StartFrom, check_start
from .check_point import MAX_COUNT
from .popped import PopHandle

DEFAULT_INVISIBLE_MS = 60_000
DEFAULT_POP_COUNT = MAX_COUNT


@dataclass(frozen=True)
class PopRequest:
    """Checked."""

    group: str
    topic: str
    max_count: int
    invisible_ms: int
    wanted: Wanted
    start: StartFrom | int
    max_attempts: int
    is_ordered: bool
    attempt_id: str | None


def checked_request(
    group: str | int,
    topic: str,
    max_count: int,
    invisible_ms: int,
    wanted: Wanted,
    start: StartFrom | int | datetime,
    max_attempts: int,
    attempt_id: str | None,
    *,
    is_ordered: bool,
    longest_ms: int,
) -> PopRequest:
    """`longest_ms`: how far ahead a timer may be. Raises InvalidArgumentError."""
    group = check_group(group)
    check_topic(topic)
    if topic.startswith(RETRY_TOPIC_PREFIX):
        raise InvalidArgumentError("topic", topic, "the topic itself: its messages that come again are received there")
    message_filter(wanted)
    if attempt_id is not None:
        if not isinstance(attempt_id, str) or not attempt_id:
            raise WrongTypeError("attempt_id", attempt_id, "text, not empty, or None")
        if not is_ordered:
            raise InvalidArgumentError(
                "attempt_id", attempt_id, f"None: group {group!r} is not ordered (update_group can make it so)"
            )
    return PopRequest(
        group,
        topic,
        check_whole("max_count", max_count, 1, MAX_COUNT),
        checked_invisible_ms(invisible_ms, longest_ms),
        wanted,
        check_start(start),
        check_whole("max_attempts", max_attempts, 1, (1 << 31) - 1),
        is_ordered,
        attempt_id,
    )


def checked_invisible_ms(invisible_ms: int, longest_ms: int) -> int:
    """Raises InvalidArgumentError."""
    return check_whole("invisible_ms", invisible_ms, 1, longest_ms)


def checked_handles(handles: tuple[Any, ...]) -> list[PopHandle]:
    """Raises InvalidArgumentError for none, and for what is no handle."""
    if not handles:
        raise InvalidArgumentError("handles", handles, "at least one PopHandle")
    for handle in handles:
        checked_handle(handle)
    return list(handles)


def checked_handle(handle: Any) -> PopHandle:
    """Raises InvalidArgumentError."""
    if not isinstance(handle, PopHandle):
        raise WrongTypeError("handle", handle, "the flightlog.PopHandle of a message that `receive` returned")
    for name in ("group", "topic", "extra_info"):
        value = getattr(handle, name)
        if not isinstance(value, str) or not value:
            raise WrongTypeError(f"handle.{name}", value, "text, not empty")
    return handle
