"""What `subscribe` and `Consumer` take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..index.filter.wanted import Wanted, message_filter, tags_or_filter
from ..store.arguments import check_callable, check_group, check_text, check_type, check_whole
from ..store.errors import InvalidArgumentError, UsageError, WrongTypeError
from .deliver.process_queue import FlowLimits


def checked_subscription(
    topics: Any, group: Any, tags: Any, filter: Any, member: Any, strategy: Any, limits: Any, on_change: Any
) -> tuple[dict[str, Wanted], str]:
    """The tags or the filter of each topic, and the group; raises InvalidArgumentError for what no subscription
    takes."""
    group = check_group(group)
    both = tags_or_filter(tags, filter)
    if isinstance(topics, str):
        topics = {topics: both}
    elif not isinstance(topics, Mapping):
        raise WrongTypeError("topics", topics, "a topic as text, or a mapping of topics to tags, as in {'orders': '*'}")
    elif filter is not None:
        expected = "None beside several topics: each has its own, as in {'orders': flightlog.sql(...), 'bills': '*'}"
        raise InvalidArgumentError("filter", filter, expected)
    if not topics:
        raise InvalidArgumentError("topics", topics, "at least one topic")
    for topic, wanted in topics.items():
        check_text("topics", topic, "topics as text")
        message_filter(wanted)
    message_filter(both)
    if member is not None:
        check_text("member", member)
    if strategy is not None and not callable(getattr(strategy, "allocate", None)):
        raise WrongTypeError("strategy", strategy, "an AllocationStrategy, or None")
    if limits is not None:
        check_type("limits", limits, FlowLimits, "FlowLimits, or None")
    if on_change is not None:
        check_callable("on_change", on_change, "a function that takes a Change, or None")
    return dict(topics), group


def check_attempts(max_attempts: Any, on_dead_letter: Any, *, is_broadcasting: bool) -> None:
    """Raises InvalidArgumentError; UsageError where a group broadcasts, which has neither retries nor dead letters."""
    if max_attempts is not None:
        check_whole("max_attempts", max_attempts, 1)
    if on_dead_letter is not None:
        check_callable("on_dead_letter", on_dead_letter, "a function that takes a ReceivedMessage, or None")
    if is_broadcasting and (max_attempts is not None or on_dead_letter is not None):
        raise UsageError(
            "broadcast_folder: expected neither max_attempts nor on_dead_letter, a group that broadcasts "
            "has no dead letters"
        )
