"""A master on a store's folder, and a slave seeded with a copy of it: sync and async. Spark reads both folders beside
the running brokers, and flightlog opens both afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import DifferenceKind, Message, StoreSettings, handover
from flightlog.tests.cluster import spark_rows
from flightlog.tests.cluster.jars import FIRST, NEWEST
from flightlog.tests.cluster.java_client import Seen, run_client
from flightlog.tests.cluster.processes import Cluster, free_port, with_lines
from flightlog.tests.cluster.states import group_offset, is_routed, max_offset, topics, wait_until

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

pytestmark = [pytest.mark.ci, pytest.mark.timeout(1200)]

SETTINGS = StoreSettings.small()
TOPIC, GROUP, QUEUES, COUNT, READ, SENT = "orders", "billing", 2, 4000, 1000, 60
SPARK_LIMIT_S = 400.0
READ_NO_OFFSETS = (NEWEST,)
"""Slaves of 5.5.0 cannot read the offsets of groups once a remoting consumer has pulled from the master: their JSON
then has numbers for names in `pullOffsetTable`, which fastjson2 2.0.59 refuses ("SyncConsumerOffset Exception")."""


def write(path: Path) -> None:
    """Several segments; a group that has read some, and a topic that was deleted and made again."""
    with flightlog.open(path, SETTINGS) as store:
        for life in range(2):
            store.create_topic("again", 1)
            store.put(Message("again", b"life %d" % life))
            if life == 0:
                store.delete_topic("again")
        store.create_topic(TOPIC, QUEUES)
        for number in range(COUNT):
            body = b"order %d " % number * 40
            store.put(Message(TOPIC, body, tags="new", keys=f"k{number}", queue_id=number % QUEUES))
        store.subscribe(TOPIC, GROUP).close()
        for queue_id in range(QUEUES):
            store.commit_offset(GROUP, TOPIC, queue_id, READ)


def rows(*paths: Path) -> list[list[str]]:
    command = [sys.executable, "-P", spark_rows.__file__, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SPARK_LIMIT_S)
    assert done.returncode == 0, done.stderr[-4000:]
    return [part.splitlines() for part in done.stdout.split("--\n")[:-1]]


def ends(port: int) -> list[int]:
    return [max_offset(port, TOPIC, queue_id) for queue_id in range(QUEUES)]


def offsets(port: int) -> list[int | None]:
    return [group_offset(port, GROUP, TOPIC, queue_id) for queue_id in range(QUEUES)]


@pytest.mark.parametrize(
    ("version", "role"),
    [
        pytest.param(FIRST, "SYNC_MASTER"),
        pytest.param(FIRST, "ASYNC_MASTER", marks=pytest.mark.full),
        pytest.param(NEWEST, "SYNC_MASTER", marks=pytest.mark.full),
        pytest.param(NEWEST, "ASYNC_MASTER", marks=pytest.mark.full),
    ],
)
def test_a_seeded_slave_has_the_same_rows(
    jars: Callable[[str], Path], tmp_path: Path, assert_clean: AssertClean, version: str, role: str
) -> None:
    path, slave_path, ports = tmp_path / "store", tmp_path / "slave", (free_port(), free_port())
    write(path)
    with Cluster(jars(version), tmp_path / "processes") as cluster:
        cluster.start_name_server()
        seeded = handover.seed_slave(
            *(path, slave_path, SETTINGS), address="127.0.0.1", port=ports[1], name_server=cluster.name_server
        )
        conf = handover.broker_conf(path, SETTINGS, address="127.0.0.1", port=ports[0], name_server=cluster.name_server)
        master = cluster.start_broker("master", with_lines(conf, {"brokerRole": role}))
        slave = cluster.start_broker("slave", seeded.conf)
        wait_until("the topic is routed", lambda: is_routed(cluster.name_server, TOPIC))
        wait_until("the slave follows", lambda: ends(ports[1]) == ends(ports[0]))
        left = QUEUES * (COUNT // QUEUES - READ) + SENT
        said = run_client(
            *(jars(version), tmp_path / "client", cluster.name_server, "send", TOPIC, SENT, "sent"),
            *("consume", GROUP, TOPIC, "concurrently", left, "pull", "again"),
        )
        assert len(said.sent) == SENT and len(set(said.bodies(GROUP))) == left
        assert said.bodies("pulled") == ["life 1"]
        wait_until("the slave has everything", lambda: ends(ports[1]) == ends(ports[0]))
        wait_until("the slave has the master's topics", lambda: topics(ports[1]) >= topics(ports[0]))
        wait_until("the group is at the ends", lambda: offsets(ports[0]) == ends(ports[0]))
        if version not in READ_NO_OFFSETS:
            wait_until("the slave has the group's offsets", lambda: offsets(ports[1]) == ends(ports[0]))
        of_master, of_slave = rows(path, slave_path)
        assert of_master == of_slave and len(of_master) == COUNT + SENT + 1
        master.kill()
        slave.stop()
    differences = list(flightlog.diff(path, slave_path, SETTINGS, places=True))
    in_files = (DifferenceKind.GROUP_OFFSET, DifferenceKind.SETTING)  # a slave copies its master's config/ now and then
    assert [str(each) for each in differences if each.kind not in in_files] == []
    stored = []
    for folder in (path, slave_path):
        with flightlog.open(folder, SETTINGS) as store:
            if folder == path or version not in READ_NO_OFFSETS:
                assert store.group_offsets(GROUP, TOPIC) == dict(enumerate(ends_of(store)))
            stored.append([Seen.of_store(m) for queue_id in range(QUEUES) for m in store.read(TOPIC, queue_id)])
        assert_clean(folder)
    assert stored[0] == stored[1] and len(stored[0]) == COUNT + SENT


def ends_of(store: flightlog.Store) -> list[int]:
    return [store.queue_bounds(TOPIC, queue_id)[1] for queue_id in range(QUEUES)]
