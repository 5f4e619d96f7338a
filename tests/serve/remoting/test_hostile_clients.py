"""Clients that break the protocol, that do not read, and that are many: the others are served all the same."""

from __future__ import annotations

import select
from contextlib import suppress

import pytest

from flightlog import Message
from flightlog.serve.remoting.wire import connection, frame
from flightlog.serve.remoting.wire.codes import RequestCode, ResponseCode
from flightlog.tests.serve.remoting.test_remoting_calls import PULL, QUEUE, SUSPENDED
from flightlog.tests.support.remoting_client import PATIENCE_S, RemotingClient
from flightlog.tests.support.remoting_server import RemotingStore


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        (frame.MAX_LENGTH + 1).to_bytes(4, "big"),
        b"\x00\x00\x00\x08\x00\x00\x00\xff????",
        b"\x00\x00\x00\x08\x07\x00\x00\x04????",
        b"\x00\x00\x00\x08\x01\x00\x00\x04????",
    ],
    ids=["http", "tls", "long", "header", "kind", "binary"],
)
def test_who_sends_no_frame_is_closed(served: RemotingStore, client: RemotingClient, data: bytes) -> None:
    with RemotingClient(served.port) as hostile:
        hostile.raw(data)
        assert hostile.next() is None
    assert client.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0


def test_half_frames_of_many_clients_are_bounded(
    served: RemotingStore, client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "INTAKE_MAX", 1 << 20)
    half = (8 << 20).to_bytes(4, "big") + bytes(400_000)
    hostile = [RemotingClient(served.port) for _ in range(3)]
    for each in hostile:
        with suppress(ConnectionError):  # it may be closed before all is sent
            each.raw(half)
    closed, _, _ = select.select(hostile, [], [], PATIENCE_S)
    assert [each.next() for each in closed] == [None]
    assert client.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0
    for each in hostile:
        each.close()


def test_many_connections_are_served(served: RemotingStore) -> None:
    clients = [RemotingClient(served.port) for _ in range(300)]
    asked = [each.send(RequestCode.GET_BROKER_CLUSTER_INFO) for each in clients]
    assert [each.answer(opaque).code for each, opaque in zip(clients, asked, strict=True)] == [0] * 300
    for each in clients:
        each.close()


def test_more_requests_than_may_be_at_work_are_answered_later(
    served: RemotingStore, client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_RUNNING", 4)
    served.store.create_topic("orders", 1)
    waiting = [client.send(RequestCode.PULL_MESSAGE, SUSPENDED) for _ in range(4)]
    later = client.send(RequestCode.GET_MAX_OFFSET, QUEUE)
    served.store.put(Message("orders", b"now"))
    assert [client.answer(opaque).code for opaque in waiting] == [ResponseCode.SUCCESS] * 4
    assert client.answer(later).fields["offset"] == "1"


def test_who_does_not_read_is_closed(
    served: RemotingStore, client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "UNREAD_MAX", 1 << 20)
    served.store.create_topic("orders", 1)
    served.store.put_many([Message("orders", bytes(100_000))] * 32)
    with RemotingClient(served.port) as hostile:
        for _ in range(200):
            try:
                hostile.send(RequestCode.PULL_MESSAGE, PULL)
            except OSError:
                break
        while hostile.next() is not None:
            pass
    assert client.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0
