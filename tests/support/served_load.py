"""Plain gRPC clients that send and consume until their server dies, and what they were answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import grpc
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

from flightlog import Store
from flightlog.testing import AheadClock
from flightlog.tests.support.rocketmq_server import PATIENCE_S, deadline

TOPIC, SENDERS, BATCH = "orders", 3, 8
PLAIN, ORDERED = "billing", "ledger"
HOUR_MS = 3_600_000
METADATA = (("x-mq-client-id", "load"), ("x-mq-client-version", "5.1.2"))


class ServerGoneError(Exception):
    """A client's call failed: the server is dying."""


class Load:
    """Each sender has a message group. Bodies are `sender number`, with numbers from 0 on over all servers."""

    def __init__(self) -> None:
        self.next_numbers = [0] * SENDERS
        self.attempts = 0
        """Attempts of the ordered group: one that the server did not live through is made again, and gets its messages
        again."""
        self.sent: set[str] = set()
        """Sends that were answered with OK."""
        self.tried: dict[str, set[str]] = {PLAIN: set(), ORDERED: set()}
        """By group: acknowledgements that were begun."""
        self.acked: dict[str, set[str]] = {PLAIN: set(), ORDERED: set()}
        """Those that were answered with OK."""
        self.in_order: list[str] = []
        """What the ordered group received."""
        self.awaited: Collection[str] = (PLAIN, ORDERED)
        """The groups of whose acknowledgements a run has to see some."""

    def run_until(self, address: str, sends: int, acks: int, end_server: Callable[[], object]) -> None:
        """Send and consume, and end the server in the midst of it once so many more were answered."""
        ended = threading.Event()
        sends += len(self.sent)
        targets = {group: len(self.acked[group]) + acks for group in self.awaited}
        with self.clients(address) as steps, ThreadPoolExecutor(len(steps)) as threads:
            works = [threads.submit(self._until, ended, step) for step in steps]
            ends_s = deadline()
            try:
                while len(self.sent) < sends or any(len(self.acked[group]) < targets[group] for group in targets):
                    assert time.monotonic() < ends_s, (len(self.sent), {g: len(a) for g, a in self.acked.items()})
                    assert not any(work.done() for work in works), [work.exception() for work in works if work.done()]
                    time.sleep(0.005)
                end_server()
            finally:
                ended.set()
            for work in works:
                work.result(PATIENCE_S)

    @contextmanager
    def clients(self, address: str) -> Iterator[Sequence[Callable[[], None]]]:
        """What senders and consumers do again and again, each in a thread of its own. They raise ServerGoneError."""
        with grpc.insecure_channel(address) as channel:
            stub = MessagingServiceStub(channel)
            senders = [partial(self._send, stub, sender) for sender in range(SENDERS)]
            yield [*senders, *(partial(self._consume, stub, group) for group in (PLAIN, PLAIN, ORDERED))]

    def _until(self, ended: threading.Event, step: Callable[[], None]) -> None:
        while not ended.is_set():
            try:
                step()
            except (ServerGoneError, grpc.RpcError):
                ended.wait(PATIENCE_S)

    def next_body(self, sender: int) -> str:
        number = self.next_numbers[sender]
        self.next_numbers[sender] += 1
        return f"{sender} {number}"

    def note_received(self, group: str, body: str) -> None:
        """Before it is acknowledged."""
        assert body not in self.acked[group], f"{body} of {group} came again"
        self.tried[group].add(body)
        if group == ORDERED:
            self.in_order.append(body)

    def _send(self, stub: Any, sender: int) -> None:
        body = self.next_body(sender)
        message = definition.Message(topic=definition.Resource(name=TOPIC), body=body.encode())
        message.system_properties.message_id = f"{sender:02}{self.next_numbers[sender]:032}"
        message.system_properties.message_type = definition.FIFO
        message.system_properties.message_group = f"group-{sender}"
        request = service.SendMessageRequest(messages=[message])
        if stub.SendMessage(request, metadata=METADATA, timeout=PATIENCE_S).status.code == definition.OK:
            self.sent.add(body)

    def _consume(self, stub: Any, group: str) -> None:
        request = service.ReceiveMessageRequest(batch_size=BATCH)
        request.group.name, request.message_queue.topic.name = group, TOPIC
        request.invisible_duration.seconds, request.long_polling_timeout.seconds = 600, 5
        if group == ORDERED:
            request.attempt_id = f"attempt-{self.attempts}"
        parts = list(stub.ReceiveMessage(request, metadata=METADATA, timeout=PATIENCE_S))
        found = [part.message for part in parts if part.HasField("message")]
        for message in found:
            self._ack(stub, group, message)
        if group == ORDERED and found and self.acked[group].issuperset(each.body.decode() for each in found):
            self.attempts += 1

    def _ack(self, stub: Any, group: str, message: Any) -> None:
        body = message.body.decode()
        self.note_received(group, body)
        request = service.AckMessageRequest()
        request.group.name, request.topic.name = group, TOPIC
        request.entries.add(receipt_handle=message.system_properties.receipt_handle)
        if stub.AckMessage(request, metadata=METADATA, timeout=PATIENCE_S).status.code == definition.OK:
            self.acked[group].add(body)

    def check(self, store: Store, clock: AheadClock) -> None:
        """All that was answered is so; and the groups receive the rest, the ordered one in order."""
        stored: set[str] = set()
        queues = store.topic(TOPIC)
        assert queues is not None
        for queue_id in range(queues.read_queue_count):
            found = [message.body.decode() for message in store.read(TOPIC, queue_id)]
            _assert_in_order(found)
            stored.update(found)
        assert self.sent <= stored, f"lost: {self.sent - stored}"
        clock.advance(HOUR_MS)  # what was received and not acknowledged comes again
        for group in (PLAIN, ORDERED):
            received: list[str] = []
            ends_s = deadline()
            while not stored - self.tried[group] <= set(received):
                assert time.monotonic() < ends_s, f"{group} misses {stored - self.tried[group] - set(received)}"
                for popped in store.receive(group, TOPIC, wait_s=0.2):
                    received.append(popped.body.decode())
                    self.tried[group].add(received[-1])
                    store.ack(popped.handle)
            assert not self.acked[group].intersection(received), "what was acknowledged came again"
            self.acked[group].update(received)
            if group == ORDERED:  # what was not acknowledged came twice
                _assert_in_order(list(dict.fromkeys([*self.in_order, *received])))


def _assert_in_order(bodies: list[str]) -> None:
    for sender in range(SENDERS):
        numbers = [int(body.split()[1]) for body in bodies if body.split()[0] == str(sender)]
        assert numbers == sorted(set(numbers)), numbers
