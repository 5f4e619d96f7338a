"""Where a group goes on after a reset of its offsets; computed for a store or for a read-only view."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from ...store.arguments import check_time_ms, check_whole, is_whole
from ...store.errors import InvalidArgumentError, WrongTypeError
from ...store.queue_offsets import QueueKey
from .initial_offset import StartFrom

Target = StartFrom | datetime | int
"""A place in every queue; a number is a queue offset."""


class Queues(Protocol):
    """The queues of a store."""

    def queues(self) -> dict[QueueKey, tuple[int, int]]: ...

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int: ...


def checked_target(to: object) -> Target:
    """Raises InvalidArgumentError for what is no place to go on at."""
    expected = "a queue offset, a datetime with a time zone, 'first' or 'last'"
    if isinstance(to, datetime):
        check_time_ms("to", to)
        return to
    if is_whole(to):
        return check_whole("to", to)
    if isinstance(to, (str, StartFrom)):
        try:
            return StartFrom(to)
        except ValueError:
            raise InvalidArgumentError("to", to, expected) from None
    raise WrongTypeError("to", to, expected)


def reset_places(
    store: Queues, known: Mapping[int, int], topic: str, target: Target, queue_id: int | None = None
) -> dict[int, int]:
    """The offset to go on at in a queue of the topic; in each that has messages or a `known` offset, by queue id, if
    no `queue_id` is given."""
    if queue_id is not None:
        found = {(topic, queue_id): store.queue_bounds(topic, queue_id)}
    else:
        found = {key: bounds for key, bounds in store.queues().items() if key[0] == topic}
        for number in known:
            found.setdefault((topic, number), store.queue_bounds(topic, number))
    return {key[1]: _place(store, key, target, *found[key]) for key in sorted(found)}


def _place(store: Queues, key: QueueKey, target: Target, first: int, end: int) -> int:
    if target is StartFrom.FIRST:
        return first
    if target is StartFrom.LAST:
        return end
    if isinstance(target, datetime):
        return store.offset_at(*key, check_time_ms("to", target))
    assert isinstance(target, int)
    return min(max(target, first), end)
