"""Questions of tools, asked by remoting, that a member which speaks gRPC answers."""

from __future__ import annotations

import json
import queue
import subprocess
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

from flightlog import Message
from flightlog.serve.remoting.admin import relayed
from flightlog.serve.remoting.wire.codes import RequestCode, ResponseCode
from flightlog.tests.cluster.java_words import program_of
from flightlog.tests.serve.test_refusals import METADATA
from flightlog.tests.support.remoting_client import RemotingClient
from flightlog.tests.support.remoting_server import RemotingStore
from flightlog.tests.support.rocketmq_java import JavaClientMissingError, fetch_client
from flightlog.tests.support.rocketmq_server import PATIENCE_S

CLIENT_ID = dict(METADATA)["x-mq-client-id"]
ASKED = {"consumerGroup": "billing", "clientId": CLIENT_ID, "jstackEnable": "true"}


class GrpcMember:
    """A push consumer as the server sees it."""

    def __init__(self, stub: MessagingServiceStub) -> None:
        self._sent: queue.Queue[Any] = queue.Queue()
        self.stream = stub.Telemetry(iter(self._sent.get, None), metadata=METADATA, timeout=PATIENCE_S)
        settings = definition.Settings(client_type=definition.PUSH_CONSUMER)
        settings.subscription.group.name = "billing"
        self.send(settings=settings)
        assert next(self.stream).status.code == definition.OK

    def send(self, code: int = definition.OK, **command: Any) -> None:
        self._sent.put(service.TelemetryCommand(status=definition.Status(code=code), **command))

    def close(self) -> None:
        self.stream.cancel()
        self._sent.put(None)


@pytest.fixture
def member(served: RemotingStore) -> Iterator[GrpcMember]:
    with grpc.insecure_channel(served.grpc_address) as channel:
        made = GrpcMember(MessagingServiceStub(channel))
        yield made
        made.close()


def test_it_shows_its_stacks(client: RemotingClient, member: GrpcMember) -> None:
    opaque = client.send(RequestCode.GET_CONSUMER_RUNNING_INFO, ASKED)
    nonce = next(member.stream).print_thread_stack_trace_command.nonce
    member.send(thread_stack_trace=service.ThreadStackTrace(nonce="another", thread_stack_trace="wrong"))
    member.send(thread_stack_trace=service.ThreadStackTrace(nonce=nonce, thread_stack_trace="main: at work"))
    found = client.answer(opaque)
    assert found.code == ResponseCode.SUCCESS
    assert json.loads(found.body) == {**relayed.NOTHING_RUNS, "jstack": "main: at work"}
    quick = client.call(RequestCode.GET_CONSUMER_RUNNING_INFO, {**ASKED, "jstackEnable": "false"})
    assert json.loads(quick.body) == relayed.NOTHING_RUNS, "it is not asked"


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (definition.OK, "CR_SUCCESS"),
        (definition.FAILED_TO_CONSUME_MESSAGE, "CR_LATER"),
        (definition.MESSAGE_CORRUPTED, "CR_RETURN_NULL"),
        (definition.INTERNAL_ERROR, None),
    ],
)
def test_it_consumes_a_message_directly(
    served: RemotingStore, client: RemotingClient, member: GrpcMember, code: int, result: str | None
) -> None:
    message_id = served.store.put(Message("orders", b"again", keys="k1")).message_id
    opaque = client.send(RequestCode.CONSUME_MESSAGE_DIRECTLY, {**ASKED, "msgId": message_id, "topic": "orders"})
    asked = next(member.stream).verify_message_command
    assert (asked.message.topic.name, asked.message.body) == ("orders", b"again")
    member.send(code, verify_message_result=service.VerifyMessageResult(nonce=asked.nonce))
    found = json.loads(client.answer(opaque).body)
    assert (found["consumeResult"], found["remark"]) == (result, "from gRPC client")


def test_who_asks_one_that_does_not_answer_is_told(
    client: RemotingClient, member: GrpcMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = client.call(RequestCode.GET_CONSUMER_RUNNING_INFO, {**ASKED, "consumerGroup": "others"})
    assert other.remark == f"The Consumer <others> <{CLIENT_ID}> not online"
    for code, text in (
        (definition.VERIFY_FIFO_MESSAGE_UNSUPPORTED, "forbidden to verify message"),
        (definition.INTERNAL_ERROR, "verify message failed"),
    ):
        opaque = client.send(RequestCode.GET_CONSUMER_RUNNING_INFO, ASKED)
        nonce = next(member.stream).print_thread_stack_trace_command.nonce
        member.send(code, thread_stack_trace=service.ThreadStackTrace(nonce=nonce))
        assert client.answer(opaque).remark == text
    with monkeypatch.context() as hurried:
        hurried.setattr(relayed, "ANSWER_S", 0.01)
        late = client.call(RequestCode.GET_CONSUMER_RUNNING_INFO, ASKED)
    assert late.code == ResponseCode.CONSUME_MSG_TIMEOUT
    nonce = next(member.stream).print_thread_stack_trace_command.nonce
    member.send(thread_stack_trace=service.ThreadStackTrace(nonce=nonce, thread_stack_trace="too late"))
    opaque = client.send(RequestCode.GET_CONSUMER_RUNNING_INFO, ASKED)
    next(member.stream)
    member.close()
    lost = client.answer(opaque)
    assert lost.remark == f"invoke consumer <billing> <{CLIENT_ID}> Exception: the client is gone"


@pytest.mark.ci
def test_rocketmqs_java_client_answers(served: RemotingStore, client: RemotingClient) -> None:
    try:
        jars = fetch_client()
    except JavaClientMissingError as e:
        pytest.skip(str(e))
    served.store.create_topic("orders", 1)
    command = program_of("GrpcClient.java", jars, served.path.with_name("home"), [], served.grpc_address, "counted")
    with subprocess.Popen([*command, "push", "billing", "orders", "2"], stdout=subprocess.PIPE, text=True) as member:
        try:
            assert member.stdout is not None
            first = served.store.put(Message("orders", b"counted 1"))
            assert member.stdout.readline().startswith("billing\torders\t")
            assert served.server is not None
            [consumer] = served.server.consumers()["billing"]
            asked = {**ASKED, "clientId": consumer.client_id}
            found = client.call(RequestCode.GET_CONSUMER_RUNNING_INFO, asked)
            assert "java.lang.Thread" in json.loads(found.body)["jstack"]
            asked = {**asked, "msgId": first.message_id, "topic": "orders"}
            found = client.call(RequestCode.CONSUME_MESSAGE_DIRECTLY, asked)
            assert json.loads(found.body)["consumeResult"] == "CR_SUCCESS"
            assert member.stdout.readline().startswith("billing\torders\t"), "its listener had it once more"
            served.store.put(Message("orders", b"counted 2"))
            assert member.stdout.read().endswith("done\n")
            assert member.wait(PATIENCE_S) == 0
        finally:
            member.kill()
