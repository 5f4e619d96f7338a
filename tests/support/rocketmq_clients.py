"""RocketMQ's own Python clients, made for a test and shut down at its end."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from flightlog.tests.support.rocketmq_server import deadline


class Addressed(Protocol):
    """A server."""

    @property
    def address(self) -> str: ...


@dataclass(frozen=True)
class Address:
    """Address of a server in another process."""

    address: str


class PythonClients:
    """Makes RocketMQ's Python clients, and shuts them down at the end."""

    def __init__(self, served: Addressed, undo: ExitStack, timeout_s: int = 30) -> None:
        """`timeout_s` is how long a call waits for its answer; then a send is made again."""
        import rocketmq

        self._served, self._undo, self._timeout_s, self.rocketmq = served, undo, timeout_s, rocketmq
        # A client that subscribes needs a current event loop in that thread, and `asyncio.run` leaves none behind.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        undo.callback(loop.close)
        self.credentials = rocketmq.Credentials()

        self.success, self.failure = rocketmq.ConsumeResult.SUCCESS, rocketmq.ConsumeResult.FAILURE
        resolutions = rocketmq.TransactionResolution
        self.commit, self.unknown = resolutions.COMMIT, resolutions.TRANSACTION_RESOLUTION_UNSPECIFIED

    @property
    def configuration(self) -> Any:
        rocketmq = self.rocketmq
        return rocketmq.ClientConfiguration(self._served.address, self.credentials, request_timeout=self._timeout_s)

    def producer(self, *topics: str, check: Callable[[Any], Any] | None = None) -> Any:
        checker: Any = None
        if check is not None:
            checker = type(
                "Checker", (self.rocketmq.TransactionChecker,), {"check": lambda _, message: check(message)}
            )()
        return self._started(self.rocketmq.Producer(self.configuration, topics, checker))

    def simple_consumer(self, group: str, subscriptions: dict[str, Any], wait_s: int = 5) -> Any:
        found = self._started(self.rocketmq.SimpleConsumer(self.configuration, group, await_duration=wait_s))
        for topic, expression in subscriptions.items():
            found.subscribe(topic, expression)
        return found

    def push_consumer(self, group: str, topic: str, consume: Callable[[Any], Any]) -> Any:
        rocketmq = self.rocketmq
        listener = type("Listener", (rocketmq.MessageListener,), {"consume": lambda _, message: consume(message)})()
        expression = rocketmq.FilterExpression()
        return self._started(rocketmq.PushConsumer(self.configuration, group, listener, {topic: expression}))

    def consumed_bodies(self, group: str, topic: str) -> queue.Queue[bytes]:
        """What a push consumer consumes, and succeeds with."""
        consumed: queue.Queue[bytes] = queue.Queue()

        def consume(message: Any) -> Any:
            consumed.put(message.body)
            return self.success

        self.push_consumer(group, topic, consume)
        return consumed

    def _started(self, client: Any) -> Any:
        client.startup()
        self._undo.callback(client.shutdown)
        return client

    def filter(self, expression: str, *, is_sql: bool) -> Any:
        from rocketmq.grpc_protocol import FilterType

        return self.rocketmq.FilterExpression(expression, FilterType.SQL if is_sql else FilterType.TAG)

    def message(self, topic: str, body: bytes, **fields: Any) -> Any:
        made = self.rocketmq.Message()
        made.topic, made.body = topic, body
        for name, value in fields.items():
            setattr(made, name, value)
        return made


def receive_until(consumer: Any, count: int, *, invisible_s: int = 60, ack: bool = True) -> list[Any]:
    """So many messages, in the order in which they came."""
    found: list[Any] = []
    ends_s = deadline()
    while len(found) < count:
        assert time.monotonic() < ends_s, f"only {len(found)} of {count} messages came"
        for message in consumer.receive(32, invisible_s):
            found.append(message)
            if ack:
                consumer.ack(message)
    return found


def persistently(call: Callable[[Any], Any], argument: Any) -> Any:
    """What the call returns, once it does: a client waits a while before it dials a server again that was away."""
    ends_s = deadline()
    while True:
        try:
            return call(argument)
        except Exception:
            if time.monotonic() > ends_s:
                raise
            time.sleep(0.1)
