"""Access control as clients meet it: RocketMQ's own, and each call by plain gRPC."""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

from flightlog.serve.access.acl_file import AclFile
from flightlog.tests.serve.conftest import SETTINGS
from flightlog.tests.serve.test_refusals import METADATA, a_receive, a_send
from flightlog.tests.support.rocketmq_clients import PythonClients, receive_until
from flightlog.tests.support.rocketmq_server import PATIENCE_S, ServedStore, deadline

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

SECRET = "12345678"
ACL = f"""
accounts:
  - accessKey: application
    secretKey: {SECRET}
    defaultGroupPerm: DENY
    topicPerms: [orders=PUB|SUB, events=SUB, audit=PUB]
    groupPerms: [billing=SUB]
  - accessKey: administrator
    secretKey: {SECRET}
    admin: true
"""


@pytest.fixture
def guarded(tmp_path: Path, assert_clean: AssertClean) -> Iterator[ServedStore]:
    (tmp_path / "plain_acl.yml").write_text(ACL)
    made = ServedStore(tmp_path / "store", SETTINGS, acl=AclFile(tmp_path / "plain_acl.yml"))
    made.start()
    for topic in ("orders", "events", "audit", "secret"):
        made.store.create_topic(topic)
    yield made
    made.stop()
    assert_clean(made.path)


def metadata(key: str = "application", secret: str = SECRET) -> Any:
    now = "20260101T000000Z"
    signature = hmac.new(secret.encode(), now.encode(), "sha1").hexdigest().upper()
    header = f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={signature}"
    return (*METADATA, ("x-mq-date-time", now), ("authorization", header))


def named(call: str, topic: str = "", group: str = "", **fields: Any) -> Any:
    request = getattr(service, f"{call}Request")(**fields)
    if topic:
        request.topic.name = topic
    if group:
        request.group.name = group
    return request


TOPIC, GROUP = "No default permission for topic:secret", "No default permission for group:others"
REFUSED = [
    ("SendMessage", a_send("secret"), TOPIC),
    ("SendMessage", a_send("events"), "No permission for topic:events"),
    ("QueryRoute", named("QueryRoute", "secret"), TOPIC),
    ("QueryAssignment", named("QueryAssignment", "orders", "others"), GROUP),
    ("Heartbeat", named("Heartbeat", group="others"), GROUP),
    ("NotifyClientTermination", named("NotifyClientTermination", group="others"), GROUP),
    ("AckMessage", named("AckMessage", "secret", "billing"), TOPIC),
    ("ChangeInvisibleDuration", named("ChangeInvisibleDuration", "orders", "others"), GROUP),
    ("ForwardMessageToDeadLetterQueue", named("ForwardMessageToDeadLetterQueue", "orders", "others"), GROUP),
    ("EndTransaction", named("EndTransaction", "secret", transaction_id="t"), TOPIC),
    ("RecallMessage", named("RecallMessage", "secret"), TOPIC),
]


@pytest.mark.parametrize(
    ("call", "request_", "told"), REFUSED, ids=[f"{i}-{each[0]}" for i, each in enumerate(REFUSED)]
)
def test_a_call_without_permission_is_refused(guarded: ServedStore, call: str, request_: Any, told: str) -> None:
    with grpc.insecure_channel(guarded.address) as channel:
        answer = getattr(MessagingServiceStub(channel), call)
        found = answer(request_, metadata=metadata(), timeout=PATIENCE_S).status
        assert (found.code, found.message) == (definition.UNAUTHORIZED, told)
        for shown, reason in (
            (METADATA, "No accessKey is configured"),
            (metadata("nobody"), "No acl config for nobody"),
            (metadata(secret="something else"), "Check signature failed for accessKey=application"),
        ):
            found = answer(request_, metadata=shown, timeout=PATIENCE_S).status
            assert (found.code, found.message) == (definition.UNAUTHORIZED, reason)
        found = answer(request_, metadata=metadata("administrator"), timeout=PATIENCE_S).status
        assert found.code != definition.UNAUTHORIZED


@pytest.mark.parametrize(("topic", "group", "told"), [("secret", "billing", TOPIC), ("orders", "others", GROUP)])
def test_a_receive_without_permission_is_refused(guarded: ServedStore, topic: str, group: str, told: str) -> None:
    with grpc.insecure_channel(guarded.address) as channel:
        [answer] = MessagingServiceStub(channel).ReceiveMessage(
            a_receive(topic, group), metadata=metadata(), timeout=60
        )
        assert (answer.status.code, answer.status.message) == (definition.UNAUTHORIZED, told)


def publishing(topic: str) -> Any:
    settings = definition.Settings()
    settings.publishing.topics.add(name=topic)
    return settings


def subscribing(group: str, topic: str) -> Any:
    settings = definition.Settings(client_type=definition.SIMPLE_CONSUMER)
    settings.subscription.group.name = group
    settings.subscription.subscriptions.add().topic.name = topic
    return settings


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (publishing("orders"), "OK"),
        (publishing("events"), "No permission for topic:events"),
        (subscribing("billing", "events"), "OK"),
        (subscribing("billing", "audit"), "No permission for topic:audit"),
        (subscribing("others", "events"), GROUP),
    ],
)
def test_settings_need_what_they_name(guarded: ServedStore, settings: Any, told: str) -> None:
    with grpc.insecure_channel(guarded.address) as channel:
        commands = iter([service.TelemetryCommand(settings=settings)])
        [answer] = MessagingServiceStub(channel).Telemetry(commands, metadata=metadata(), timeout=PATIENCE_S)
        assert answer.status.message == told
        assert answer.HasField("settings") == (told == "OK")


def test_no_namespace_leads_around_a_permission(guarded: ServedStore) -> None:
    request = a_send("secret")
    request.messages[0].topic.resource_namespace = "orders"
    with grpc.insecure_channel(guarded.address) as channel:
        found = MessagingServiceStub(channel).SendMessage(request, metadata=metadata(), timeout=PATIENCE_S).status
    assert (found.code, found.message) == (definition.UNAUTHORIZED, TOPIC)


@pytest.fixture
def clients(guarded: ServedStore) -> Iterator[PythonClients]:
    with ExitStack() as undo:
        made = PythonClients(guarded, undo)
        made.credentials = made.rocketmq.Credentials("application", SECRET)
        yield made


def test_python_sends_and_receives_what_it_may(guarded: ServedStore, clients: PythonClients) -> None:
    producer = clients.producer("orders")
    producer.send(clients.message("orders", b"allowed"))
    [received] = receive_until(clients.simple_consumer("billing", {"orders": clients.filter("*", is_sql=False)}), 1)
    assert received.body == b"allowed"
    with pytest.raises(Exception, match="failed to fetch topic:secret route"):
        producer.send(clients.message("secret", b"refused"))
    with pytest.raises(Exception, match="No permission for topic:events"):
        producer.send(clients.message("events", b"refused"))
    assert not any(topic in ("secret", "events") and end for (topic, _), (_, end) in guarded.store.queues().items())


@pytest.mark.parametrize(
    ("keys", "told"),
    [(("application", "else"), "Check signature failed for accessKey=application"), ((), "No acl config for ")],
)
def test_python_with_wrong_keys_is_refused(
    clients: PythonClients, caplog: pytest.LogCaptureFixture, keys: tuple[str, ...], told: str
) -> None:
    clients.credentials = clients.rocketmq.Credentials(*keys)
    producer = clients.producer("orders")
    with pytest.raises(Exception, match="failed to fetch topic:orders route"):  # it says more to its log alone
        producer.send(clients.message("orders", b"refused"))
    assert told in caplog.text


def test_a_change_of_the_file_counts_without_a_restart(guarded: ServedStore, tmp_path: Path) -> None:
    with grpc.insecure_channel(guarded.address) as channel:
        stub = MessagingServiceStub(channel)

        def code() -> Any:
            return stub.SendMessage(a_send("secret"), metadata=metadata(), timeout=PATIENCE_S).status.code

        assert code() == definition.UNAUTHORIZED
        (tmp_path / "plain_acl.yml").write_text(ACL.replace("audit=PUB", "audit=PUB, secret=PUB"))
        ends_s = deadline()
        while code() != definition.OK:
            assert time.monotonic() < ends_s
            time.sleep(0.05)
