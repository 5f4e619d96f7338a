"""The interface to the store that timers need. It is passed in, so timers do not import the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..store.stored_message import StoredMessage
from .delivered import DueMessage


class TimerHost(Protocol):
    """The store, as timers use it."""

    def log_range(self) -> tuple[int, int]:
        """Physical offsets: of the first byte of the log that is there, and one past the last that can be read."""

    def last_store_timestamp_ms(self) -> int:
        """Store time of the newest record."""

    def ended_cleanly(self) -> bool:
        """Whether the last writer closed the store: then its log has lost nothing."""

    def queue_bounds(self) -> tuple[int, int]:
        """Of the timer topic's queue: the first offset, and one past the last that can be read."""

    def read_queue(self, queue_offset: int, count: int) -> Sequence[StoredMessage]:
        """Messages of the timer topic's queue from this offset on, `count` at most; those that cannot be read are left
        out. Empty only if there is no further one."""

    def message_at(self, physical_offset: int, size: int) -> StoredMessage | None:
        """The message whose record lies there; None if none does that can be read."""

    def deliver(self, deliveries: Sequence[DueMessage]) -> int:
        """Put them in order, past the seam that parks. Returns how many of them, from the first on, are stored; raises
        if not even the first is."""

    def flush(self) -> None:
        """Make everything that was appended durable."""
