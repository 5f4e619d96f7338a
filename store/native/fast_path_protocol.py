"""What a fast path is: an ordinary put in one call. The kernel's type `FastPath` and the reference's do the same.

A put is ordinary, and so the fast path's, if

    the message     is a `Message` with nothing but plain values: bytes, text, whole numbers in range, one key, a tuple
                    or a list of them, a dict of texts, a pair of an IP address without a scope and a port; not to be
                    compressed or delayed, of no transaction, and one that waits
    the properties  have no name with a meaning to a put, except WAIT=true, which Java's clients always write
    the topic       is known to the fast path (`register_topic`), and has this queue
    the record      fits below the limit that the commit log has set (`open`)
    nothing         disables it: the dict of conditions, which the fast path looks at and never changes for long, is
                    empty

Everything else is answered with None, has changed nothing, and takes the slow path: through prepare() of record.py and
CommitLog.append(), which write the same bytes, and raise where something is wrong.

Invariants:
- The fast path and the slow path never append at the same time: the slow path notes itself among the conditions first,
  and has the offsets handed over (`write_back_offsets`).
- In the kernel the GIL makes a put one step: nobody sees half of one, no interrupt comes in between. The reference
  holds the append lock, and while it writes, its intent stands among the conditions: what an interrupt leaves there
  keeps puts off the fast path until the slow path has finished or undone it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Buffer


M = TypeVar("M", contravariant=True)
R = TypeVar("R")
"""A Message and a PutResult: their modules need this one."""

INTENT = "intent"
"""Under this name the reference notes an intent among the conditions while it writes."""
Intent = tuple[int, int, dict[tuple[str, int], int]]
"""Start and stop of the bytes being written, and the queues that advance, with their next offsets."""


class FastPathProtocol(Protocol[M, R]):
    """Made by the commit log, at each opening. All arguments are positional."""

    end: int
    """Physical offset of the next append: the commit point."""
    last_store_timestamp_ms: int
    appended_records: int
    """Since the log was opened, by the fast path or the slow path."""
    is_armed: bool
    """Whether the next put is to call `notify`; that put clears it."""
    notify: Callable[[], object] | None
    """May raise RuntimeError if it was called before."""
    note: Callable[[float], object] | None
    """Told how many ms a put took, one in so many."""

    @property
    def taken(self) -> int:
        """How many records were appended by the fast path."""

    def put(self, message: M, /) -> R | None: ...

    def append(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        tags: str | None,
        keys: Any,
        properties: Any,
        uniq_key: str | None,
        flag: int,
        born_timestamp_ms: int | None,
        /,
    ) -> R | None:
        """Put the message that these make."""

    def put_many(self, messages: tuple[M, ...], first: int, /) -> list[R] | None:
        """Append messages from place `first` on, as many as there is room for, about a mebibyte at most; their results.
        None, and none of them is appended, if `first` is 0 and not all messages are ordinary."""

    def open(self, mapping: Buffer, base: int, allocated: int, /) -> None:
        """Append to this segment, up to its position `allocated`."""

    def close(self) -> None:
        """Let go of the segment and the progress page. Not without a condition that stays."""

    def write_back_offsets(self) -> None:
        """Have the dict of queue offsets say what the fast path counted, and ask it anew for each queue."""

    def register_topic(self, topic: str, raw: bytes, queue_count: int, /) -> None:
        """Take messages to these queues of the topic."""

    def unregister_topic(self, topic: str, /) -> None: ...
