"""The load: clients of a server by plain gRPC, in a process of their own, the same for every server.

`python -m flightlog.tools.bench.served.load ADDRESS ORDER` does one order, a JSON object, and prints what it found as
one. Each client has a connection of its own and one call at a time. Requests are serialized before the clock starts and
answers are read as little as the work needs, so that most of what is measured is the server.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import grpc

from ....serve.calls.protocol import SERVICE_NAME, Code, definition, service
from ..drive import in_threads

PATIENCE_S = 60.0
INVISIBLE_S, POLL_S = 60, 5
ACK_BATCH = 32


class LoadError(Exception):
    """The server refused a call."""


class Connection:
    """One client."""

    def __init__(self, address: str, name: str) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 << 20)]
        self._channel = grpc.insecure_channel(address, options=options)
        self._metadata = (("x-mq-client-id", name), ("x-mq-client-version", "5.1.2"), ("x-mq-language", "PYTHON"))
        self._send = self._channel.unary_unary(f"/{SERVICE_NAME}/SendMessage")
        self._ack = self._channel.unary_unary(f"/{SERVICE_NAME}/AckMessage")
        self._receive = self._channel.unary_stream(f"/{SERVICE_NAME}/ReceiveMessage")
        self._telemetry = self._channel.stream_stream(f"/{SERVICE_NAME}/Telemetry")
        self._ending = threading.Event()

    def register(self, group: str) -> None:
        """Tell the server the settings of a consumer: RocketMQ's wants them before a receive."""
        settings = definition.Settings(client_type=definition.ClientType.SIMPLE_CONSUMER)
        settings.request_timeout.seconds = 3
        settings.subscription.group.name = group
        command = service.TelemetryCommand(settings=settings).SerializeToString()

        def commands() -> Any:
            yield command
            self._ending.wait()

        stream = self._telemetry(commands(), metadata=self._metadata)
        _check(service.TelemetryCommand.FromString(next(stream)).status)

    def send(self, request: bytes) -> bytes:
        """The serialized answer: it is checked behind the clock."""
        return bytes(self._send(request, metadata=self._metadata, timeout=PATIENCE_S))

    def receive(self, request: bytes) -> list[Any]:
        """The messages."""
        parts = list(self._receive(request, metadata=self._metadata, timeout=PATIENCE_S))
        found = [service.ReceiveMessageResponse.FromString(part) for part in parts]
        return [each.message for each in found if each.HasField("message")]

    def ack(self, topic: str, group: str, messages: list[Any]) -> None:
        found = service.AckMessageRequest()
        found.group.name, found.topic.name = group, topic
        for each in messages:
            system = each.system_properties
            found.entries.add(message_id=system.message_id, receipt_handle=system.receipt_handle)
        self._ack(found.SerializeToString(), metadata=self._metadata, timeout=PATIENCE_S)

    def close(self) -> None:
        self._ending.set()
        self._channel.close()


def _check(status: Any) -> None:
    if status.code != Code.OK:
        raise LoadError(f"{Code.Name(status.code)}: {status.message}")


def _check_send(answer: bytes) -> None:
    _check(service.SendMessageResponse.FromString(answer).status)


def a_send(topic: str, body: bytes, count: int, number: int) -> bytes:
    """A request with `count` messages."""
    found = service.SendMessageRequest()
    for place in range(count):
        message = found.messages.add(body=body)
        message.topic.name = topic
        message.system_properties.message_id = f"01{number:028X}{place:04X}"
        message.system_properties.message_type = definition.MessageType.NORMAL
        message.system_properties.body_encoding = definition.Encoding.IDENTITY
        message.system_properties.born_timestamp.GetCurrentTime()
    return bytes(found.SerializeToString())


def a_receive(topic: str, group: str, count: int) -> bytes:
    found = service.ReceiveMessageRequest(batch_size=count)
    found.group.name, found.message_queue.topic.name, found.message_queue.id = group, topic, -1
    found.invisible_duration.seconds, found.long_polling_timeout.seconds = INVISIBLE_S, POLL_S
    found.filter_expression.type, found.filter_expression.expression = definition.FilterType.TAG, "*"
    return bytes(found.SerializeToString())


def sends(address: str, topic: str, clients: int, batch: int, body_size: int, seconds: float) -> dict[str, Any]:
    """Send for so many seconds; each client sends as soon as its last send was answered."""
    body = bytes(body_size)
    connections = [Connection(address, f"sender-{number}") for number in range(clients)]
    requests = [a_send(topic, body, batch, number) for number in range(clients)]
    for connection, request in zip(connections, requests, strict=True):
        _check_send(connection.send(request))

    def client(number: int) -> list[float]:
        connection, request, durations = connections[number], requests[number], list[float]()
        now_s = time.perf_counter()
        ends_s, answer = now_s + seconds, b""
        while now_s < ends_s:
            answer = connection.send(request)
            before_s, now_s = now_s, time.perf_counter()
            durations.append(now_s - before_s)
        _check_send(answer)
        return durations

    elapsed_s, durations = _of_all(client, connections)
    return {"count": len(durations) * batch, "seconds": elapsed_s, "durations": durations}


def _of_all(client: Callable[[int], list[float]], connections: Sequence[Connection]) -> tuple[float, list[float]]:
    """Run a client on each connection at once, then close them; returns the seconds until the last one ended, and the
    duration of every call (s)."""
    started_s = time.perf_counter()
    found = in_threads([partial(client, number) for number in range(len(connections))])
    elapsed_s = time.perf_counter() - started_s
    for connection in connections:
        connection.close()
    return elapsed_s, [each for durations in found for each in durations]


def receives(address: str, topic: str, group: str, clients: int, batch: int, count: int) -> dict[str, Any]:
    """Receive and acknowledge until so many messages have come; the clock runs from the first call to the last ack."""
    connections = [Connection(address, f"receiver-{number}") for number in range(clients)]
    for connection in connections:
        connection.register(group)
    request = a_receive(topic, group, batch)
    left, lock, ended_s = [count], threading.Lock(), [0.0]

    def client(number: int) -> list[float]:
        connection, durations = connections[number], list[float]()
        while left[0] > 0:
            started_s = time.perf_counter()
            messages = connection.receive(request)
            if messages:
                connection.ack(topic, group, messages)
                durations.append(time.perf_counter() - started_s)
                with lock:
                    left[0] -= len(messages)
                    ended_s[0] = time.perf_counter()
        return durations

    started_s = time.perf_counter()
    _, durations = _of_all(client, connections)
    return {"count": count - left[0], "seconds": ended_s[0] - started_s, "durations": durations}


def end_to_end(address: str, topic: str, group: str, rate: float, count: int) -> dict[str, Any]:
    """One sender at a steady rate, one consumer that waits: from the moment when a send was due until its message is in
    the hands of the consumer (both are in this process, on one clock)."""
    sender, consumer = Connection(address, "sender"), Connection(address, "receiver")
    consumer.register(group)
    request = a_receive(topic, group, ACK_BATCH)
    token = f"{time.time_ns()}"
    due_s: dict[str, float] = {}
    durations: list[float] = []

    def consume() -> None:
        until_s = time.perf_counter() + PATIENCE_S + count / rate
        while len(durations) < count and time.perf_counter() < until_s:
            messages = consumer.receive(request)
            now_s = time.perf_counter()
            for each in messages:
                sent_s = due_s.get(each.body.decode())
                if sent_s is not None:
                    durations.append(now_s - sent_s)
            if messages:
                consumer.ack(topic, group, messages)

    consuming = threading.Thread(target=consume)
    consuming.start()
    time.sleep(0.5)  # until it waits
    started_s = time.perf_counter()
    for number in range(count):
        at_s = started_s + number / rate
        time.sleep(max(at_s - time.perf_counter(), 0))
        name = f"{token}-{number}"
        due_s[name] = at_s
        _check_send(sender.send(a_send(topic, name.encode(), 1, number)))
    consuming.join()
    elapsed_s = time.perf_counter() - started_s
    sender.close()
    consumer.close()
    if len(durations) < count:
        raise LoadError(f"{len(durations)} of {count} messages came")
    return {"count": count, "seconds": elapsed_s, "durations": durations}


ORDERS: dict[str, Callable[..., dict[str, Any]]] = {"send": sends, "receive": receives, "end to end": end_to_end}


if __name__ == "__main__":
    order = json.loads(sys.argv[2])
    print(json.dumps(ORDERS[order.pop("what")](sys.argv[1], **order)))
