"""`flightlog serve` as a program: its arguments, its first and its last line."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

import flightlog
from flightlog.serve.arguments import (
    GroupArgument,
    TopicArgument,
    check_loopback,
    checked_address,
    store_host,
)
from flightlog.serve.program import ServeOptions, run
from flightlog.serve.remoting.wire.codes import RequestCode
from flightlog.tests.serve.test_refusals import METADATA, a_receive, a_send
from flightlog.tests.support import signals
from flightlog.tests.support.remoting_client import RemotingClient
from flightlog.tests.support.rocketmq_server import PATIENCE_S

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

COMMAND = (sys.executable, "-P", "-m", "flightlog", "serve")
SERVING = re.compile(r"serving \S+ on 127\.0\.0\.1:(\d+)")


@contextmanager
def served(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A running program, and its port."""
    with subprocess.Popen(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, preexec_fn=signals.default_signals
    ) as process:
        try:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line)
                if found := SERVING.search(line):
                    break
            else:
                raise AssertionError("".join(lines))
            yield process, int(found[1])
        finally:
            process.kill()


def test_it_serves_until_it_is_told_to_end(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    with served(str(path), "--port", "0", "--topic", "orders:3", "--topic", "steps:2:fifo") as (process, port):
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = MessagingServiceStub(channel)
            assert stub.SendMessage(a_send(), metadata=METADATA, timeout=60).status.code == 20000
            first, *_ = stub.ReceiveMessage(a_receive(), metadata=METADATA, timeout=60)
            assert first.status.code == 20000
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        rest = process.stderr.read()
        assert process.wait(60) == 0, rest
        assert "closed cleanly" in rest
    assert_clean(path)
    with flightlog.open_read_only(path) as view:
        assert {name: (each.read_queue_count, each.message_type) for name, each in view.topics().items()} == {
            "orders": (3, "MIXED"),
            "steps": (2, "FIFO"),
        }


def test_log_lines_are_objects_on_request(tmp_path: Path) -> None:
    with served(str(tmp_path / "store"), "--port", "0", "--json") as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr]
        assert process.wait(60) == 0
    assert lines
    for line in lines:
        assert line.keys() == {"time", "level", "logger", "message"}
        assert datetime.fromisoformat(line["time"]).tzinfo is not None
    assert "closed cleanly" in lines[-1]["message"]


def test_a_wrong_argument_is_one_sentence(tmp_path: Path) -> None:
    command = [*COMMAND, str(tmp_path / "store"), "--topic", "orders:1:urgent"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (found.returncode, found.stderr.count("\n")) == (2, 1), found.stderr
    assert found.stderr.startswith("flightlog: --topic='orders:1:urgent': expected NAME")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"topics": ("orders:none",)}, "--topic='orders:none'"),
        ({"topics": ("orders:1:fifo:more",)}, "NAME:QUEUES:TYPE"),
        ({"groups": ("billing",)}, "--group='billing': expected NAME:fifo"),
        ({"groups": (":fifo",)}, "group=''"),
        ({"advertise": "here"}, "--advertise='here'"),
        ({"host": "0.0.0.0"}, "a loopback address, or --insecure"),
        ({"host": "example.org"}, "a loopback address, or --insecure"),
        ({"host": "192.0.2.1", "insecure": True}, "an address of this machine"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(flightlog.InvalidArgumentError, match=re.escape(told)):
        run(ServeOptions((tmp_path / "store",), settings=flightlog.StoreSettings.small(), **wrong))


def test_what_a_topic_argument_says() -> None:
    assert TopicArgument.parsed("orders") == TopicArgument("orders", 8, "MIXED")
    assert TopicArgument.parsed("orders:2:Transaction") == TopicArgument("orders", 2, "TRANSACTION")
    for host in ("127.0.0.1", "::1", "localhost"):
        check_loopback(host)
    assert checked_address("[::1]:8081") == "[::1]:8081"


def test_a_group_receives_as_the_argument_says(tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "store", flightlog.StoreSettings.small()) as store:
        GroupArgument.parsed("billing:fifo").make(store)
        assert store.group_settings("billing").is_ordered
        GroupArgument.parsed("billing:Normal").make(store)
        assert not store.group_settings("billing").is_ordered


def test_a_topic_that_is_there_keeps_its_queues(tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "store", flightlog.StoreSettings.small()) as store:
        TopicArgument("orders", 2, "FIFO").make(store)
        TopicArgument("orders", 2, "MIXED").make(store)
        found = store.topic("orders")
        assert found is not None and found.message_type == "MIXED"
        with pytest.raises(flightlog.InvalidArgumentError, match="the 2 queues"):
            TopicArgument("orders", 4, "MIXED").make(store)


def test_remoting_is_served_beside_grpc_and_only_on_request(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    with served(str(path), "--port", "0", "--remoting", "0") as (process, _):
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"remoting, name server and broker store, on 127\.0\.0\.1:(\d+)", line)
        assert found is not None, line
        with RemotingClient(int(found[1])) as client:
            assert f'0:"127.0.0.1:{found[1]}"'.encode() in client.call(RequestCode.GET_BROKER_CLUSTER_INFO).body
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(60) == 0, rest
        assert "closed cleanly" in rest
    assert_clean(path)


def test_a_remoting_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(flightlog.InvalidArgumentError, match="--remoting"):
            run(ServeOptions((tmp_path / "store",), port=0, remoting=taken.getsockname()[1]))


@pytest.mark.parametrize(
    ("advertise", "host", "expected"),
    [
        (None, "127.0.0.1", "127.0.0.1"),
        (None, "0.0.0.0", "127.0.0.1"),
        (None, "localhost", "127.0.0.1"),
        ("192.0.2.7:8081", "0.0.0.0", "192.0.2.7"),
        ("mq.example.org:8081", "::1", "::1"),
    ],
)
def test_message_ids_name_the_address_of_remoting(advertise: str | None, host: str, expected: str) -> None:
    assert store_host(advertise, host, 9876) == (expected, 9876)


def test_remoting_lets_in_nobody_whom_grpc_keeps_out(tmp_path: Path, assert_clean: AssertClean) -> None:
    with pytest.raises(flightlog.InvalidArgumentError, match="--insecure"):
        run(ServeOptions((tmp_path / "store",), host="0.0.0.0", remoting=9876))
    assert not (tmp_path / "store").exists()
    (tmp_path / "plain_acl.yml").write_text("accounts: []")
    arguments = ("--port", "0", "--remoting", "0", "--acl", str(tmp_path / "plain_acl.yml"))
    with served(str(tmp_path / "store"), *arguments) as (process, _):
        assert process.stderr is not None
        port = int(process.stderr.readline().split()[-1].rpartition(":")[2])
        with RemotingClient(port) as client:
            assert client.call(RequestCode.GET_BROKER_CLUSTER_INFO).remark == "No accessKey is configured"
        process.terminate()
        assert process.wait(60) == 0
    assert_clean(tmp_path / "store")
