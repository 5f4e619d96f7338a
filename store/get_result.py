"""What a get answers."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .stored_message import StoredMessage


class GetStatus(enum.Enum):
    """RocketMQ's answers to a get; what the next offset is in each case stands in `engine/read/reading.py`."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"  # RocketMQ's, and no answer of its store or this one
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


@dataclass(frozen=True, slots=True)
class GetResult:
    """What a get answers."""

    status: GetStatus
    next_queue_offset: int
    """Where to go on."""
    min_queue_offset: int
    max_queue_offset: int
    """One past the last message."""
    messages: list[StoredMessage]

    @property
    def size(self) -> int:
        """Bytes of the messages' whole records, which is what limits count."""
        return sum(message.size for message in self.messages)
