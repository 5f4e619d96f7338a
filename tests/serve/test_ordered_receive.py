"""An ordered group receives in order: a queue is blocked until what was received from it is acknowledged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

from flightlog import Message
from flightlog.tests.serve.test_refusals import METADATA, a_receive
from flightlog.tests.support.rocketmq_server import PATIENCE_S, deadline

if TYPE_CHECKING:
    from flightlog.tests.support.rocketmq_server import ServedStore

LONG_POLL_S = 20


@pytest.fixture
def stub(served: ServedStore) -> Iterator[MessagingServiceStub]:
    served.store.update_group("billing", is_ordered=True)
    served.store.create_topic("orders", 1)
    for number in range(3):
        served.store.put(Message("orders", b"%d" % number))
    with grpc.insecure_channel(served.address) as channel:
        yield MessagingServiceStub(channel)


def a_call(attempt_id: str = "", count: int = 1) -> Any:
    found = a_receive()
    found.batch_size, found.long_polling_timeout.seconds = count, LONG_POLL_S
    if attempt_id:
        found.attempt_id = attempt_id
    return found


def messages(parts: Any) -> list[Any]:
    return [part.message for part in parts if part.HasField("message")]


def receive(stub: MessagingServiceStub, attempt_id: str = "", count: int = 1) -> list[Any]:
    ends_s = deadline()
    while True:
        found = messages(stub.ReceiveMessage(a_call(attempt_id, count), metadata=METADATA, timeout=PATIENCE_S))
        if found:
            return found
        assert time.monotonic() < ends_s


def ack(stub: MessagingServiceStub, *received: Any) -> int:
    request = service.AckMessageRequest()
    request.group.name, request.topic.name = "billing", "orders"
    for message in received:
        request.entries.add(receipt_handle=message.system_properties.receipt_handle)
    return int(stub.AckMessage(request, metadata=METADATA, timeout=PATIENCE_S).status.code)


def wait_until_one_waits(served: ServedStore) -> None:
    ends_s = deadline()
    while not served.server.waiting_count:
        assert time.monotonic() < ends_s
        time.sleep(0.01)


def test_an_acknowledgement_wakes_a_receive_that_waits_for_the_queue(
    served: ServedStore, stub: MessagingServiceStub
) -> None:
    [first] = receive(stub)
    waiting = stub.ReceiveMessage(a_call(), metadata=METADATA, timeout=PATIENCE_S)
    wait_until_one_waits(served)
    assert ack(stub, first) == definition.OK
    [second] = messages(waiting)
    assert (first.body, second.body) == (b"0", b"1")


def test_an_acknowledgement_by_python_wakes_it_as_well(served: ServedStore, stub: MessagingServiceStub) -> None:
    [popped] = served.store.receive("billing", "orders", 1)
    waiting = stub.ReceiveMessage(a_call(), metadata=METADATA, timeout=PATIENCE_S)
    wait_until_one_waits(served)
    served.store.ack(popped.handle)
    assert [each.body for each in messages(waiting)] == [b"1"]


def test_a_queue_is_free_once_the_invisible_time_is_over(stub: MessagingServiceStub) -> None:
    [first] = receive(stub)
    request = service.ChangeInvisibleDurationRequest(receipt_handle=first.system_properties.receipt_handle)
    request.group.name, request.topic.name, request.invisible_duration.seconds = "billing", "orders", 1
    changed = stub.ChangeInvisibleDuration(request, metadata=METADATA, timeout=PATIENCE_S)
    assert changed.status.code == definition.OK
    [again] = receive(stub)
    assert (again.body, again.system_properties.delivery_attempt) == (b"0", 2)


def test_the_same_attempt_receives_the_same_again(stub: MessagingServiceStub) -> None:
    lost = receive(stub, "attempt-1", 2)
    again = receive(stub, "attempt-1", 2)
    assert [each.body for each in again] == [each.body for each in lost] == [b"0", b"1"]
    assert [each.system_properties.delivery_attempt for each in again] == [1, 1]
    assert ack(stub, *lost) == definition.INVALID_RECEIPT_HANDLE
    assert ack(stub, *again) == definition.OK
    assert [each.body for each in receive(stub)] == [b"2"]


def test_an_attempt_of_a_group_without_order_is_of_no_matter(served: ServedStore, stub: MessagingServiceStub) -> None:
    served.store.update_group("billing", is_ordered=False)
    assert [each.body for each in receive(stub, "attempt-1")] == [b"0"]
    assert [each.body for each in receive(stub, "attempt-1")] == [b"1"]


def test_a_dead_letter_frees_the_queue(served: ServedStore, stub: MessagingServiceStub) -> None:
    [first] = receive(stub)
    request = service.ForwardMessageToDeadLetterQueueRequest(delivery_attempt=1, max_delivery_attempts=1)
    request.group.name, request.topic.name = "billing", "orders"
    request.receipt_handle = first.system_properties.receipt_handle
    forwarded = stub.ForwardMessageToDeadLetterQueue(request, metadata=METADATA, timeout=PATIENCE_S)
    assert forwarded.status.code == definition.OK
    assert [each.body for each in receive(stub)] == [b"1"]
    assert [each.body for each in served.store.dead_letters("billing")] == [b"0"]
