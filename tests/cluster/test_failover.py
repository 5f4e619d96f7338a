"""A controller's master dies while the official Python client sends and reads: no acknowledged message is lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.tests.cluster.jars import FIRST, NEWEST
from flightlog.tests.cluster.pairs import pair_of
from flightlog.tests.cluster.processes import Cluster
from flightlog.tests.cluster.states import PATIENCE_S, wait_until
from flightlog.tests.support.rocketmq_clients import Address, PythonClients

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

pytestmark = [pytest.mark.ci, pytest.mark.timeout(1200)]

SETTINGS = StoreSettings.small()
TOPIC, GROUP, QUEUES, COUNT, READ_HERE = "orders", "billing", 4, 1000, 100
SENT_EACH = 150
"""So many sends are acknowledged before the master dies, and so many after another one is there."""
INVISIBLE_S = 10


class Sender(threading.Thread):
    """Sends numbered messages until it is told to stop; one whose send fails may be there or not."""

    def __init__(self, clients: PythonClients, producer: Any) -> None:
        super().__init__(name="sender", daemon=True)
        self._clients, self._producer, self.ending = clients, producer, threading.Event()
        self.acknowledged: list[str] = []
        self.failed: list[str] = []

    def run(self) -> None:
        number = 0
        while not self.ending.is_set():
            body = f"sent {number}"
            number += 1
            try:
                self._producer.send(self._clients.message(TOPIC, body.encode()))
            except Exception:  # what the client raises while no master is there is not what is looked at
                self.failed.append(body)
            else:
                self.acknowledged.append(body)


class Reader(threading.Thread):
    """Reads, acknowledges and counts until it is told to stop."""

    def __init__(self, consumer: Any) -> None:
        super().__init__(name="reader", daemon=True)
        self._consumer, self.ending = consumer, threading.Event()
        self.seen = Counter[str]()

    def run(self) -> None:
        while not self.ending.is_set():
            try:
                for message in self._consumer.receive(32, INVISIBLE_S) or ():
                    self._consumer.ack(message)
                    self.seen[message.body.decode()] += 1
            except Exception:  # as above; what is missing at the end is found
                time.sleep(0.2)


@pytest.mark.parametrize("version", [pytest.param(NEWEST), pytest.param(FIRST, marks=pytest.mark.full)])
def test_a_failover_loses_no_acknowledged_message(
    jars: Callable[[str], Path], tmp_path: Path, assert_clean: AssertClean, version: str
) -> None:
    path, second = tmp_path / "store", tmp_path / "second"
    with flightlog.open(path, SETTINGS) as store:
        store.create_topic(TOPIC, QUEUES)
        for number in range(COUNT):
            store.put(Message(TOPIC, b"order %d" % number, queue_id=number % QUEUES))
        store.subscribe(TOPIC, GROUP).close()
        for queue_id in range(QUEUES):
            store.commit_offset(GROUP, TOPIC, queue_id, READ_HERE)
    orders = {f"order {number}" for number in range(COUNT)}
    read_here = {f"order {number}" for number in range(READ_HERE * QUEUES)}
    with Cluster(jars(version), tmp_path / "processes") as cluster, ExitStack() as undo:
        cluster.start_name_server(has_controller=True)
        pair = pair_of(cluster, path, second, TOPIC, QUEUES, COUNT)
        master = pair.start_master(SETTINGS)
        pair.start_other()
        clients = PythonClients(Address(cluster.start_proxy()), undo)
        pair.wait_for_offsets(GROUP)  # else the other one would have it read everything again
        sender = Sender(clients, clients.producer(TOPIC))
        reader = Reader(clients.simple_consumer(GROUP, {TOPIC: None}))
        sender.start()
        reader.start()
        wait_until("sends are acknowledged", lambda: len(sender.acknowledged) >= SENT_EACH)
        wait_until("old messages are read", lambda: len(reader.seen.keys() & orders) >= SENT_EACH)
        before = pair.group_offsets(1, GROUP)
        master.kill()
        pair.wait_for_new_master()
        until = len(sender.acknowledged) + SENT_EACH
        wait_until("sends are acknowledged again", lambda: len(sender.acknowledged) >= until)
        sender.ending.set()
        sender.join(PATIENCE_S)
        assert not sender.is_alive()
        owed = (orders - read_here) | set(sender.acknowledged)
        wait_until(
            "everything is read", lambda: reader.seen.keys() >= owed or not reader.is_alive(), patience_s=2 * PATIENCE_S
        )
        reader.ending.set()
        reader.join(PATIENCE_S)
        assert reader.seen.keys() >= owed and not reader.is_alive()
        assert not reader.seen.keys() & read_here
        assert reader.seen.keys() <= owed | set(sender.failed)
        after = pair.group_offsets(1, GROUP)
        assert all((was or 0) <= (now or 0) for was, now in zip(before, after, strict=True)), (before, after)
    with flightlog.open(second, SETTINGS) as store:
        stored = {message.body.decode() for queue_id in range(QUEUES) for message in store.read(TOPIC, queue_id)}
        assert stored >= orders | set(sender.acknowledged)
    for folder in (path, second):
        flightlog.open(folder, SETTINGS).close()
        assert_clean(folder)
