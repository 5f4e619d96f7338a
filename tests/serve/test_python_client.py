"""RocketMQ's own Python client, unmodified, sends to a store and receives from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import flightlog
from flightlog.tests.support.rocketmq_clients import receive_until
from flightlog.tests.support.rocketmq_server import PATIENCE_S

if TYPE_CHECKING:
    from flightlog.tests.support.rocketmq_clients import PythonClients
    from flightlog.tests.support.rocketmq_server import ServedStore


def test_a_message_arrives_as_it_was_sent(served: ServedStore, clients: PythonClients) -> None:
    message = clients.message("orders", b"created", tag="new", keys="order-7")
    message.add_property("region", "north")
    receipt = clients.producer("orders").send(message)
    [found] = receive_until(clients.simple_consumer("billing", {"orders": None}), 1)
    assert (found.body, found.tag, list(found.keys)) == (b"created", "new", ["order-7"])
    assert found.properties == {"region": "north"}
    assert found.message_id == receipt.message_id
    assert found.delivery_attempt == 1
    assert not any(served.store.lag("billing").values())
    [stored] = [each for i in range(2) for each in served.store.read("orders", i)]
    assert stored.uniq_key == receipt.message_id


def test_a_store_that_python_wrote_is_received(served: ServedStore, clients: PythonClients) -> None:
    served.store.put(flightlog.Message("orders", b"from a program", compress=flightlog.CompressionType.ZLIB))
    [found] = receive_until(clients.simple_consumer("billing", {"orders": None}), 1)
    assert found.body == b"from a program"


def test_a_waiting_receive_is_woken_by_a_send(clients: PythonClients) -> None:
    producer = clients.producer("orders")
    consumer = clients.simple_consumer("billing", {"orders": None}, wait_s=20)
    receiving = consumer.receive_async(1, 60)
    producer.send(clients.message("orders", b"now"))
    assert [each.body for each in receiving.result(PATIENCE_S)] == [b"now"]


def test_messages_of_a_group_are_stored_in_order_in_one_queue(served: ServedStore, clients: PythonClients) -> None:
    producer = clients.producer("steps")
    for number in range(20):
        producer.send(clients.message("steps", b"%d" % number, message_group="order-7"))
    filled = {i: list(served.store.read("steps", i)) for i in range(2)}
    [stored] = [found for found in filled.values() if found]
    assert [each.body for each in stored] == [b"%d" % number for number in range(20)]
    [*found] = receive_until(clients.simple_consumer("billing", {"steps": None}), 20)
    assert {each.message_group for each in found} == {"order-7"}


def test_a_delayed_message_comes_when_it_is_due(served: ServedStore, clients: PythonClients) -> None:
    producer = clients.producer("later")
    consumer = clients.simple_consumer("billing", {"later": None}, wait_s=20)
    due_s = served.clock.now_ms() // 1000 + 3600
    producer.send(clients.message("later", b"in an hour", delivery_timestamp=due_s))
    receiving = consumer.receive_async(1, 60)
    served.clock.advance(3_601_000)
    found = receiving.result(PATIENCE_S) or receive_until(consumer, 1, ack=False)
    assert [each.body for each in found] == [b"in an hour"]
    assert found[0].delivery_timestamp == due_s * 1000  # the client sends seconds, and shows milliseconds


def test_a_delayed_message_is_recalled(served: ServedStore, clients: PythonClients) -> None:
    producer = clients.producer("later")
    due_s = served.clock.now_ms() // 1000 + 3600
    receipt = producer.send(clients.message("later", b"never", delivery_timestamp=due_s))
    producer.send(clients.message("later", b"this one", delivery_timestamp=due_s))
    assert producer.recall_message("later", receipt.recall_handle) == receipt.message_id
    served.clock.advance(3_602_000)
    found = receive_until(clients.simple_consumer("billing", {"later": None}), 1)
    assert [each.body for each in found] == [b"this one"]
