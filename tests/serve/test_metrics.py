"""`flightlog serve --metrics`: metrics, health and readiness by HTTP."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

import flightlog
from flightlog.serve.brokers.broker import Broker
from flightlog.serve.metrics.endpoint import AT_A_TIME, Endpoint
from flightlog.serve.metrics.in_flight import InFlight
from flightlog.serve.metrics.traffic import Traffic
from flightlog.serve.program import ServeOptions, run
from flightlog.serve.remoting.wire.codes import RequestCode, ResponseCode
from flightlog.serve.server import Server
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.serve.remoting.test_remoting_calls import PULL
from flightlog.tests.serve.remoting.test_remoting_calls import a_send as remoting_send
from flightlog.tests.serve.test_command import COMMAND
from flightlog.tests.serve.test_refusals import METADATA, a_receive, a_send
from flightlog.tests.support import signals
from flightlog.tests.support.remoting_client import RemotingClient
from flightlog.tests.support.rocketmq_server import PATIENCE_S, ServedStore, deadline

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

REMOTING = re.compile(r"remoting, name server and broker store, on 127\.0\.0\.1:(\d+)")
SMALL = flightlog.StoreSettings.small()


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def metrics(port: int) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by name, without the labels that all have."""
    code, text = get(port, "/metrics")
    assert code == HTTPStatus.OK, text
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            node = labels.pop("cluster"), labels.pop("node_type"), labels.pop("node_id")
            assert node == ("DefaultCluster", "broker", "store")
            found.setdefault(sample.name, []).append((labels, sample.value))
    return found


@pytest.fixture
def ready() -> threading.Event:
    return threading.Event()


@pytest.fixture
def port(served: ServedStore, ready: threading.Event) -> Iterator[int]:
    with Endpoint([served.broker], ready, "127.0.0.1", 0) as endpoint:
        yield endpoint.port


@pytest.fixture
def stub(served: ServedStore) -> Iterator[MessagingServiceStub]:
    with grpc.insecure_channel(served.address) as channel:
        yield MessagingServiceStub(channel)


def test_what_clients_sent_and_received_is_counted(served: ServedStore, port: int, stub: MessagingServiceStub) -> None:
    for number in range(3):
        request = a_send()
        request.messages[0].system_properties.message_id = f"{number:034X}"
        assert stub.SendMessage(request, metadata=METADATA, timeout=60).status.code == 20000
    answers = list(stub.ReceiveMessage(a_receive(), metadata=METADATA, timeout=60))
    assert answers[0].status.code == 20000
    bounds = {key: ends for key, ends in served.store.queues().items() if key[0] == "orders"}
    sizes = [message.size for _, queue_id in bounds for message in served.store.read("orders", queue_id)]
    sent = {"topic": "orders", "message_type": "normal", "is_system": "false"}
    received = {"consumer_group": "billing", "topic": "orders", "is_retry": "false", "is_system": "false"}
    found = metrics(port)
    assert found["rocketmq_messages_in_total"] == [(sent, 3)]
    assert found["rocketmq_throughput_in_total"] == [(sent, sum(sizes))]
    assert found["rocketmq_messages_out_total"] == [(received, 1)]
    assert found["rocketmq_throughput_out_total"] == [(received, sizes[0])]
    assert found["rocketmq_consumer_lag_messages"] == [(received, 2)]
    assert found["rocketmq_consumer_inflight_messages"] == [(received, 1)]
    assert found["rocketmq_topic_number"] == [({}, len(served.store.topics(include_system=True)))]
    assert found["rocketmq_consumer_group_number"] == [({}, 1)]
    assert found["rocketmq_broker_permission"] == [({}, 6)]
    served.store.flush()
    for name in ("rocketmq_storage_flush_behind_bytes", "rocketmq_storage_dispatch_behind_bytes"):
        assert [labels for labels, _ in found[name]] == [{}]


def test_messages_in_flight_are_counted(served: ServedStore, port: int, stub: MessagingServiceStub) -> None:
    def in_flight() -> list[tuple[str, str, float]]:
        found = metrics(port).get("rocketmq_consumer_inflight_messages", ())
        return [(labels["topic"], labels["is_retry"], count) for labels, count in found]

    served.store.create_topic("orders", 1)
    served.store.put_many([flightlog.Message("orders", b"%d" % number) for number in range(4)])
    request = a_receive()
    request.batch_size = 3
    _, *messages, _ = stub.ReceiveMessage(request, metadata=METADATA, timeout=60)
    handles = [each.message.system_properties.receipt_handle for each in messages]
    assert in_flight() == [("orders", "false", 3)]
    change = service.ChangeInvisibleDurationRequest(
        group=request.group, topic=request.message_queue.topic, receipt_handle=handles[0]
    )
    change.invisible_duration.seconds = 3600
    handles[0] = stub.ChangeInvisibleDuration(change, metadata=METADATA, timeout=60).receipt_handle
    assert in_flight() == [("orders", "false", 3)]
    acknowledge(stub, handles[1])
    assert in_flight() == [("orders", "false", 2)]
    served.clock.advance(61_000)
    assert in_flight() == [("orders", "false", 1)], "the time of the third one is over"
    acknowledge(stub, handles[0])
    assert in_flight() == [("orders", "false", 0)]
    request.auto_renew, request.batch_size = True, 1
    [kept] = {
        part.message.system_properties.receipt_handle
        for part in stub.ReceiveMessage(request, metadata=METADATA, timeout=60)
        if part.HasField("message")
    }
    assert sum(count for _, _, count in in_flight()) == 1, "a message that the store keeps for a push consumer"
    acknowledge(stub, kept)
    assert sum(count for _, _, count in in_flight()) == 0


def acknowledge(stub: MessagingServiceStub, handle: str) -> None:
    request = service.AckMessageRequest(entries=[service.AckMessageEntry(receipt_handle=handle)])
    request.group.name, request.topic.name = "billing", "orders"
    assert stub.AckMessage(request, metadata=METADATA, timeout=60).status.code == 20000


def test_what_is_in_flight_is_never_less_than_nothing(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", SMALL) as store:
        store.put_many([flightlog.Message("orders", b"1"), flightlog.Message("orders", b"2")])
        first, second = store.receive("billing", "orders", 32)
        changed = store.change_invisible(second.handle, 60_000)
        counted, now_ms, place = InFlight(), store.message_store.clock.now_ms(), ("billing", "orders", False)
        counted.received([first, second])
        counted.done(second.handle)
        counted.changed(changed)
        assert counted.counts(now_ms) == {place: 2}
        for handle in (first.handle, first.handle, changed, replace(changed, extra_info="?")):
            counted.done(handle)
        assert counted.counts(now_ms) == {place: 0}
        counted.received([first])
        assert counted.counts(first.invisible_until_ms + 1000) == {place: 0}
    assert_clean(tmp_path / "store")


def test_a_message_has_the_type_of_its_properties(port: int, stub: MessagingServiceStub) -> None:
    request = a_send()
    request.messages[0].system_properties.message_group = "one"
    assert stub.SendMessage(request, metadata=METADATA, timeout=60).status.code == 20000
    [(labels, count)] = metrics(port)["rocketmq_messages_in_total"]
    assert (labels["message_type"], count) == ("fifo", 1)


def test_retries_and_dead_letters_are_no_sends() -> None:
    traffic = Traffic()
    for topic in ("%RETRY%billing", "%DLQ%billing", "orders"):
        traffic.note_sent(topic, "NORMAL", 100)
    assert traffic.sent() == {("orders", "NORMAL"): (1, 100)}


def test_the_lag_of_a_retry_topic_names_the_topic(tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "store", SMALL) as store:
        store.create_topic("orders", 1)
        store.create_topic("%RETRY%billing_orders", 1)
        for topic in ("orders", "%RETRY%billing_orders"):
            store.put(flightlog.Message(topic, b"body", queue_id=0))
            store.commit_offset("billing", topic, 0, 0)
        with Endpoint([Broker.of(store)], threading.Event(), "127.0.0.1", 0) as endpoint:
            found = metrics(endpoint.port)["rocketmq_consumer_lag_messages"]
    assert {(labels["topic"], labels["is_retry"], lag) for labels, lag in found} == {
        ("orders", "false", 1),
        ("orders", "true", 1),
    }


def test_names_cannot_leave_their_labels(tmp_path: Path) -> None:
    name = 'a"} 7\nevil{b="\\'
    with flightlog.open(tmp_path / "store", SMALL) as store:
        broker = Broker.of(store)
        broker.traffic.note_sent(name, "NORMAL", 1)
        with Endpoint([broker], threading.Event(), "127.0.0.1", 0) as endpoint:
            [(labels, count)] = metrics(endpoint.port)["rocketmq_messages_in_total"]
    assert (labels["topic"], count) == (name, 1)


def test_a_poisoned_store_is_not_healthy(tmp_path: Path, ready: threading.Event) -> None:
    disk = FaultyDisk()
    store = flightlog.open(tmp_path / "store", SMALL, disk=disk)
    ready.set()
    with Endpoint([Broker.of(store)], ready, "127.0.0.1", 0) as endpoint:
        assert get(endpoint.port, "/health") == (200, "ok\n")
        store.put(flightlog.Message("orders", b"body"))
        store.flush()
        disk.fail_syncs()
        with pytest.raises(flightlog.DiskError):
            store.put(flightlog.Message("orders", b"not flushed"))
            store.flush()
        assert get(endpoint.port, "/health") == (
            503,
            f"no more messages are taken\nstore: {store.message_store.poison}\n",
        )
        assert get(endpoint.port, "/ready")[0] == 200  # it is still read from
        assert metrics(endpoint.port)["rocketmq_broker_permission"] == [({}, 4)]
        disk.heal()
        store.close()
        assert get(endpoint.port, "/health")[0] == 503
        assert get(endpoint.port, "/metrics") == (503, "the store cannot be read\n")


def test_it_is_ready_while_clients_are_taken(port: int, ready: threading.Event) -> None:
    assert get(port, "/ready") == (503, "no clients are taken\n")
    ready.set()
    assert get(port, "/ready") == (200, "ok\n")
    ready.clear()
    assert get(port, "/ready")[0] == 503


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/metrics/",
        "/metrics/../etc/passwd",
        "/%6detrics",
        "/../../etc/passwd",
        "http://other/metrics",
    ],
)
def test_other_paths_are_not_found(port: int, path: str) -> None:
    assert get(port, path)[0] == 404


def test_methods_and_queries(port: int) -> None:
    assert get(port, "/health?from=here")[0] == 200
    assert get(port, "/health", "HEAD") == (200, "")
    for method in ("POST", "DELETE", "TRACE"):
        assert get(port, "/metrics", method)[0] == 501


def test_bytes_that_are_no_request_stop_nothing(port: int) -> None:
    for data in (b"\x16\x03\x01\0\0", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"\0" * 100 + b"\r\n\r\n"):
        with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
            client.sendall(data)  # it may be refused before all of it is sent
    assert get(port, "/health")[0] == 200


def test_silent_clients_do_not_hold_up_the_end(tmp_path: Path, ready: threading.Event) -> None:
    silent = []
    with flightlog.open(tmp_path / "store", SMALL) as store:
        with Endpoint([Broker.of(store)], ready, "127.0.0.1", 0) as endpoint:
            for _ in range(AT_A_TIME + 1):
                silent.append(socket.create_connection(("127.0.0.1", endpoint.port), PATIENCE_S))
            assert silent[-1].recv(1) == b""  # more than it serves at a time
        with pytest.raises(ConnectionRefusedError):
            get(endpoint.port, "/health")
    for client in silent:
        client.close()


def test_it_is_not_ready_from_sigterm_on_while_the_port_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    ports: dict[str, int] = {}
    seen: list[object] = []
    start_endpoint, start_server, stop_server = Endpoint.__enter__, Server.start, Server.stop

    def entered(endpoint: Endpoint) -> Endpoint:
        ports["metrics"] = endpoint.port
        return start_endpoint(endpoint)

    async def started(server: Server, host: str, port: int, *, tls: None = None) -> int:
        seen.append(await asyncio.to_thread(get, ports["metrics"], "/ready"))
        ports["grpc"] = await start_server(server, host, port, tls=tls)
        os.kill(os.getpid(), signal.SIGTERM)
        return ports["grpc"]

    async def stopped(server: Server) -> None:
        seen.append(await asyncio.to_thread(get, ports["metrics"], "/ready"))
        seen.append(await asyncio.to_thread(get, ports["metrics"], "/health"))
        socket.create_connection(("127.0.0.1", ports["grpc"]), PATIENCE_S).close()
        await stop_server(server)
        seen.append(await asyncio.to_thread(get, ports["metrics"], "/ready"))

    monkeypatch.setattr(Endpoint, "__enter__", entered)
    monkeypatch.setattr(Server, "start", started)
    monkeypatch.setattr(Server, "stop", stopped)
    run(ServeOptions((tmp_path / "store",), port=0, metrics=0, settings=SMALL))
    not_ready = (503, "no clients are taken\n")
    assert seen == [not_ready, not_ready, (200, "ok\n"), not_ready]
    with pytest.raises(ConnectionRefusedError):
        get(ports["metrics"], "/ready")
    assert_clean(tmp_path / "store")


def test_the_program_serves_metrics_beside_clients(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    command = [*COMMAND, str(path), "--port", "0", "--metrics", "0", "--remoting", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=signals.default_signals) as process:
        try:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line)
                if REMOTING.search(line):
                    break
            found = re.search(r"metrics and health on 127\.0\.0\.1:(\d+)", "".join(lines))
            assert found is not None, lines
            ends_s = deadline()
            while get(int(found[1]), "/ready")[0] != 200:
                assert time.monotonic() < ends_s
            remoting = REMOTING.search(lines[-1])
            assert remoting is not None
            with RemotingClient(int(remoting[1])) as client:
                for body in (b"one", b"two"):
                    assert client.call(RequestCode.SEND_MESSAGE_V2, remoting_send(), body).code == ResponseCode.SUCCESS
                assert client.call(RequestCode.PULL_MESSAGE, {**PULL, "maxMsgNums": 1}).code == ResponseCode.SUCCESS
            told = metrics(int(found[1]))
            assert told["rocketmq_broker_permission"] == [({}, 6)]
            assert [count for _, count in told["rocketmq_messages_in_total"]] == [2]
            assert [count for _, count in told["rocketmq_messages_out_total"]] == [1]
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
            assert process.wait(60) == 0, rest
            assert "closed cleanly" in rest
        finally:
            process.kill()
    assert_clean(path)


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [*COMMAND, str(tmp_path / "store"), "--port", "0", "--metrics", port]
        found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    told = [line for line in found.stderr.splitlines() if line.startswith("flightlog: ")]
    assert (found.returncode, len(told)) == (2, 1), found.stderr
    assert told[0].startswith(f"flightlog: --metrics='{port}': expected a port of 127.0.0.1 that is free")
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("kept_out", [{}, {"tls_dev": True}])
def test_metrics_need_loopback_or_insecure(tmp_path: Path, kept_out: dict[str, bool]) -> None:
    with pytest.raises(flightlog.InvalidArgumentError, match="--insecure"):
        run(ServeOptions((tmp_path / "store",), host="0.0.0.0", metrics=0, **kept_out))  # type: ignore[arg-type]
    assert not (tmp_path / "store").exists()


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flightlog.serve.metrics.endpoint", None)
    with pytest.raises(flightlog.MissingExtraError, match="--metrics"):
        run(ServeOptions((tmp_path / "store",), port=0, metrics=0, settings=SMALL))
