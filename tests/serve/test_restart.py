"""The server ends and begins again while clients are at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from flightlog.tests.support.rocketmq_clients import persistently, receive_until
from flightlog.tests.support.rocketmq_server import PATIENCE_S

if TYPE_CHECKING:
    from flightlog.tests.support.rocketmq_clients import PythonClients
    from flightlog.tests.support.rocketmq_server import ServedStore


@pytest.mark.ci
def test_clients_go_on_after_a_restart(served: ServedStore, clients: PythonClients) -> None:
    producer = clients.producer("orders")
    consumer = clients.simple_consumer("billing", {"orders": None})
    for number in range(10):
        producer.send(clients.message("orders", b"%d" % number))
    received = receive_until(consumer, 4, invisible_s=3600, ack=False)
    served.stop()
    served.start()
    for message in received:  # by the handles that the server gave before
        persistently(consumer.ack, message)
    for number in range(10, 20):
        persistently(producer.send, clients.message("orders", b"%d" % number))
    received += receive_until(consumer, 20 - len(received))
    assert sorted(int(each.body) for each in received) == list(range(20))


@pytest.mark.ci
def test_a_push_consumer_goes_on_after_a_restart(served: ServedStore, clients: PythonClients) -> None:
    consumed = clients.consumed_bodies("billing", "orders")
    producer = clients.producer("orders")
    producer.send(clients.message("orders", b"before"))
    assert consumed.get(timeout=PATIENCE_S) == b"before"
    served.stop()
    served.start()
    persistently(producer.send, clients.message("orders", b"after"))
    assert consumed.get(timeout=PATIENCE_S) == b"after"
