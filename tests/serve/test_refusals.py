"""Every limit of RocketMQ's proxy, with its code and its text, as a plain gRPC client sees them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

import flightlog
from flightlog.tests.support.rocketmq_server import deadline

if TYPE_CHECKING:
    from flightlog.tests.support.rocketmq_server import ServedStore

METADATA = (("x-mq-client-id", "tester"), ("x-mq-client-version", "5.1.2"))
Change = Callable[[Any], None]


@pytest.fixture
def stub(served: ServedStore) -> Iterator[MessagingServiceStub]:
    with grpc.insecure_channel(served.address) as channel:
        yield MessagingServiceStub(channel)


def a_send(topic: str = "orders") -> Any:
    message = definition.Message(topic=definition.Resource(name=topic), body=b"body")
    message.system_properties.message_id = "01" * 17
    message.system_properties.message_type = definition.NORMAL
    return service.SendMessageRequest(messages=[message])


def a_receive(topic: str = "orders", group: str = "billing") -> Any:
    found = service.ReceiveMessageRequest(batch_size=1)
    found.group.name, found.message_queue.topic.name = group, topic
    found.invisible_duration.seconds, found.long_polling_timeout.seconds = 60, 5
    return found


def on_message(change: Change) -> Change:
    return lambda request: change(request.messages[0])


def on_system(change: Change) -> Change:
    return lambda request: change(request.messages[0].system_properties)


def set_field(name: str, value: Any) -> Change:
    return lambda target: setattr(target, name, value)


def set_seconds(name: str, value: int) -> Change:
    def change(target: Any) -> None:
        getattr(target, name).seconds = value

    return change


def set_property(name: str, value: str) -> Change:
    def change(request: Any) -> None:
        request.messages[0].user_properties[name] = value

    return change


def many_properties(request: Any) -> None:
    request.messages[0].user_properties.update({str(number): "" for number in range(129)})


def another_topic(request: Any) -> None:
    request.messages.add().CopyFrom(request.messages[0])
    request.messages[1].topic.name = "others"


def two_keys(request: Any) -> None:
    request.messages[0].system_properties.keys.append(" ")


SENDS = [
    (lambda request: request.ClearField("messages"), "MESSAGE_CORRUPTED", "no message to send"),
    (another_topic, "MESSAGE_CORRUPTED", "topic in message is not same"),
    (on_message(lambda message: message.ClearField("topic")), "ILLEGAL_TOPIC", "The specified topic is blank"),
    (
        on_message(lambda message: setattr(message.topic, "name", "TBW102")),
        "ILLEGAL_TOPIC",
        "cannot access system topic",
    ),
    (on_message(set_field("body", b"")), "MESSAGE_BODY_EMPTY", "message body cannot be empty"),
    (
        on_message(set_field("body", bytes((4 << 20) + 1))),
        "MESSAGE_BODY_TOO_LARGE",
        "message body cannot exceed the max 4194304",
    ),
    (
        set_property("a", "x" * (16 << 10)),
        "MESSAGE_PROPERTIES_TOO_LARGE",
        "the total size of user property is too large",
    ),
    (many_properties, "MESSAGE_PROPERTIES_TOO_LARGE", "too many user properties, max is 128"),
    (set_property("KEYS", "a"), "ILLEGAL_MESSAGE_PROPERTY_KEY", "property is used by system: KEYS"),
    (
        set_property("a", "\x01"),
        "ILLEGAL_MESSAGE_PROPERTY_KEY",
        "the value of property cannot contain control character",
    ),
    (on_system(set_field("tag", "a|b")), "ILLEGAL_MESSAGE_TAG", "tag cannot contain '|'"),
    (on_system(set_field("tag", " ")), "ILLEGAL_MESSAGE_TAG", "tag cannot be the char sequence of whitespace"),
    (two_keys, "ILLEGAL_MESSAGE_KEY", "key cannot be the char sequence of whitespace"),
    (on_system(set_field("message_id", "")), "ILLEGAL_MESSAGE_ID", "message id cannot be empty"),
    (on_system(set_field("message_group", "g" * 64)), "ILLEGAL_MESSAGE_GROUP", "message group exceed the max size 64"),
    (
        on_system(set_seconds("delivery_timestamp", 1_900_000_000_000)),
        "ILLEGAL_DELIVERY_TIME",
        "the max delay time of message is too large, max is 86400000",
    ),
    (on_system(set_field("priority", 3)), "NOT_IMPLEMENTED", "not implemented"),
    (on_system(set_field("lite_topic", "a")), "NOT_IMPLEMENTED", "not implemented"),
]


@pytest.mark.parametrize(("change", "code", "text"), SENDS, ids=[f"{i}-{code}" for i, (_, code, _) in enumerate(SENDS)])
def test_a_send_is_refused(stub: MessagingServiceStub, change: Change, code: str, text: str) -> None:
    request = a_send()
    change(request)
    found = stub.SendMessage(request, metadata=METADATA, timeout=60).status
    assert (definition.Code.Name(found.code), text in found.message) == (code, True), found


RECEIVES = [
    (set_seconds("invisible_duration", 9), "ILLEGAL_INVISIBLE_TIME", "the invisibleTime is too small. min is 10000"),
    (
        set_seconds("invisible_duration", 43_201),
        "ILLEGAL_INVISIBLE_TIME",
        "the invisibleTime is too large. max is 43200000",
    ),
    (
        lambda request: setattr(request.group, "name", "a b"),
        "ILLEGAL_CONSUMER_GROUP",
        "the specified group[a b] contains",
    ),
    (
        lambda request: setattr(request.group, "name", "CID_RMQ_SYS_x"),
        "ILLEGAL_CONSUMER_GROUP",
        "cannot use system consumer",
    ),
    (
        lambda request: request.filter_expression.MergeFrom(definition.FilterExpression(type=2, expression="a >")),
        "ILLEGAL_FILTER_EXPRESSION",
        "",
    ),
]


@pytest.mark.parametrize(
    ("change", "code", "text"), RECEIVES, ids=[f"{i}-{each[1]}" for i, each in enumerate(RECEIVES)]
)
def test_a_receive_is_refused_and_says_when(stub: MessagingServiceStub, change: Change, code: str, text: str) -> None:
    request = a_receive()
    change(request)
    first, last = stub.ReceiveMessage(request, metadata=METADATA, timeout=60)
    assert (definition.Code.Name(first.status.code), text in first.status.message) == (code, True), first
    assert last.WhichOneof("content") == "delivery_timestamp"


def test_a_receive_whose_client_does_not_wait_is_refused(stub: MessagingServiceStub) -> None:
    ends_s = deadline()
    while True:
        try:
            first, _ = stub.ReceiveMessage(a_receive(), metadata=METADATA, timeout=4.9)
            break
        except grpc.RpcError as e:  # a slow machine
            assert e.code() is grpc.StatusCode.DEADLINE_EXCEEDED and time.monotonic() < ends_s
    assert definition.Code.Name(first.status.code) == "ILLEGAL_POLLING_TIME"


def test_an_empty_poll_has_a_status_and_a_time(stub: MessagingServiceStub) -> None:
    first, last = stub.ReceiveMessage(a_receive(), metadata=METADATA, timeout=60)
    assert (first.status.code, first.status.message) == (definition.MESSAGE_NOT_FOUND, "no new message")
    assert last.delivery_timestamp.seconds > 0


def test_a_client_without_an_id_is_refused(stub: MessagingServiceStub) -> None:
    found = stub.SendMessage(a_send(), timeout=60).status
    assert (found.code, found.message) == (definition.CLIENT_ID_REQUIRED, "client id cannot be empty")


def test_a_client_without_settings_has_no_heart(stub: MessagingServiceStub) -> None:
    for call, request in ((stub.Heartbeat, service.HeartbeatRequest()), (stub.NotifyClientTermination, None)):
        found = call(request or service.NotifyClientTerminationRequest(), metadata=METADATA, timeout=60).status
        assert found.code == definition.UNRECOGNIZED_CLIENT_TYPE


def test_settings_that_are_none_end_the_stream(stub: MessagingServiceStub) -> None:
    command = service.TelemetryCommand(settings=definition.Settings())
    with pytest.raises(grpc.RpcError) as caught:
        list(stub.Telemetry(iter([command]), metadata=METADATA, timeout=60))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_settings_come_back_with_what_clients_cannot_do_without(stub: MessagingServiceStub, kind: str) -> None:
    settings = definition.Settings()
    if kind == "producer":
        settings.publishing.topics.add(name="orders")
    else:
        settings.client_type = definition.SIMPLE_CONSUMER
        settings.subscription.group.name = "billing"
    command = service.TelemetryCommand(settings=settings)
    [answer] = stub.Telemetry(iter([command]), metadata=METADATA, timeout=60)
    assert answer.status.code == definition.OK
    assert answer.settings.HasField("metric")
    backoff = answer.settings.backoff_policy
    if kind == "producer":
        assert backoff.WhichOneof("strategy") == "exponential_backoff"
        assert (answer.settings.publishing.max_body_size, backoff.max_attempts) == (4 << 20, 3)
    else:
        assert [each.seconds for each in backoff.customized_backoff.next][:3] == [1, 5, 10]
        assert (answer.settings.subscription.receive_batch_size, backoff.max_attempts) == (32, 17)


def test_a_topic_takes_messages_of_its_type_alone(served: ServedStore, stub: MessagingServiceStub) -> None:
    served.store.create_topic("steps", attributes={"message.type": "FIFO"})
    found = stub.SendMessage(a_send("steps"), metadata=METADATA, timeout=60).status
    assert found.code == definition.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert found.message == "TopicMessageType validate failed, the expected type is FIFO, but actual type is NORMAL"
    route = stub.QueryRoute(service.QueryRouteRequest(topic=definition.Resource(name="steps")), metadata=METADATA)
    assert {tuple(queue.accept_message_types) for queue in route.message_queues} == {(definition.FIFO,)}


def test_a_route_names_the_address_that_the_client_dialled(served: ServedStore, stub: MessagingServiceStub) -> None:
    request = service.QueryRouteRequest(topic=definition.Resource(name="orders"))
    [first, second] = stub.QueryRoute(request, metadata=METADATA, timeout=60).message_queues
    [address] = first.broker.endpoints.addresses
    assert (first.id, second.id, address.host, address.port) == (0, 1, "127.0.0.1", served.port)
    request.endpoints.scheme = definition.DOMAIN_NAME
    request.endpoints.addresses.add(host="docker.example.org", port=18081)
    for queue in stub.QueryRoute(request, metadata=METADATA, timeout=60).message_queues:
        assert queue.broker.endpoints == request.endpoints
        assert list(queue.accept_message_types) == [1, 2, 3, 4]


def test_a_topic_of_very_many_queues_is_refused_by_name(served: ServedStore, stub: MessagingServiceStub) -> None:
    """To go through them would hold up every client."""
    served.store.create_topic("huge", (1 << 31) - 1)
    topic, group = definition.Resource(name="huge"), definition.Resource(name="billing")
    answers = [
        stub.QueryRoute(service.QueryRouteRequest(topic=topic), metadata=METADATA, timeout=60),
        stub.QueryAssignment(service.QueryAssignmentRequest(topic=topic, group=group), metadata=METADATA, timeout=60),
        stub.SendMessage(a_send("huge"), metadata=METADATA, timeout=60),
        next(stub.ReceiveMessage(a_receive("huge"), metadata=METADATA, timeout=60)),
    ]
    for answer in answers:
        assert answer.status.code == definition.FORBIDDEN and "update_topic('huge'" in answer.status.message
    route = stub.QueryRoute(service.QueryRouteRequest(topic=definition.Resource(name="orders")), metadata=METADATA)
    assert route.message_queues


def test_a_topic_that_nobody_made_is_not_there(served: ServedStore) -> None:
    served.stop()
    served.auto_create = False
    served.start()
    with grpc.insecure_channel(served.address) as channel:
        stub = MessagingServiceStub(channel)
        request = service.QueryRouteRequest(topic=definition.Resource(name="orders"))
        found = stub.QueryRoute(request, metadata=METADATA, timeout=60).status
        assert found.code == definition.TOPIC_NOT_FOUND
        assert stub.SendMessage(a_send(), metadata=METADATA, timeout=60).status.code == definition.TOPIC_NOT_FOUND


def test_acknowledgements_are_answered_one_by_one(served: ServedStore, stub: MessagingServiceStub) -> None:
    served.store.put(flightlog.Message("orders", b"one"))
    _, received, _ = stub.ReceiveMessage(a_receive(), metadata=METADATA, timeout=60)
    handle = received.message.system_properties.receipt_handle
    request = service.AckMessageRequest()
    request.group.name, request.topic.name = "billing", "orders"
    for each in (handle, "no handle"):
        request.entries.add(receipt_handle=each, message_id="m")
    found = stub.AckMessage(request, metadata=METADATA, timeout=60)
    assert found.status.code == definition.MULTIPLE_RESULTS
    assert [each.status.code for each in found.entries] == [definition.OK, definition.INVALID_RECEIPT_HANDLE]
    served.clock.advance(60_000)
    changing = service.ChangeInvisibleDurationRequest(receipt_handle=handle)
    changing.group.name, changing.topic.name, changing.invisible_duration.seconds = "billing", "orders", 60
    answer = stub.ChangeInvisibleDuration(changing, metadata=METADATA, timeout=60)
    assert (answer.status.code, answer.status.message) == (
        definition.INVALID_RECEIPT_HANDLE,
        "receipt handle is expired",
    )
    assert answer.receipt_handle == handle


def test_a_message_goes_to_the_dead_letters_at_once(served: ServedStore, stub: MessagingServiceStub) -> None:
    served.store.put(flightlog.Message("orders", b"poison", tags="t"))
    _, received, _ = stub.ReceiveMessage(a_receive(), metadata=METADATA, timeout=60)
    request = service.ForwardMessageToDeadLetterQueueRequest(delivery_attempt=3)
    request.group.name, request.topic.name = "billing", "orders"
    request.receipt_handle = received.message.system_properties.receipt_handle
    assert stub.ForwardMessageToDeadLetterQueue(request, metadata=METADATA, timeout=60).status.code == definition.OK
    assert [(each.body, each.reconsume_times) for each in served.store.dead_letters("billing")] == [(b"poison", 3)]


def test_transactions_and_recalls_name_what_they_are_for(served: ServedStore, stub: MessagingServiceStub) -> None:
    served.store.create_topic("orders", attributes={"message.type": "MIXED"})
    request = service.EndTransactionRequest(topic=definition.Resource(name="orders"))
    assert stub.EndTransaction(request, metadata=METADATA).status.code == definition.INVALID_TRANSACTION_ID
    request.transaction_id, request.resolution = "unknown", definition.COMMIT
    found = stub.EndTransaction(request, metadata=METADATA).status
    assert (found.code, found.message) == (definition.INTERNAL_SERVER_ERROR, "cannot found transaction data")
    recall = service.RecallMessageRequest(topic=definition.Resource(name="orders"), recall_handle="?")
    assert stub.RecallMessage(recall, metadata=METADATA).status.message == "recall handle is invalid"


def test_what_the_proxy_does_not_do_is_unimplemented(stub: MessagingServiceStub) -> None:
    for call, request in (
        (stub.GetOffset, service.GetOffsetRequest()),
        (stub.UpdateOffset, service.UpdateOffsetRequest()),
        (stub.QueryOffset, service.QueryOffsetRequest()),
        (stub.SyncLiteSubscription, service.SyncLiteSubscriptionRequest()),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(request, metadata=METADATA, timeout=60)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_batch_is_one_request(served: ServedStore, stub: MessagingServiceStub) -> None:
    request = a_send()
    for number in range(31):
        request.messages.add().CopyFrom(request.messages[0])
        request.messages[-1].system_properties.message_id = f"{number:034X}"
    found = stub.SendMessage(request, metadata=METADATA, timeout=60)
    assert found.status.code == definition.OK
    assert [each.message_id for each in found.entries] == [m.system_properties.message_id for m in request.messages]
    assert sum(end for (topic, _), (_, end) in served.store.queues().items() if topic == "orders") == 32
