"""Why a producer could not send. The tree of all errors is in store/errors.py."""

from __future__ import annotations

from collections.abc import Sequence

from ..store.errors import FlightlogError, InvalidMessageError, UsageError
from ..store.message_queue import MessageQueue
from .send_result import SendFailure, SendResult

ADVICE = {
    "NORMAL": "Send it without a message group, a delay or a transaction",
    "FIFO": "Send it with group=",
    "DELAY": "Give it a delay level or a time of delivery",
    "TRANSACTION": "Send it in a transaction",
}
"""By the type of the topic."""


class NoRouteError(UsageError):
    """None of a producer's stores takes messages of a topic, or it is not known which queues they have. Nothing was
    put."""


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


class GroupLagError(FlightlogError):
    """A consumer group lags by more messages than the producer's `max_lag` allows. Nothing was put."""

    def __init__(self, topic: str, group: str, lag: int, max_lag: int) -> None:
        super().__init__(
            f"topic {topic!r}: group {group!r} lags by {lag} messages, expected {max_lag} at most (max_lag). Nothing "
            "was put; send again when the group has caught up"
        )
        self.topic, self.group, self.lag, self.max_lag = topic, group, lag, max_lag


class SendTimeoutError(FlightlogError, TimeoutError):
    """A send was not over within its `timeout_s`. `may_be_stored` says what became of the message.

    True: it is in the log of the store of `queue`, and not known to be durable yet. Do not send it again, but ask
    `was_stored(uniq_key, topic)`. False: no store has it, or only the half message of a transaction, which was rolled
    back.
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


class SendManyError(FlightlogError):
    """Some of the messages of a `send_many` were not acknowledged.

    `outcomes` has a SendResult or a SendFailure for each message, in their order; `failures` the latter alone, by the
    message's place.
    """

    def __init__(self, outcomes: Sequence[SendResult | SendFailure]) -> None:
        self.outcomes = tuple(outcomes)
        self.failures = {place: each for place, each in enumerate(outcomes) if isinstance(each, SendFailure)}
        place, first = next(iter(self.failures.items()))
        in_doubt = sum(each.may_be_stored for each in self.failures.values())
        super().__init__(
            f"{len(self.failures)} of {len(self.outcomes)} messages were not acknowledged, {in_doubt} of them may be "
            f"stored all the same; the first is messages[{place}] ({first.queue}): {first.error}. The outcome of each "
            "message is in `outcomes`"
        )
