"""The name of one queue among those of several stores or brokers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .arguments import check_type


class MessageQueue(NamedTuple):
    """One queue of a topic in one store; RocketMQ's `MessageQueue`."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        """As RocketMQ's `MessageQueue#toString`: the consistent hash is one of this text."""
        return f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, queueId={self.queue_id}]"

    @property
    def order(self) -> tuple[bytes, bytes, int]:
        """What RocketMQ's members sort queues by."""
        return java_order(self.topic), java_order(self.broker_name), self.queue_id


def java_order(text: str) -> bytes:
    """What Java's `String.compareTo` compares: UTF-16 code units. Code points have another order where a text has one
    beyond U+FFFF."""
    return text.encode("utf-16-be", "surrogatepass")


def check_queues(queues: Iterable[object]) -> None:
    """Raises WrongTypeError for what is no MessageQueue."""
    for queue in queues:
        check_type("queue", queue, MessageQueue, "a MessageQueue, as in the attribute `queues`")
