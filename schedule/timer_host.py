"""Interface of the store that timers need. It is passed in, so that timers do not import the engine."""

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
        """Bounds of the timer topic's queue: the first offset, and one past the last that can be read."""

    def read_queue(self, queue_offset: int, count: int) -> Sequence[StoredMessage]:
        """Up to `count` messages of the timer topic's queue from this offset on, without unreadable ones. Empty only if
        there are no more."""

    def message_at(self, physical_offset: int, size: int) -> StoredMessage | None:
        """The message at this physical offset; None if no readable record starts there."""

    def deliver(self, deliveries: Sequence[DueMessage]) -> int:
        """Put messages in order, bypassing the delay hook. Returns how many of them, counted from the first, are
        stored. Raises if the first one fails."""

    def flush(self) -> None:
        """Sync everything that was appended."""
