"""A message on its way, and why it may not go to another store."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..store.errors import (
    DiskError,
    DiskFullError,
    QueueNotFoundError,
    StoreClosedError,
    TopicNotFoundError,
    TopicPermissionError,
)
from ..store.format import property_names as props
from ..store.message import Message
from ..store.message_queue import MessageQueue
from .route import Route
from .send_errors import SendTimeoutError

STORE_FAILED = (DiskError, StoreClosedError)
ELSEWHERE = (*STORE_FAILED, TopicNotFoundError, QueueNotFoundError, TopicPermissionError)
"""Another store may take the message."""
NOT_STORED = (DiskFullError, StoreClosedError, TopicNotFoundError, QueueNotFoundError, TopicPermissionError)
"""Errors after which nothing of the message is stored."""


@dataclass(slots=True)
class Sending:
    """A message on its way."""

    message: Message
    """As it was given."""
    uniq_key: str
    group: str | None
    queue: MessageQueue | None
    """The only one that it may go to; None: any of the route."""
    route: Route
    timeout_s: float
    deadline_s: float
    """On the clock of `monotonic_s`: no try begins after it."""
    ends_waits: bool
    """Whether the deadline ends the wait for a sync, too."""
    tried: list[str] = field(default_factory=list)
    """Stores that have failed for it."""
    appended_to: MessageQueue | None = None
    """Where the message is, while a future waits for its sync."""
    record_topic: str | None = None
    """The topic of its record, if that is not the message's."""

    def to(self, queue: MessageQueue) -> Message:
        """What is put to this queue."""
        if self.group is None:
            return replace(self.message, queue_id=queue.queue_id, uniq_key=self.uniq_key)
        properties = {**(self.message.properties or {}), props.SHARDING_KEY: self.group}
        return replace(self.message, queue_id=queue.queue_id, uniq_key=self.uniq_key, properties=properties)

    def timed_out(self) -> SendTimeoutError:
        return SendTimeoutError(self.message.topic, self.uniq_key, self.timeout_s, self.appended_to)
