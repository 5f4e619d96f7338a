"""RocketMQ's own Python producer sends in transactions."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import pytest

from flightlog.tests.support.rocketmq_clients import receive_until
from flightlog.tests.support.rocketmq_server import PATIENCE_S

if TYPE_CHECKING:
    from flightlog.tests.support.rocketmq_clients import PythonClients
    from flightlog.tests.support.rocketmq_server import ServedStore


def test_only_what_is_committed_is_received(served: ServedStore, clients: PythonClients) -> None:
    producer = clients.producer("orders", check=lambda message: clients.unknown)
    for body, is_committed in ((b"no", False), (b"yes", True)):
        transaction = producer.begin_transaction()
        producer.send(clients.message("orders", body), transaction)
        if is_committed:
            transaction.commit()
        else:
            transaction.rollback()
    [found] = receive_until(clients.simple_consumer("billing", {"orders": None}), 1)
    assert found.body == b"yes"
    assert sum(end for _, end in served.store.queues().values() if end) >= 1


@pytest.mark.ci
@pytest.mark.parametrize("restarts", [False, True])
def test_a_producer_is_asked_about_what_it_left_open(
    served: ServedStore, clients: PythonClients, restarts: bool
) -> None:
    asked: queue.Queue[tuple[bytes, str]] = queue.Queue()

    def check(message: Any) -> Any:
        asked.put((message.body, message.message_id))
        return clients.commit

    producer = clients.producer("orders", check=check)
    receipt = producer.send(clients.message("orders", b"left"), producer.begin_transaction())
    if restarts:
        served.stop()
        served.start()
        clients.producer("orders", check=check)
    assert asked.get(timeout=PATIENCE_S) == (b"left", receipt.message_id)
    [found] = receive_until(clients.simple_consumer("billing", {"orders": None}), 1)
    assert (found.body, found.message_id) == (b"left", receipt.message_id)
