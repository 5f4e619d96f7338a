"""Clients that flood the server with frames, or have it hold bytes: they are cut off, and others are served."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import grpc
import h2.connection
import h2.events
import pytest
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
)
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

import flightlog
from flightlog.serve.http2 import grpc_connection
from flightlog.serve.http2.call import Call
from flightlog.serve.http2.grpc_connection import GrpcConnection
from flightlog.serve.http2.limits import HeldBytes, Rate
from flightlog.tests.serve.test_hostile_clients import PREFACE, QUERY, SETTINGS_FRAME
from flightlog.tests.serve.test_refusals import METADATA, a_receive
from flightlog.tests.support.memory_transport import MemoryTransport
from flightlog.tests.support.rocketmq_server import PATIENCE_S, ServedStore, deadline

HEADERS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", QUERY),
    (":authority", "here"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
]


def opening(stream_id: int, *flags: str) -> HeadersFrame:
    return HeadersFrame(stream_id, Encoder().encode(HEADERS), flags=["END_HEADERS", *flags])


def resets() -> Iterator[Frame]:
    for stream_id in range(1, 8001, 2):
        yield opening(stream_id)
        yield RstStreamFrame(stream_id, error_code=8)


def pings() -> Iterator[Frame]:
    for _ in range(40_000):
        yield PingFrame(0, b"12345678")


def settings() -> Iterator[Frame]:
    for number in range(40_000):
        yield SettingsFrame(0, {4: 65_535 + number % 2})


def priorities() -> Iterator[Frame]:
    for number in range(40_000):
        yield PriorityFrame(1 + 2 * (number % 100), stream_weight=3)


def goodbyes() -> Iterator[Frame]:
    yield opening(1)
    for _ in range(40_000):
        yield GoAwayFrame(0)


def empty_data() -> Iterator[Frame]:
    yield opening(1)
    for _ in range(40_000):
        yield DataFrame(1, b"")


def continuations() -> Iterator[Frame]:
    yield HeadersFrame(1, b"")
    for _ in range(2000):
        yield ContinuationFrame(1, b"\x00" * 100)


def header_bomb() -> Iterator[Frame]:
    encoder = Encoder()
    first = encoder.encode([*HEADERS, ("x", "y" * 4000)])
    yield HeadersFrame(1, first, flags=["END_HEADERS"])
    yield HeadersFrame(3, encoder.encode(HEADERS) + b"\xbe" * 10_000, flags=["END_HEADERS"])  # 10,000 times that header


def many_streams() -> Iterator[Frame]:
    for stream_id in range(1, 4001, 2):
        yield opening(stream_id)


@pytest.mark.parametrize(
    "flood", [resets, pings, settings, priorities, goodbyes, empty_data, continuations, header_bomb, many_streams]
)
def test_a_flood_ends_its_own_connection(
    served: ServedStore, monkeypatch: pytest.MonkeyPatch, flood: Callable[[], Iterator[Frame]]
) -> None:
    for rate in ("RESETS_PER_S", "CONTROLS_PER_S"):  # a slow machine could take as long as they allow
        monkeypatch.setattr(grpc_connection, rate, 0.0)
    data = PREFACE + SETTINGS_FRAME + b"".join(frame.serialize() for frame in flood())
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as connection:
        connection.setblocking(False)
        has_ended, ends_s, unsent = False, deadline(), memoryview(data)
        while not has_ended:
            assert time.monotonic() < ends_s, "the server goes on to take the flood"
            try:
                if unsent:
                    unsent = unsent[connection.send(unsent) :]
            except BlockingIOError:
                time.sleep(0.001)
            except ConnectionError:
                break
            try:
                has_ended = not connection.recv(1 << 16)
            except BlockingIOError:
                time.sleep(0.001)
            except ConnectionError:
                break
    assert is_served(served)


def is_served(served: ServedStore) -> bool:
    served.store.put(flightlog.Message("orders", b"still here"))
    with grpc.insecure_channel(served.address) as channel:
        first, *_ = MessagingServiceStub(channel).ReceiveMessage(a_receive(), metadata=METADATA, timeout=60)
    return bool(first.status.code == 20000)


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    async def handle(_: Call) -> None:
        pass

    made, transport = GrpcConnection(handle, lambda _: None), MemoryTransport()
    made.connection_made(transport)
    made.pause_writing()
    assert not transport.is_read
    made.resume_writing()
    assert transport.is_read


def test_requests_that_never_come_whole_are_refused(served: ServedStore) -> None:
    """Each call sends most of a request that is as large as may be, and waits."""
    size, ended = 15 << 20, 0
    client = h2.connection.H2Connection()
    client.initiate_connection()
    left = dict.fromkeys(range(1, 17, 2), size)
    for stream_id in left:
        client.send_headers(stream_id, HEADERS)
        client.send_data(stream_id, b"\0" + (16 << 20).to_bytes(4, "big"))
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as connection:
        while not ended:
            for stream_id in left:
                while count := min(left[stream_id], client.local_flow_control_window(stream_id), 1 << 14):
                    client.send_data(stream_id, bytes(count))
                    left[stream_id] -= count
            connection.sendall(client.data_to_send())
            assert any(left.values()), "the server takes more than it may hold"
            for event in client.receive_data(connection.recv(1 << 16)):
                if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                    ended += (b"grpc-status", b"8") in (event.headers or ())
        assert is_served(served)
    assert is_served(served)


def test_held_bytes_are_counted_for_all() -> None:
    every = HeldBytes(100)
    one, other = HeldBytes(80, every), HeldBytes(80, every)
    one.add(60)
    assert (one.has_room(20), one.has_room(21), other.has_room(40), other.has_room(41)) == (True, False, True, False)
    other.add(40)
    one.add(-10)
    assert (every.size, other.has_room(10), other.has_room(11)) == (90, True, False)
    other.clear()
    assert (every.size, other.size) == (50, 0)


def test_a_rate_is_its_burst_first() -> None:
    rate = Rate(5, 0.0)
    assert [rate.allows() for _ in range(7)] == [True] * 5 + [False] * 2
