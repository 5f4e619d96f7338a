"""What one client and one address may have at work, over all of their connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from rocketmq.grpc_protocol import service_pb2
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

from flightlog import Message
from flightlog.serve.access.at_work import AtWork, Most, TooMuchAtWorkError
from flightlog.serve.calls import service as grpc_service
from flightlog.serve.calls.protocol import Code
from flightlog.serve.http2 import limits
from flightlog.serve.http2.limits import HeldByAddress
from flightlog.serve.remoting import service as remoting_service
from flightlog.serve.remoting.wire.codes import RequestCode, ResponseCode
from flightlog.tests.serve.conftest import SETTINGS
from flightlog.tests.serve.remoting.test_remoting_calls import PULL, SUSPENDED
from flightlog.tests.serve.remoting.test_remoting_calls import a_send as remoting_send
from flightlog.tests.serve.test_refusals import a_receive, a_send
from flightlog.tests.support.remoting_client import RemotingClient
from flightlog.tests.support.remoting_server import RemotingStore
from flightlog.tests.support.rocketmq_server import PATIENCE_S, ServedStore, deadline

if TYPE_CHECKING:
    from pathlib import Path

    from flightlog.tests.conftest import AssertClean

ONE, OTHER = ((("x-mq-client-id", name), ("x-mq-client-version", "5.1.2")) for name in ("one", "other"))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """To be asked for before the server."""
    monkeypatch.setattr(grpc_service, "OF_CLIENT", Most(2, 1000))
    monkeypatch.setattr(grpc_service, "OF_ADDRESS", Most(3, 1500))
    monkeypatch.setattr(grpc_service, "STREAMS_OF_CLIENT", Most(1, 0))
    monkeypatch.setattr(remoting_service, "OF_CONNECTION", Most(2, 1000))
    monkeypatch.setattr(remoting_service, "OF_ADDRESS", Most(3, 1500))


@pytest.fixture
def stub(few: None, served: ServedStore) -> Iterator[MessagingServiceStub]:
    served.store.create_topic("orders", 1)
    with grpc.insecure_channel(served.address) as channel:
        yield MessagingServiceStub(channel)


@pytest.fixture
def remoting(few: None, tmp_path: Path, assert_clean: AssertClean) -> Iterator[RemotingStore]:
    made = RemotingStore(tmp_path / "store", SETTINGS)
    yield made
    made.stop()
    assert_clean(made.path)


def test_requests_and_bytes_are_counted_for_client_and_address() -> None:
    work = AtWork(Most(2, 100), Most(3, 150))
    with work.one("a", "here", 60):
        refused(work, "a", "here", 41)
        with work.one("a", "here", 40):
            refused(work, "a", "here", 0)
            refused(work, "b", "here", 51)
            with work.one("b", "here", 50):
                refused(work, "c", "here", 0)
                with work.one("c", "there", 100):
                    pass
        with pytest.raises(KeyError), work.one("a", "here", 40):
            raise KeyError
        with work.one("a", "here", 40):
            pass
    with work.one("a", "here", 100):
        pass


def refused(work: AtWork, client: str, address: str, size: int) -> None:
    with pytest.raises(TooMuchAtWorkError, match="flow limit"), work.one(client, address, size):
        pytest.fail("it was let in")


def test_a_client_with_too_much_at_work_is_refused_and_others_are_not(
    stub: MessagingServiceStub, served: ServedStore
) -> None:
    asked = a_receive()
    asked.long_polling_timeout.seconds = 20
    waiting = [stub.ReceiveMessage(asked, metadata=ONE, timeout=PATIENCE_S) for _ in range(2)]
    ends_s = deadline()
    while served.server.waiting_count < 2:
        assert time.monotonic() < ends_s
        time.sleep(0.01)
    [status, *rest] = stub.ReceiveMessage(a_receive(), metadata=ONE, timeout=PATIENCE_S)
    assert (status.status.code, status.status.message, rest) == (Code.TOO_MANY_REQUESTS, "flow limit", [])
    assert stub.SendMessage(a_send(), metadata=ONE, timeout=PATIENCE_S).status.code == Code.TOO_MANY_REQUESTS
    large = a_send()
    large.messages[0].body = bytes(1001)
    assert stub.SendMessage(large, metadata=OTHER, timeout=PATIENCE_S).status.code == Code.TOO_MANY_REQUESTS
    for _ in range(2):  # wakes one, and is for the other
        assert stub.SendMessage(a_send(), metadata=OTHER, timeout=PATIENCE_S).status.code == Code.OK
    assert [next(iter(each)).status.code for each in waiting] == [Code.OK, Code.OK]
    assert stub.SendMessage(a_send(), metadata=ONE, timeout=PATIENCE_S).status.code == Code.OK


def test_streams_of_a_client_are_limited(stub: MessagingServiceStub) -> None:
    ending = threading.Event()
    first = stub.Telemetry(commands(ending), metadata=ONE, timeout=PATIENCE_S)
    assert next(first).status.code == Code.OK
    with pytest.raises(grpc.RpcError) as caught:
        next(stub.Telemetry(commands(ending), metadata=ONE, timeout=PATIENCE_S))
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "flow limit")
    assert next(stub.Telemetry(commands(ending), metadata=OTHER, timeout=PATIENCE_S)).status.code == Code.OK
    ending.set()


def commands(ending: threading.Event) -> Iterator[Any]:
    command = service_pb2.TelemetryCommand()
    command.settings.publishing.topics.add(name="orders")
    yield command
    ending.wait(PATIENCE_S)


def test_a_remoting_client_with_too_much_at_work_is_told_that_the_server_is_busy(
    remoting: RemotingStore,
) -> None:
    remoting.store.create_topic("orders", 1)
    with RemotingClient(remoting.port) as one, RemotingClient(remoting.port) as other:
        waiting = [one.send(RequestCode.PULL_MESSAGE, PULL | SUSPENDED) for _ in range(2)]
        busy = one.call(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert (busy.code, busy.remark) == (ResponseCode.SYSTEM_BUSY, remoting_service.BUSY)
        assert other.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == ResponseCode.SUCCESS
        assert other.call(RequestCode.SEND_MESSAGE_V2, remoting_send(), bytes(1001)).code == ResponseCode.SYSTEM_BUSY
        remoting.store.put(Message("orders", b"body"))
        assert [one.answer(opaque).code for opaque in waiting] == [ResponseCode.SUCCESS] * 2
        assert one.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == ResponseCode.SUCCESS


def test_bytes_that_wait_are_counted_for_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_HELD_OF_ADDRESS", 100)
    held = HeldByAddress()
    held.of("here").add(80)  # forgotten: no connection counts by it
    first = held.of("here")
    first.add(80)
    assert (held.of("here").has_room(20), held.of("here").has_room(21), held.of("there").has_room(100)) == (
        True,
        False,
        True,
    )
