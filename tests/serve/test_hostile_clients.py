"""Clients that send nonsense, or nothing, or go away: the others are served as before."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

import flightlog
from flightlog.serve.http2.certificates import development_tls
from flightlog.tests.serve.conftest import SETTINGS
from flightlog.tests.serve.test_refusals import METADATA, a_receive
from flightlog.tests.support.rocketmq_server import PATIENCE_S, ServedStore, deadline

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

QUERY = "/apache.rocketmq.v2.MessagingService/QueryRoute"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS_FRAME = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


@pytest.fixture
def is_served(served: ServedStore) -> Iterator[Callable[[], bool]]:
    """Whether a message comes to a client that behaves."""

    def check() -> bool:
        served.store.put(flightlog.Message("orders", b"still here"))
        with grpc.insecure_channel(served.address) as channel:
            first, *_ = MessagingServiceStub(channel).ReceiveMessage(a_receive(), metadata=METADATA, timeout=60)
        return bool(first.status.code == 20000)

    yield check


def ends(connection: socket.socket) -> bool:
    """Whether the server closes the connection, whatever it says before."""
    connection.settimeout(PATIENCE_S)
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"\x16\x03\x01\x02\x00",  # a client that wants TLS, of a server without
        PREFACE + b"\xff" * 64,
        PREFACE + SETTINGS_FRAME + b"\x00\x00\x04\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff",  # headers that are none
        PREFACE + SETTINGS_FRAME + b"\x00\x00\x05\x00\x00\x00\x00\x00\x07hello",  # data of no stream
    ],
)
def test_nonsense_ends_its_own_connection(served: ServedStore, is_served: Callable[[], bool], data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(data)
        assert ends(connection)
    assert is_served()


def test_clients_that_say_nothing_hold_nobody_up(served: ServedStore, is_served: Callable[[], bool]) -> None:
    silent = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(50)]
    halves = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(50)]
    try:
        for connection in halves:
            connection.sendall(PREFACE + SETTINGS_FRAME)
        assert is_served()
    finally:
        for connection in silent + halves:
            connection.close()
    assert is_served()


def test_many_tls_handshakes_at_once_all_end(tmp_path: Path, assert_clean: AssertClean) -> None:
    made = ServedStore(tmp_path / "store", SETTINGS, development_tls(tmp_path / "tls", ()))
    made.start()
    try:
        trusting = ssl.create_default_context(cafile=tmp_path / "tls" / "ca.pem")
        trusting.set_alpn_protocols(["h2"])

        def shake(_: int) -> str | None:
            with (
                socket.create_connection(("127.0.0.1", made.port), PATIENCE_S) as plain,
                trusting.wrap_socket(plain, server_hostname="localhost") as secured,
            ):
                return secured.selected_alpn_protocol()

        with ThreadPoolExecutor(20) as threads:
            assert list(threads.map(shake, range(40))) == ["h2"] * 40
    finally:
        made.stop()
    assert_clean(made.path)


def call_with(address: str, data: bytes, **options: Any) -> grpc.RpcError:
    with grpc.insecure_channel(address, **options) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(QUERY)(data, metadata=METADATA, timeout=PATIENCE_S)
    return caught.value


def test_a_request_that_is_none_is_an_invalid_argument(served: ServedStore) -> None:
    assert call_with(served.address, b"\xff\xff\xff").code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_request_that_is_too_large_is_refused(served: ServedStore, is_served: Callable[[], bool]) -> None:
    assert call_with(served.address, bytes(17 << 20)).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert is_served()


def test_a_compressed_request_is_refused(served: ServedStore) -> None:
    found = call_with(served.address, bytes(4096), compression=grpc.Compression.Gzip)
    assert found.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_call_that_is_none_is_unimplemented(served: ServedStore) -> None:
    with grpc.insecure_channel(served.address) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/apache.rocketmq.v2.MessagingService/Fly")(b"", timeout=PATIENCE_S)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_receive_that_is_cancelled_keeps_no_message(served: ServedStore, is_served: Callable[[], bool]) -> None:
    request = a_receive()
    request.long_polling_timeout.seconds = 20
    with grpc.insecure_channel(served.address) as channel:
        receiving = MessagingServiceStub(channel).ReceiveMessage(request, metadata=METADATA, timeout=60)
        receiving.cancel()
    assert is_served()


def test_a_receive_that_waits_is_answered_when_the_server_ends(served: ServedStore) -> None:
    request = a_receive()
    request.long_polling_timeout.seconds = 20
    with grpc.insecure_channel(served.address) as channel:
        stub = MessagingServiceStub(channel)
        assert stub.QueryRoute(service.QueryRouteRequest(topic=request.message_queue.topic), metadata=METADATA)
        receiving = stub.ReceiveMessage(request, metadata=METADATA, timeout=60)
        ends_s = deadline()
        while not served.server.waiting_count:
            assert time.monotonic() < ends_s
            time.sleep(0.01)
        served.stop()
        first, _ = receiving
        assert first.status.message == "no new message"
    served.start()


def test_a_large_answer_waits_for_a_slow_reader(served: ServedStore) -> None:
    body = bytes(700 << 10)
    for _ in range(10):
        served.store.put(flightlog.Message("orders", body))
    options = [("grpc.max_receive_message_length", -1), ("grpc.http2.lookahead_bytes", 65535)]
    with grpc.insecure_channel(served.address, options=options) as channel:
        bodies: list[bytes] = []
        while len(bodies) < 10:
            request = a_receive()
            request.batch_size = 32
            answers = MessagingServiceStub(channel).ReceiveMessage(request, metadata=METADATA, timeout=60)
            bodies += [each.message.body for each in answers if each.HasField("message")]
    assert bodies == [body] * 10
