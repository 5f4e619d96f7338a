"""A message that a consumer processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...store.arguments import check_seconds
from ...store.message_queue import MessageQueue
from ...store.stored_message import StoredMessage
from .process_queue import ProcessQueue


class Giver(Protocol):
    """Who hands messages out, a subscription: the words of what is called are there."""

    def acknowledge(self, queue: MessageQueue, has: ProcessQueue, queue_offsets: Sequence[int]) -> int: ...

    def give_back(self, messages: Sequence[ReceivedMessage], delay_s: float) -> int: ...

    def fail(self, messages: Sequence[ReceivedMessage], delay_s: float | None = None) -> int: ...


class MessageInHand:
    """Base of a message in process, local or from a server: the fields of the message itself."""

    __slots__ = ()
    message: StoredMessage

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def topic(self) -> str:
        return self.message.topic

    @property
    def tags(self) -> str | None:
        return self.message.tags

    @property
    def keys(self) -> list[str]:
        return self.message.keys

    @property
    def queue_id(self) -> int:
        return self.message.queue_id

    @property
    def queue_offset(self) -> int:
        return self.message.queue_offset


class ReceivedMessage(MessageInHand):
    """A message to process and acknowledge. Until then its queue's offset stays at or below it."""

    __slots__ = ("_has", "_subscription", "attempt", "is_handed_out", "message", "queue")

    def __init__(self, message: StoredMessage, queue: MessageQueue, has: ProcessQueue) -> None:
        self.message = message
        """As the store read it. One that the group receives again has the topic that it was first put to."""
        self.queue = queue
        """Where it comes from; its broker name is that of the store."""
        self.attempt = message.reconsume_times
        """How many times it was delivered to the group: 1 at the first delivery. Deliveries after `retry_later` are
        counted by this member alone, unless it is an ordered one."""
        self.is_handed_out = False
        self._has = has
        self._subscription: Giver
        """Held from the first time that it is handed out: one that waits to be must not keep its subscription alive."""

    def ack(self) -> bool:
        """Acknowledge the message. Returns False if it was already acknowledged, or if its queue was reassigned (the
        new owner receives it again). Written to the disk within seconds, and at close."""
        return self._subscription.acknowledge(self.queue, self._has, (self.message.queue_offset,)) == 1

    def send_back(self) -> bool:
        """Report that processing failed: store the message for another attempt, and acknowledge it. Returns False as
        `ack` does.

        The group receives it again after 10 s, 30 s, 1 min and so on, also in another process; after `max_attempts`
        deliveries it is a dead letter. An ordered member redelivers it first in its queue instead, after a second. If
        the store refuses it (a full disk), this member redelivers it after 5 s.
        """
        return self._subscription.fail([self]) == 1

    def retry_later(self, delay_s: float) -> bool:
        """Redeliver it later to this member, in `delay_s` seconds at the earliest. Returns False as `ack` does. Only
        this member counts the attempt, unless it is an ordered one, see `send_back`."""
        check_seconds("delay_s", delay_s)
        return self._subscription.give_back([self], delay_s) == 1

    def hand_out(self, subscription: Giver) -> None:
        """It goes to who works it off."""
        self._subscription = subscription
        self.attempt += 1
        self.is_handed_out = True

    @property
    def place(self) -> tuple[ProcessQueue, int]:
        """The assignment of its queue when it was read, and its offset."""
        return self._has, self.message.queue_offset

    @property
    def is_at_work(self) -> bool:
        """Whether it is still to be acknowledged here."""
        return self.message.queue_offset in self._has

    def __repr__(self) -> str:
        return f"ReceivedMessage({self.message!r})"
