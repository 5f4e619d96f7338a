"""What became of messages that were sent."""

from __future__ import annotations

from typing import NamedTuple

from ..store.errors import FlightlogError
from ..store.message import Message
from ..store.message_queue import MessageQueue
from ..store.results import PutResult


class SendResult(NamedTuple):
    """Where a message went."""

    put: PutResult
    queue: MessageQueue
    uniq_key: str
    tries: int


class SendFailure(NamedTuple):
    """A message that was not acknowledged, and why."""

    message: Message
    """As it was put last: with its `uniq_key`, so that `was_stored` knows it and a second send can be recognized."""
    queue: MessageQueue
    """The queue that it was put to last."""
    error: FlightlogError
    doubt: str = ""
    """Why its store may have it all the same; empty if no store has it."""

    @property
    def may_be_stored(self) -> bool:
        """Whether a store may have it, now or when it is opened again: to send it again could make it two."""
        return bool(self.doubt)
