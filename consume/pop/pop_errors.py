"""Why an acknowledgement of a popped message is refused."""

from __future__ import annotations

from collections.abc import Sequence

from ...store.errors import UsageError


class ExpiredHandleError(UsageError):
    """The invisible time of a popped message is over: it comes again, or went to another member already.

    `handles` are those that expired; the others of the call were acknowledged. Nothing was written for these, unless
    the time ended while their record was written; their messages come again all the same.
    """

    def __init__(self, handles: Sequence[object], expired_ms: int, now_ms: int) -> None:
        """`expired_ms`: when the first of them expired."""
        others = f" (and {len(handles) - 1} more)" if len(handles) > 1 else ""
        super().__init__(
            f"handle {handles[0]!s}{others}: found expired at {expired_ms}, {now_ms - expired_ms} ms ago; expected a "
            "call before that. The message is delivered again: receive with a longer invisible_ms, or call "
            "change_invisible while you work on it"
        )
        self.handles: tuple[object, ...] = tuple(handles)
        self.expired_ms, self.now_ms = expired_ms, now_ms
