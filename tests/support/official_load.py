"""RocketMQ's own Python clients that send and consume until their server dies, and what they were answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from flightlog.tests.support.rocketmq_clients import Address, PythonClients
from flightlog.tests.support.rocketmq_server import PATIENCE_S
from flightlog.tests.support.served_load import BATCH, ORDERED, PLAIN, SENDERS, TOPIC, Load, ServerGoneError

INVISIBLE_S = 600


class OfficialLoad(Load):
    """A producer for each message group, and simple consumers. They name no attempt: after a death the ordered group
    waits for what it had received, so only the first run awaits acknowledgements of it."""

    @contextmanager
    def clients(self, address: str) -> Iterator[Sequence[Callable[[], None]]]:
        with ExitStack() as undo:
            made = PythonClients(
                Address(address), undo, timeout_s=int(PATIENCE_S)
            )  # what is sent twice, is there twice
            producers = [made.producer(TOPIC) for _ in range(SENDERS)]
            groups = (PLAIN, PLAIN, ORDERED)
            consumers = [made.simple_consumer(group, {TOPIC: None}) for group in groups]
            yield [
                *(partial(self._produce, made, producer, sender) for sender, producer in enumerate(producers)),
                *(partial(self._receive, *each) for each in zip(consumers, groups, strict=True)),
            ]
        self.awaited = (PLAIN,)

    def _produce(self, clients: PythonClients, producer: Any, sender: int) -> None:
        body = self.next_body(sender)
        _ask(producer.send, clients.message(TOPIC, body.encode(), message_group=f"group-{sender}"))
        self.sent.add(body)

    def _receive(self, consumer: Any, group: str) -> None:
        for message in _ask(consumer.receive, BATCH, INVISIBLE_S):
            body = message.body.decode()
            self.note_received(group, body)
            _ask(consumer.ack, message)
            self.acked[group].add(body)


def _ask(call: Callable[..., Any], *arguments: Any) -> Any:
    """Clients raise whatever their connection does."""
    try:
        return call(*arguments)
    except Exception as e:
        raise ServerGoneError from e
