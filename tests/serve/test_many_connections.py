"""10,000 connections that say nothing and 1,000 receives that wait: the others are served as ever. So on the remoting
port."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import psutil
import pytest
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

from flightlog.serve.remoting.listener import MAX_CONNECTIONS
from flightlog.serve.remoting.wire import frame
from flightlog.serve.remoting.wire.codes import RequestCode, ResponseCode
from flightlog.serve.remoting.wire.command import Command
from flightlog.tests.serve.remoting.test_remoting_calls import SUSPENDED
from flightlog.tests.serve.test_command import served as running
from flightlog.tests.serve.test_hostile_clients import PREFACE, SETTINGS_FRAME
from flightlog.tests.serve.test_refusals import METADATA, a_receive, a_send
from flightlog.tests.support.remoting_client import RemotingClient

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

CONNECTIONS, POLLS = 10_000, 1000
SPARE_FILES = 500
"""Descriptors for all but the connections."""
MAX_SIZE_EACH = 64 << 10
"""Private memory for each connection; 18 KiB were measured."""


@pytest.fixture
def connection_count() -> Iterator[int]:
    """So many as a process of this machine can have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield CONNECTIONS if hard == resource.RLIM_INFINITY else min(CONNECTIONS, hard - SPARE_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.ci
def test_many_connections_and_polls(tmp_path: Path, assert_clean: AssertClean, connection_count: int) -> None:
    path = tmp_path / "store"
    with ExitStack() as undo:
        process, port = undo.enter_context(running(str(path), "--port", "0", "--topic", "orders:1"))
        size = psutil.Process(process.pid).memory_full_info().uss
        connections = []
        for _ in range(connection_count):
            connections.append(undo.enter_context(socket.create_connection(("127.0.0.1", port), 60)))
            connections[-1].sendall(PREFACE + SETTINGS_FRAME)
        for each in connections:
            assert each.recv(1024)
        size_each = (psutil.Process(process.pid).memory_full_info().uss - size) / connection_count
        assert size_each < MAX_SIZE_EACH
        channel = undo.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
        stub = MessagingServiceStub(channel)
        waiting = a_receive("others")
        waiting.long_polling_timeout.seconds = 20
        polls = [stub.ReceiveMessage(waiting, metadata=METADATA, timeout=120) for _ in range(POLLS)]
        own_connection = [("grpc.use_local_subchannel_pool", 1)]  # the first one's has as many calls as it may
        other = undo.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}", options=own_connection))
        stub = MessagingServiceStub(other)
        assert stub.SendMessage(a_send(), metadata=METADATA, timeout=60).status.code == 20000
        first, *_ = stub.ReceiveMessage(a_receive(), metadata=METADATA, timeout=60)
        assert first.status.code == 20000
        for poll in polls:
            assert next(poll).status.message == "no new message"
        process.terminate()
        assert process.wait(60) == 0
    assert_clean(path)


@pytest.mark.ci
def test_many_remoting_connections_and_pulls(tmp_path: Path, assert_clean: AssertClean, connection_count: int) -> None:
    path = tmp_path / "store"
    ask = frame.encode(Command(RequestCode.GET_BROKER_CLUSTER_INFO, 1))
    with ExitStack() as undo:
        process, _ = undo.enter_context(running(str(path), "--port", "0", "--topic", "orders:1", "--remoting", "0"))
        assert process.stderr is not None
        port = int(process.stderr.readline().split()[-1].rpartition(":")[2])
        size = psutil.Process(process.pid).memory_full_info().uss
        connections = []
        for _ in range(min(connection_count, MAX_CONNECTIONS) - 2):
            connections.append(undo.enter_context(socket.create_connection(("127.0.0.1", port), 60)))
            connections[-1].sendall(ask)
        for each in connections:
            assert each.recv(1024)
            each.sendall(ask[:7])  # half a frame
        size_each = (psutil.Process(process.pid).memory_full_info().uss - size) / connection_count
        assert size_each < MAX_SIZE_EACH
        waiting = undo.enter_context(RemotingClient(port))
        polls = [waiting.send(RequestCode.PULL_MESSAGE, SUSPENDED) for _ in range(POLLS)]
        other = undo.enter_context(RemotingClient(port))
        fields = {"topic": "orders", "producerGroup": "p", "queueId": 0, "bornTimestamp": 1, "sysFlag": 0}
        assert other.call(RequestCode.SEND_MESSAGE, fields, b"one").code == ResponseCode.SUCCESS
        assert {waiting.answer(poll).code for poll in polls} == {ResponseCode.SUCCESS}
        process.terminate()
        assert process.wait(60) == 0
    assert_clean(path)
