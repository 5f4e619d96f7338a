"""Why a producer could not send. The tree of all errors is in store/errors.py."""

from __future__ import annotations

from ..store.errors import FlightlogError, InvalidMessageError
from ..store.message_queue import MessageQueue

ADVICE = {
    "NORMAL": "Send it without a message group, a delay or a transaction",
    "FIFO": "Send it with group=",
    "DELAY": "Give it a delay level or a time of delivery",
    "TRANSACTION": "Send it in a transaction",
}
"""By the type of the topic."""


class MessageTypeError(InvalidMessageError):
    """A message of another type than its topic takes. Nothing was put.

    `found` is the message's type, `expected` the topic's.
    """

    def __init__(self, topic: str, found: str, expected: str) -> None:
        advice = ADVICE.get(expected, "No message is of that type")
        super().__init__(
            f"topic {topic!r}: found a {found} message, expected {expected}, the topic's message.type. {advice}, or "
            f"change the type: update_topic({topic!r}, attributes={{'message.type': ...}})"
        )
        self.topic, self.found, self.expected = topic, found, expected


class SendTimeoutError(FlightlogError, TimeoutError):
    """A send was not over within its `timeout_s`. `may_be_stored` says what became of the message.

    True: it is in the log of the store of `queue`, and not known to be durable yet. Do not send it again, but ask
    `was_stored(uniq_key, topic)`. False: no store has it.
    """

    def __init__(self, topic: str, uniq_key: str, timeout_s: float, queue: MessageQueue | None) -> None:
        fate = (
            f"it is in {queue} and not known to be durable yet; ask was_stored before sending it again"
            if queue is not None
            else "no store has it; it can be sent again"
        )
        super().__init__(f"topic {topic!r}, message {uniq_key}: not sent within timeout_s={timeout_s:g}: {fate}")
        self.topic, self.uniq_key, self.timeout_s, self.queue = topic, uniq_key, timeout_s, queue
        self.may_be_stored = queue is not None
