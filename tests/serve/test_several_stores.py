"""Several stores behind one server: each is a broker, and one that is lost keeps no other from serving."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.schedule.delivered import HALF_TOPIC
from flightlog.serve.brokers.broker import Broker
from flightlog.serve.metrics.endpoint import Endpoint
from flightlog.serve.program import ServeOptions, run
from flightlog.serve.remoting.answers.directory import Directory
from flightlog.serve.remoting.server import RemotingServer
from flightlog.serve.remoting.wire.codes import RequestCode
from flightlog.serve.server import Server
from flightlog.testing import ServedStore, serve
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.serve.remoting.test_remoting_calls import PULL
from flightlog.tests.serve.remoting.test_remoting_calls import a_send as remoting_send
from flightlog.tests.serve.test_command import COMMAND
from flightlog.tests.serve.test_metrics import get
from flightlog.tests.serve.test_refusals import METADATA, a_receive, a_send
from flightlog.tests.support import signals
from flightlog.tests.support.remoting_client import RemotingClient
from flightlog.tests.support.rocketmq_clients import PythonClients
from flightlog.tests.support.rocketmq_server import PATIENCE_S, deadline

NAMES = ["a", "b", "c"]
SETTINGS = StoreSettings.small(
    flush_mode=FlushMode.SYNC,
    default_queue_count=2,
    transaction_timeout_ms=1,
    transaction_check_interval_ms=200,
)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ServedStore]:
    with serve([tmp_path / name for name in NAMES], SETTINGS) as served:
        yield served


@pytest.fixture
def stub(three: ServedStore) -> Iterator[MessagingServiceStub]:
    with grpc.insecure_channel(three.address) as channel:
        yield MessagingServiceStub(channel)


@pytest.fixture
def clients(three: ServedStore) -> Iterator[PythonClients]:
    with ExitStack() as undo:
        yield PythonClients(three, undo)


def until(is_so: Callable[[], bool]) -> None:
    ends_s = deadline()
    while not is_so():
        assert time.monotonic() < ends_s
        time.sleep(0.02)


def routed(stub: MessagingServiceStub, topic: str = "orders") -> list[str]:
    """The brokers that a topic's route names, once for each queue."""
    request = service.QueryRouteRequest(topic=definition.Resource(name=topic))
    response = stub.QueryRoute(request, metadata=METADATA, timeout=PATIENCE_S)
    return [queue.broker.name for queue in response.message_queues]


def bodies(store: flightlog.Store, topic: str = "orders") -> list[bytes]:
    found = store.topic(topic)
    count = 0 if found is None else found.queue_count
    return [message.body for queue_id in range(count) for message in store.read(topic, queue_id)]


def message_groups(store: flightlog.Store) -> set[str]:
    return {message.properties["__SHARDINGKEY"] for queue_id in range(2) for message in store.read("steps", queue_id)}


def lose(three: ServedStore, name: str) -> None:
    """Have a store fail its next sync, as a disk that is gone."""
    three.disk.fail_syncs(f"/{name}/")
    with pytest.raises(flightlog.DiskError):
        three.stores[name].put(Message("lost", b"never acknowledged"))


def is_back(three: ServedStore, name: str) -> bool:
    store = three.stores[name]
    return not store.is_closed and store.message_store.poison is None


def test_a_topic_is_made_in_each_and_its_messages_are_spread(
    three: ServedStore, stub: MessagingServiceStub, clients: PythonClients
) -> None:
    assert routed(stub) == ["a", "a", "b", "b", "c", "c"]
    producer = clients.producer("orders")
    sent = {b"%d" % number for number in range(30)}
    for body in sorted(sent):
        producer.send(clients.message("orders", body))
    assert all(len(bodies(store)) >= 5 for store in three.stores.values())
    consumed = clients.consumed_bodies("billing", "orders")
    assert {consumed.get(timeout=PATIENCE_S) for _ in sent} == sent


def test_a_push_consumer_has_an_assignment_at_each(
    three: ServedStore, stub: MessagingServiceStub, clients: PythonClients
) -> None:
    request = service.QueryAssignmentRequest(topic=definition.Resource(name="orders"))
    request.group.name = "billing"
    assignments = stub.QueryAssignment(request, metadata=METADATA, timeout=PATIENCE_S).assignments
    assert [(each.message_queue.broker.name, each.message_queue.id) for each in assignments] == [
        (name, -1) for name in NAMES
    ]
    consumed = clients.consumed_bodies("billing", "orders")
    for store in three.stores.values():
        store.put(Message("orders", store.path.name.encode()))
    assert {consumed.get(timeout=PATIENCE_S) for _ in NAMES} == {b"a", b"b", b"c"}


def test_a_receive_that_names_a_broker_reads_that_one(three: ServedStore, stub: MessagingServiceStub) -> None:
    for name, store in three.stores.items():
        store.put(Message("orders", name.encode()))
    for name in NAMES:
        request = a_receive()
        request.message_queue.broker.name = name
        _, received, *_ = stub.ReceiveMessage(request, metadata=METADATA, timeout=PATIENCE_S)
        assert received.message.body == name.encode()
        handle = received.message.system_properties.receipt_handle
        assert name in handle.split(" ")
        ack = service.AckMessageRequest(topic=received.message.topic, entries=[{"receipt_handle": handle}])
        ack.group.name = "billing"
        assert stub.AckMessage(ack, metadata=METADATA, timeout=PATIENCE_S).status.code == definition.OK


def test_acknowledgements_go_where_the_messages_are(three: ServedStore, stub: MessagingServiceStub) -> None:
    """In one request for messages of two stores, one of which is lost, and for a store that there is not."""
    handles = []
    for name in "ab":
        three.stores[name].put(Message("orders", b"work"))
        request = a_receive()
        request.message_queue.broker.name = name
        _, received, *_ = stub.ReceiveMessage(request, metadata=METADATA, timeout=PATIENCE_S)
        handles.append(received.message.system_properties.receipt_handle)
    lose(three, "b")
    handles.append(handles[0].replace(" a ", " z "))
    ack = service.AckMessageRequest(entries=[{"receipt_handle": handle} for handle in handles])
    ack.group.name, ack.topic.name = "billing", "orders"
    response = stub.AckMessage(ack, metadata=METADATA, timeout=PATIENCE_S)
    assert response.status.code == definition.MULTIPLE_RESULTS
    assert [each.status.code for each in response.entries] == [
        definition.OK,
        definition.INTERNAL_SERVER_ERROR,
        definition.INVALID_RECEIPT_HANDLE,
    ]


def test_a_delayed_message_is_recalled_where_it_is(three: ServedStore, stub: MessagingServiceStub) -> None:
    handles = []
    for number in range(6):
        request = a_send()
        system = request.messages[0].system_properties
        system.message_id, system.message_type = f"{number:034X}", definition.DELAY
        system.delivery_timestamp.seconds = int(time.time()) + 3600
        [entry] = stub.SendMessage(request, metadata=METADATA, timeout=PATIENCE_S).entries
        handles.append(entry.recall_handle)
    for handle in handles:
        recall = service.RecallMessageRequest(topic=definition.Resource(name="orders"), recall_handle=handle)
        assert stub.RecallMessage(recall, metadata=METADATA, timeout=PATIENCE_S).status.code == definition.OK


@pytest.mark.ci
def test_message_groups_stay_in_order(three: ServedStore, clients: PythonClients) -> None:
    for store in three.stores.values():
        store.update_group("billing", is_ordered=True)
    producer = clients.producer("steps")
    for number in range(8):
        for group in range(6):
            producer.send(clients.message("steps", b"%d %d" % (group, number), message_group=f"order-{group}"))
    assert sum(bool(bodies(store, "steps")) for store in three.stores.values()) > 1
    consumed = clients.consumed_bodies("billing", "steps")
    found: defaultdict[bytes, list[int]] = defaultdict(list)
    for _ in range(48):
        name, place = consumed.get(timeout=PATIENCE_S).split()
        found[name].append(int(place))
    assert found == {b"%d" % group: list(range(8)) for group in range(6)}


@pytest.mark.ci
def test_transactions_end_where_they_began(three: ServedStore, clients: PythonClients) -> None:
    def check(message: Any) -> Any:
        """A check may overtake the end of a transaction."""
        return clients.commit if int(message.body) % 3 == 2 else clients.unknown

    producer = clients.producer("orders", check=check)
    for number in range(12):
        transaction = producer.begin_transaction()
        producer.send(clients.message("orders", b"%d" % number), transaction)
        if number % 3 == 0:
            transaction.commit()
        elif number % 3 == 1:
            transaction.rollback()  # and the others are asked about
    consumed = clients.consumed_bodies("billing", "orders")
    assert {int(consumed.get(timeout=PATIENCE_S)) for _ in range(8)} == {0, 2, 3, 5, 6, 8, 9, 11}


def test_a_transaction_outlives_the_loss_of_its_store(three: ServedStore, stub: MessagingServiceStub) -> None:
    ends: list[service.EndTransactionRequest] = []
    # Transactions begin in several threads, and each thread takes queues in turn from a random one on.
    while not list(three.stores["b"].read(HALF_TOPIC)):
        request = a_send()
        system = request.messages[0].system_properties
        system.message_id, system.message_type = f"{len(ends):034X}", definition.TRANSACTION
        system.orphaned_transaction_recovery_duration.seconds = 3600
        [entry] = stub.SendMessage(request, metadata=METADATA, timeout=PATIENCE_S).entries
        end = service.EndTransactionRequest(
            topic=definition.Resource(name="orders"),
            message_id=entry.message_id,
            transaction_id=entry.transaction_id,
            resolution=definition.COMMIT,
        )
        ends.append(end)
    lose(three, "b")
    three.disk.heal()
    until(lambda: is_back(three, "b"))
    until(lambda: routed(stub).count("b") > 0)
    for end in ends:
        until(
            lambda end=end: stub.EndTransaction(end, metadata=METADATA, timeout=PATIENCE_S).status.code == 20000  # type: ignore[misc]
        )
    assert sum(len(bodies(store)) for store in three.stores.values()) == len(ends)
    assert bodies(three.stores["b"])


@pytest.mark.ci
def test_a_store_is_lost_and_comes_back_under_load(three: ServedStore, clients: PythonClients) -> None:
    """Nothing that was acknowledged is lost, and the others take messages all the time."""
    producers = [clients.producer("orders") for _ in range(3)]
    consumed = clients.consumed_bodies("billing", "orders")
    acknowledged: list[bytes] = []
    while_lost, is_lost, is_over = Counter[str](), threading.Event(), threading.Event()

    def send(place: int) -> None:
        number = 0
        while not is_over.is_set():
            body = b"%d %d" % (place, number)
            try:
                producers[place].send(clients.message("orders", body))
            except Exception:  # in doubt at the moment of the loss
                while_lost["refused"] += 1
            else:
                acknowledged.append(body)
                while_lost["sent"] += is_lost.is_set()
            number += 1

    senders = [threading.Thread(target=send, args=(place,)) for place in range(3)]
    for sender in senders:
        sender.start()
    try:
        until(lambda: len(acknowledged) > 50)
        three.disk.fail_syncs("/b/")
        until(lambda: not is_back(three, "b"))
        is_lost.set()
        until(lambda: while_lost["sent"] > 50)
        is_lost.clear()
        three.disk.heal()
        until(lambda: is_back(three, "b"))
        store = three.stores["b"]
        before = len(bodies(store))
        until(lambda: len(bodies(store)) > before + 5)
    finally:
        is_over.set()
        for sender in senders:
            sender.join(PATIENCE_S)
    missing = set(acknowledged)
    while missing:
        missing.discard(consumed.get(timeout=PATIENCE_S))
    assert while_lost["refused"] <= 3 * len(senders)


def test_the_route_follows_a_loss_and_a_return(three: ServedStore, stub: MessagingServiceStub) -> None:
    assert set(routed(stub)) == set(NAMES)
    lose(three, "b")
    assert set(routed(stub)) == {"a", "c"}
    for number in range(6):
        request = a_send()
        request.messages[0].system_properties.message_id = f"{number:034X}"
        assert stub.SendMessage(request, metadata=METADATA, timeout=PATIENCE_S).status.code == definition.OK
    asked = a_receive()
    asked.message_queue.broker.name = "b"
    first, *_ = stub.ReceiveMessage(asked, metadata=METADATA, timeout=PATIENCE_S)
    assert first.status.code == definition.INTERNAL_SERVER_ERROR and "'b' is away" in first.status.message
    three.disk.heal()
    until(lambda: set(routed(stub)) == set(NAMES))


def test_a_message_group_waits_for_its_store(three: ServedStore, stub: MessagingServiceStub) -> None:
    """Its messages go to no other store, where they would overtake those before."""
    sent: dict[str, int] = {}

    def send(group: str) -> int:
        request = a_send("steps")
        system = request.messages[0].system_properties
        system.message_group, system.message_type = group, definition.FIFO
        system.message_id = f"{len(sent):034X}"
        return int(stub.SendMessage(request, metadata=METADATA, timeout=PATIENCE_S).status.code)

    groups = [f"order-{number}" for number in range(12)]
    assert {send(group) for group in groups} == {definition.OK}
    there = message_groups(three.stores["b"])
    assert there and there < set(groups)
    lose(three, "b")
    assert {group for group in groups if send(group) != definition.OK} == there
    three.disk.heal()
    until(lambda: is_back(three, "b"))
    for group in there:
        until(lambda group=group: send(group) == definition.OK)  # type: ignore[misc]
    assert message_groups(three.stores["b"]) == there


def test_a_hanging_disk_holds_up_no_other_store(three: ServedStore, stub: MessagingServiceStub) -> None:
    for name in "ac":
        three.stores[name].put(Message("orders", b"there"))
    three.stores["b"].put(Message("orders", b"behind"))
    asked = a_receive()
    asked.message_queue.broker.name = "b"
    with three.disk.held_syncs("/b/"):
        hanging = stub.ReceiveMessage(asked, metadata=METADATA, timeout=PATIENCE_S)  # its check point is to be synced
        assert three.disk.held.acquire(timeout=PATIENCE_S)
        for name in "ac":
            asked = a_receive()
            asked.message_queue.broker.name = name
            first, *_ = stub.ReceiveMessage(asked, metadata=METADATA, timeout=PATIENCE_S)
            assert first.status.code == definition.OK
    assert next(iter(hanging)).status.code == definition.OK


def test_python_programs_use_all_stores(three: ServedStore) -> None:
    with flightlog.connect(three.address) as remote:
        for number in range(30):
            remote.put(Message("orders", b"%d" % number))
        assert all(bodies(store) for store in three.stores.values())
        received: list[flightlog.PoppedMessage] = []
        while len(received) < 30:
            received += remote.receive("billing", "orders")
        kept = remote.change_invisible(received[0].handle, 60_000)
        remote.ack(kept, *(each.handle for each in received[1:]))
        assert {each.body for each in received} == {b"%d" % number for number in range(30)}
        three.stores["c"].put(Message("orders", b"later"))
        with remote.subscribe("orders", "billing") as messages:
            found = messages.receive(PATIENCE_S)
            assert found is not None and found.body == b"later"
            found.ack()
    assert not any(any(store.lag("billing").values()) for store in three.stores.values())


def test_a_restart_keeps_the_handles_of_each(three: ServedStore) -> None:
    with flightlog.connect(three.address) as remote:
        for store in three.stores.values():
            store.put(Message("orders", store.path.name.encode()))
        received: list[flightlog.PoppedMessage] = []
        while len(received) < 3:
            received += remote.receive("billing", "orders")
        three.restart(is_killed=True)
        remote.ack(*(each.handle for each in received))
        assert three.expire_invisible() == 0


def test_health_and_metrics_tell_each_store(tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "a", StoreSettings.small(broker_name="a")) as store:
        there = Broker.of(store)
        away = Broker("b", tmp_path / "b", lambda: flightlog.open(tmp_path / "a"))
        with pytest.raises(flightlog.StoreLockedError) as locked:
            away.open()
        with Endpoint([there, away], threading.Event(), "127.0.0.1", 0) as endpoint:
            assert get(endpoint.port, "/health") == (200, f"ok\nb: {locked.value}\n")
            assert get(endpoint.port, "/health/a") == (200, "ok\n")
            assert get(endpoint.port, "/health/b")[0] == 503
            assert get(endpoint.port, "/health/z")[0] == 404
            lines = get(endpoint.port, "/metrics")[1].splitlines()
            assert sum(line.startswith("# TYPE rocketmq_broker_permission ") for line in lines) == 1
            told = {line for line in lines if line.startswith("rocketmq_broker_permission")}
            assert {('node_id="a"' in line, line.rpartition(" ")[2]) for line in told} == {
                (True, "6.0"),
                (False, "0.0"),
            }


def test_remoting_has_a_port_for_each_broker(tmp_path: Path) -> None:
    stores = [flightlog.open(tmp_path / name, StoreSettings.small(broker_name=name)) for name in NAMES]
    stores[0].create_topic("orders", 2)
    stores[2].create_topic("orders", 3)

    async def serve_all() -> tuple[bytes, bytes, bytes]:
        directory = Directory()
        servers = [RemotingServer(Broker.of(store), directory) for store in stores]
        ports = [await server.start(port=0) for server in servers]
        assert len(set(ports)) == 3

        def ask() -> tuple[bytes, bytes]:
            with RemotingClient(ports[1]) as client:
                route = client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}).body
                return route, client.call(RequestCode.GET_BROKER_CLUSTER_INFO).body

        route, cluster = await asyncio.to_thread(ask)
        for name, port in zip(NAMES, ports, strict=True):
            assert f'"127.0.0.1:{port}"'.encode() in cluster and (name == "b") != (f':{port}"'.encode() in route)
        stores[2].close()
        after, _ = await asyncio.to_thread(ask)
        for server in servers:
            await server.stop()
        return route, cluster, after

    route, cluster, after = asyncio.run(serve_all())
    assert b'"clusterAddrTable":{"DefaultCluster":["a","b","c"]}' in cluster
    assert b'"readQueueNums":2' in route and b'"readQueueNums":3' in route
    assert b'"readQueueNums":2' in after and b'"readQueueNums":3' not in after
    for store in stores:
        store.close()
        with flightlog.open_read_only(store.path) as view:
            assert view.verify().is_clean


def test_a_store_that_is_locked_at_the_start_is_served_later(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    command = [*COMMAND, *map(str, paths), "--port", "0", "--remoting", "0", "--topic", "orders:2"]
    with flightlog.open(paths[1], StoreSettings.small()) as locked, ExitStack() as undo:
        process = undo.enter_context(
            subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=signals.default_signals)
        )
        undo.callback(process.kill)
        assert process.stderr is not None
        port = next(found[1] for line in process.stderr if (found := re.search(r"serving .* on 127.0.0.1:(\d+)", line)))
        channel = undo.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
        stub = MessagingServiceStub(channel)
        assert routed(stub) == ["a", "a"]
        assert stub.SendMessage(a_send(), metadata=METADATA, timeout=PATIENCE_S).status.code == definition.OK
        locked.close()
        until(lambda: routed(stub) == ["a", "a", "b", "b"])
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(PATIENCE_S) == 0, rest
        assert "broker b is away: " in rest and "broker b is back" in rest
        assert rest.count("closed cleanly") == 2
    for path in paths:
        with flightlog.open_read_only(path) as view:
            assert view.verify().is_clean


def test_it_does_not_start_without_any_store(tmp_path: Path) -> None:
    paths = (tmp_path / "a", tmp_path / "b")
    with flightlog.open(paths[0]), flightlog.open(paths[1]), pytest.raises(flightlog.StoreLockedError):
        run(ServeOptions(paths, port=0))


def test_two_folders_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = (tmp_path / "x" / "store", tmp_path / "y" / "store")
    with pytest.raises(flightlog.InvalidArgumentError, match="folders of different names"):
        run(ServeOptions(paths, port=0))
    assert not any(path.exists() for path in paths)


def test_remoting_clients_outlive_the_loss_of_a_store(tmp_path: Path) -> None:
    """Its port is closed while it is away and open again afterwards; what was answered is there, and so are
    offsets that were saved before."""
    disk = FaultyDisk()

    def opening(name: str) -> Callable[[], flightlog.Store]:
        settings = replace(SETTINGS, broker_name=name, offset_save_interval_ms=100)
        return lambda: flightlog.open(tmp_path / name, settings, disk=disk)

    brokers = [Broker(name, tmp_path / name, opening(name)) for name in NAMES]
    for broker in brokers:
        broker.open()
        broker.store.create_topic("orders", 1)

    async def serve_all() -> None:
        directory, server = Directory(), Server(brokers)
        remoting = [RemotingServer(broker, directory) for broker in brokers]
        await server.start(port=0)
        ports = [await each.start(port=0) for each in remoting]
        try:
            await asyncio.to_thread(use, dict(zip(NAMES, ports, strict=True)))
        finally:
            await asyncio.gather(server.stop(), *(each.stop() for each in remoting))

    def use(ports: dict[str, int]) -> None:
        stored = {name: [sent_to(ports[name], b"%d" % number) for number in range(3)] for name in NAMES}
        assert all(each == [0, 1, 2] for each in stored.values())
        commit = {"consumerGroup": "billing", "topic": "orders", "queueId": 0, "commitOffset": 2}
        with RemotingClient(ports["b"]) as client:
            assert client.call(RequestCode.UPDATE_CONSUMER_OFFSET, commit).code == 0
        offsets = tmp_path / "b" / "config" / "consumerOffset.json"
        until(lambda: offsets.exists() and "orders@billing" in offsets.read_text())
        with RemotingClient(ports["b"]) as client:
            disk.fail_syncs("/b/")
            client.send(RequestCode.SEND_MESSAGE_V2, remoting_send(), b"never answered")
            refused = client.next()
            assert refused is None or refused.code != 0
        until(lambda: routed_to(ports["a"]) == {"a", "c"})
        until(lambda: not is_listening(ports["b"]))
        assert (sent_to(ports["a"], b"meanwhile"), sent_to(ports["c"], b"meanwhile")) == (3, 3)
        disk.heal()
        until(lambda: is_listening(ports["b"]))
        until(lambda: routed_to(ports["a"]) == set(NAMES))
        assert sent_to(ports["b"], b"afterwards") is not None
        with RemotingClient(ports["b"]) as client:
            found = client.call(RequestCode.QUERY_CONSUMER_OFFSET, {**commit, "commitOffset": ""})
            assert (found.code, found.fields["offset"]) == (0, "2")
            pulled = client.call(RequestCode.PULL_MESSAGE, PULL).body
            assert all(body in pulled for body in (b"0", b"1", b"2", b"afterwards"))

    asyncio.run(serve_all())
    for broker in brokers:
        broker.close()
        with flightlog.open_read_only(broker.path) as view:
            assert view.verify().is_clean


def sent_to(port: int, body: bytes) -> int | None:
    """The queue offset of a message; None if it was refused."""
    with RemotingClient(port) as client:
        answer = client.call(RequestCode.SEND_MESSAGE_V2, remoting_send(), body)
    return int(answer.fields["queueOffset"]) if answer.code == 0 else None


def routed_to(port: int) -> set[str]:
    with RemotingClient(port) as client:
        route = client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}).body
    return {name for name in NAMES if b'"brokerName":"%b"' % name.encode() in route}


def is_listening(port: int) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), PATIENCE_S):
        return True
    return False
