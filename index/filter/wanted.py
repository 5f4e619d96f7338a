"""Filter of a read: tags, or a SQL92 filter."""

from __future__ import annotations

from typing import Protocol

from numpy import bool_
from numpy.typing import NDArray

from ...store.errors import InvalidArgumentError, WrongTypeError
from ...store.stored_message import StoredMessage
from ..queue.queue_unit import Units
from .sql_filter import SqlFilter
from .tag_filter import ALL, tag_filter

Wanted = str | SqlFilter | None
"""Tags, or a filter; None, an empty text and `*` are everything."""


class MessageFilter(Protocol):
    """Looks twice: at queue entries, and at the messages of those that are left."""

    def may_match(self, units: Units) -> NDArray[bool_]:
        """Which entries can be of a message that matches."""

    def has_hash(self, units: Units) -> NDArray[bool_]:
        """Which entries answer for their message."""

    def matches(self, message: StoredMessage) -> bool:
        """Whether the message itself matches."""


def message_filter(wanted: Wanted, *, by_code: bool = True) -> MessageFilter | None:
    """None where every message matches. `by_code` as in `tag_filter`, which says what it raises."""
    return wanted if isinstance(wanted, SqlFilter) else tag_filter(wanted, by_code=by_code)


def tags_or_filter(tags: str | None, filter: SqlFilter | None) -> Wanted:
    """Which of the two a call gives. Raises InvalidArgumentError for both: RocketMQ's consumers have one."""
    if isinstance(tags, SqlFilter):
        raise WrongTypeError("tags", tags, "text such as 'A || B', or None for all: hand this over as filter=")
    if filter is None:
        return tags
    if not isinstance(filter, SqlFilter):
        raise WrongTypeError("filter", filter, "what flightlog.sql(...) returns, or None")
    if tags not in (None, "", ALL):
        raise InvalidArgumentError("filter", filter, "one of tags and filter: TAGS is a property for a filter, too")
    return filter
