"""Tag filters: `A || B`.

A filter checks twice. A queue entry holds only the Java hash of its message's tag, which excludes most messages without
a read of the log; the rest may be collisions (`Aa` and `BB` have the same hash), so the text is compared on the record.

In `SCHEDULE_TOPIC_XXXX` the entries hold times in place of hashes. There a get by tags finds nothing, in RocketMQ as
here; a read asks the records.

(RocketMQ's `FilterAPI`, `DefaultMessageFilter` and, for the second look, its consumers' `PullAPIWrapper`.)
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ...store.errors import InvalidArgumentError, WrongTypeError
from ...store.format.java_hash import java_hash
from ...store.stored_message import StoredMessage
from ..queue.queue_unit import HIGHEST_EXTENSION_ADDRESS, Units

ALL = "*"
SEPARATOR = "||"
LOW_32_BITS = 0xFFFFFFFF
SQL = re.compile(
    r"[<>=]\s*['\w.+-]|\s(?:IN\s*\(|BETWEEN\s.*\sAND\s|IS\s+(?:NOT\s+)?NULL\b|(?:CONTAINS|STARTSWITH|ENDSWITH|LIKE)\s*')",
    re.IGNORECASE,
)
"""A comparison of RocketMQ's SQL filters: taken for a tag it would leave out every message. Only looked for in what has
a space inside: `a=b` is a tag."""
JAVA_WHITESPACE = "".join(map(chr, range(ord(" ") + 1)))
"""Characters that Java's `String.trim` removes."""


class TagFilter:
    """The messages whose tag is one of `tags`."""

    def __init__(self, tags: frozenset[str], *, by_code: bool) -> None:
        self.tags = tags
        self._codes = np.array([java_hash(tag) & LOW_32_BITS for tag in tags], np.int64) if by_code else None

    def may_match(self, units: Units) -> NDArray[np.bool_]:
        """Which entries can be of a message that matches. Never-written entries and filler are of none."""
        if self._codes is None:
            return np.ones(len(units), np.bool_)
        codes = units["tags_code"].astype(np.int64)
        mask: NDArray[np.bool_] = np.isin(codes & LOW_32_BITS, self._codes) | (codes <= HIGHEST_EXTENSION_ADDRESS)
        return mask

    def has_hash(self, units: Units) -> NDArray[np.bool_]:
        """Which entries hold the hash of their message's tag, and not something else."""
        if self._codes is None:
            return np.zeros(len(units), np.bool_)
        mask: NDArray[np.bool_] = units["tags_code"] > HIGHEST_EXTENSION_ADDRESS
        return mask

    def matches(self, message: StoredMessage) -> bool:
        """Whether the message itself matches."""
        return message.tags in self.tags


def tag_filter(tags: str | None, *, by_code: bool = True) -> TagFilter | None:
    """The filter that `tags` asks for; None where every message matches: no text, or `*`.

    Without `by_code` records alone are asked, whatever the entries hold. Raises UsageError for a text that names no
    tag.
    """
    if tags is None or tags == "" or tags == ALL:
        return None
    if not isinstance(tags, str):
        raise WrongTypeError("tags", tags, "text such as 'A || B', or None for all")
    names = frozenset(filter(None, (tag.strip(JAVA_WHITESPACE) for tag in tags.split(SEPARATOR))))
    if not names:
        raise InvalidArgumentError(
            "tags", tags, f"at least one tag, separated by {SEPARATOR!r}, or {ALL!r} for all: it names no tag"
        )
    if any(" " in name and SQL.search(name) for name in names):
        raise InvalidArgumentError(
            "tags", tags, "tags such as 'A || B': hand a SQL filter over as filter=flightlog.sql(...)"
        )
    return TagFilter(names, by_code=by_code)
