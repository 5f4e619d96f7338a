"""RocketMQ's own Python consumers receive, fail, and receive again."""

from __future__ import annotations

import queue
import time
from typing import TYPE_CHECKING, Any

import pytest

from flightlog.tests.support.rocketmq_clients import receive_until
from flightlog.tests.support.rocketmq_server import PATIENCE_S, deadline

if TYPE_CHECKING:
    from flightlog.tests.support.rocketmq_clients import PythonClients
    from flightlog.tests.support.rocketmq_server import ServedStore


def test_a_push_consumer_consumes_each_message_once(served: ServedStore, clients: PythonClients) -> None:
    consumed = clients.consumed_bodies("billing", "orders")
    producer = clients.producer("orders")
    for number in range(10):
        producer.send(clients.message("orders", b"%d" % number))
    bodies = [consumed.get(timeout=PATIENCE_S) for _ in range(10)]
    assert sorted(bodies) == sorted(b"%d" % number for number in range(10))
    ends_s = deadline()
    while any(served.store.lag("billing").values()):
        assert time.monotonic() < ends_s
        time.sleep(0.05)


@pytest.mark.ci
def test_a_message_that_always_fails_becomes_a_dead_letter(served: ServedStore, clients: PythonClients) -> None:
    served.store.update_group("billing", retry_max_times=1)
    attempts: queue.Queue[int] = queue.Queue()

    def consume(message: Any) -> Any:
        attempts.put(message.delivery_attempt)
        return clients.failure

    clients.push_consumer("billing", "orders", consume)
    clients.producer("orders").send(clients.message("orders", b"poison", tag="t"))
    assert [attempts.get(timeout=PATIENCE_S) for _ in range(2)] == [1, 2]
    ends_s = deadline()
    while not (dead := list(served.store.dead_letters("billing"))):
        assert time.monotonic() < ends_s
        time.sleep(0.05)
    assert [(each.body, each.tags) for each in dead] == [(b"poison", "t")]
    assert attempts.empty()


@pytest.mark.ci
def test_a_message_that_is_not_acknowledged_comes_again(served: ServedStore, clients: PythonClients) -> None:
    clients.producer("orders").send(clients.message("orders", b"work"))
    consumer = clients.simple_consumer("billing", {"orders": None})
    [first] = receive_until(consumer, 1, invisible_s=3600, ack=False)
    served.clock.advance(3_600_000)
    with pytest.raises(Exception, match="INVALID_RECEIPT_HANDLE"):
        consumer.ack(first)
    [second] = receive_until(consumer, 1)
    assert (second.body, second.delivery_attempt, second.message_id) == (b"work", 2, first.message_id)
    assert second.topic == "orders"


def test_a_changed_invisible_time_gives_a_new_handle(clients: PythonClients) -> None:
    clients.producer("orders").send(clients.message("orders", b"work"))
    consumer = clients.simple_consumer("billing", {"orders": None})
    [found] = receive_until(consumer, 1, ack=False)
    before = found.receipt_handle
    consumer.change_invisible_duration(found, 600)
    assert found.receipt_handle != before
    consumer.ack(found)


@pytest.mark.parametrize(
    ("expression", "is_sql", "wanted"), [("a || b", False, {b"a", b"b"}), ("size > 1", True, {b"b", b"c"})]
)
def test_a_consumer_gets_what_its_filter_wants(
    clients: PythonClients, expression: str, is_sql: bool, wanted: set[bytes]
) -> None:
    producer = clients.producer("orders")
    for number, tag in enumerate("abc", 1):
        message = clients.message("orders", tag.encode(), tag=tag)
        message.add_property("size", str(number))
        producer.send(message)
    consumer = clients.simple_consumer("billing", {"orders": clients.filter(expression, is_sql=is_sql)})
    assert {each.body for each in receive_until(consumer, 2)} == wanted
