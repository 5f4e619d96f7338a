"""Clients that say GOAWAY, as grpc-java and grpc-js do when they shut down: their calls come to their end."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import h2.connection
import h2.events
import pytest
from hyperframe.frame import GoAwayFrame
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

from flightlog.tests.serve.test_flooding_clients import HEADERS
from flightlog.tests.serve.test_refusals import METADATA
from flightlog.tests.support.rocketmq_server import PATIENCE_S, ServedStore

NO_ERROR, PROTOCOL_ERROR = 0, 1


class LeavingClient:
    """One connection, with a call whose request is not complete."""

    def __init__(self, tcp: socket.socket) -> None:
        self._tcp = tcp
        self._http = h2.connection.H2Connection()
        self._http.initiate_connection()

    def begin_call(self) -> None:
        self._http.send_headers(1, [*HEADERS, *METADATA])
        self._flush()

    def go_away(self, error: int) -> None:
        """Our own h2 would send nothing behind it."""
        self._flush()
        self._tcp.sendall(GoAwayFrame(0, error_code=error).serialize())

    def end_call(self) -> None:
        request = service.QueryRouteRequest(topic=definition.Resource(name="orders")).SerializeToString()
        self._http.send_data(1, b"\x00" + len(request).to_bytes(4, "big") + request, end_stream=True)
        self._flush()

    def _flush(self) -> None:
        self._tcp.sendall(self._http.data_to_send())

    def events(self) -> Iterator[h2.events.Event]:
        """What the server sends until it closes the connection."""
        while data := self._tcp.recv(1 << 16):
            yield from self._http.receive_data(data)


@pytest.fixture
def leaving(served: ServedStore) -> Iterator[LeavingClient]:
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as tcp:
        yield LeavingClient(tcp)


def test_a_call_ends_after_its_client_said_goaway(leaving: LeavingClient) -> None:
    leaving.begin_call()
    leaving.go_away(NO_ERROR)
    leaving.end_call()
    seen = list(leaving.events())  # it ends: the server closes the connection behind the last answer
    assert not [each for each in seen if isinstance(each, (h2.events.StreamReset, h2.events.ConnectionTerminated))]
    [trailers] = [dict(each.headers or ()) for each in seen if isinstance(each, h2.events.TrailersReceived)]
    assert trailers[b"grpc-status"] == b"0"
    answers = b"".join(each.data or b"" for each in seen if isinstance(each, h2.events.DataReceived))
    assert service.QueryRouteResponse.FromString(answers[5:]).status.code == definition.OK


def test_a_client_without_calls_that_says_goaway_is_let_go(leaving: LeavingClient) -> None:
    leaving.go_away(NO_ERROR)
    assert not [each for each in leaving.events() if isinstance(each, h2.events.ConnectionTerminated)]


def test_a_client_that_names_an_error_is_let_go_at_once(leaving: LeavingClient) -> None:
    leaving.begin_call()
    leaving.go_away(PROTOCOL_ERROR)
    assert not [each for each in leaving.events() if isinstance(each, h2.events.ResponseReceived)]
