"""RocketMQ's own Python consumers of an ordered group: order within a message group, and what a failure blocks."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from flightlog.tests.support.rocketmq_clients import receive_until
from flightlog.tests.support.rocketmq_server import PATIENCE_S, deadline

if TYPE_CHECKING:
    from flightlog.tests.support.rocketmq_clients import PythonClients
    from flightlog.tests.support.rocketmq_server import ServedStore

GROUPS, EACH = 4, 10


def send_in_order(clients: PythonClients, count: int, *groups: str) -> None:
    producer = clients.producer("steps")
    for number in range(count):
        for group in groups:
            producer.send(clients.message("steps", f"{group} {number}".encode(), message_group=group))


@pytest.mark.ci
def test_two_push_consumers_consume_each_message_group_in_order(served: ServedStore, clients: PythonClients) -> None:
    served.store.update_group("billing", is_ordered=True)
    names = [f"order-{number}" for number in range(GROUPS)]
    consumed: defaultdict[str, list[int]] = defaultdict(list)
    left = threading.Semaphore(0)

    def consume(message: Any) -> Any:
        name, _, number = message.body.decode().partition(" ")
        consumed[name].append(int(number))
        left.release()
        return clients.success

    for _ in range(2):
        clients.push_consumer("billing", "steps", consume)
    send_in_order(clients, EACH, *names)
    for _ in range(GROUPS * EACH):
        assert left.acquire(timeout=PATIENCE_S), consumed
    assert consumed == {name: list(range(EACH)) for name in names}
    ends_s = deadline()
    while any(served.store.lag("billing").values()):
        assert time.monotonic() < ends_s
        time.sleep(0.05)


@pytest.mark.ci
def test_a_message_that_fails_holds_back_what_is_behind_it(served: ServedStore, clients: PythonClients) -> None:
    served.store.update_group("billing", is_ordered=True, retry_max_times=1)
    consumed: queue.Queue[str] = queue.Queue()

    def consume(message: Any) -> Any:
        consumed.put(message.body.decode())
        return clients.failure if message.body == b"order-7 1" else clients.success

    send_in_order(clients, 4, "order-7")
    clients.push_consumer("billing", "steps", consume)
    seen = [consumed.get(timeout=PATIENCE_S) for _ in range(5)]
    assert seen == ["order-7 0", "order-7 1", "order-7 1", "order-7 2", "order-7 3"]
    assert [each.body for each in served.store.dead_letters("billing")] == [b"order-7 1"]


@pytest.mark.ci
def test_a_simple_consumer_receives_in_order(served: ServedStore, clients: PythonClients) -> None:
    served.store.update_group("billing", is_ordered=True)
    send_in_order(clients, 5, "order-7")
    consumer = clients.simple_consumer("billing", {"steps": None})
    [first, *rest] = receive_until(consumer, 5, ack=False)
    assert [each.body for each in (first, *rest)] == [b"order-7 %d" % number for number in range(5)]
    assert consumer.receive(32, 60) == [], "the queue is blocked"
    for message in rest:
        consumer.ack(message)
    consumer.change_invisible_duration(first, 1)
    [again] = receive_until(consumer, 1)
    assert (again.body, again.delivery_attempt) == (b"order-7 0", 2)
