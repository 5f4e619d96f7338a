"""A store grows past its machine, and comes back: `make cluster-demo`.

flightlog writes; a name server with a controller, two brokers and a proxy take the folder over; the master is killed;
the official Python client sends and reads on; flightlog opens what the surviving broker has, and verifies it.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections import Counter
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import flightlog
from flightlog import Message, StoreSettings, handover
from flightlog.tests.cluster.jars import NEWEST, jars_of
from flightlog.tests.cluster.processes import Cluster, free_port, with_lines
from flightlog.tests.cluster.states import group_offset, is_routed, max_offset, port_of, replicas, wait_until
from flightlog.tests.support.rocketmq_clients import Address, PythonClients, persistently

TOPIC, GROUP, QUEUES = "orders", "billing", 4
BEFORE, READ_HERE, SENT, READ_THERE, SENT_AFTER = 2000, 600, 300, 500, 300
SETTINGS = StoreSettings.small()
INVISIBLE_S = 10
QUIET_S = 15.0
"""So long nothing came: everything was read. What was received and not acknowledged comes again before."""
CONTROLLED = {
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "controllerHeartBeatTimeoutMills": 3000,
    "brokerId": -1,
}


class Teller:
    """Numbered lines, with the seconds since the beginning."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"{time.monotonic() - self._began_s:6.1f} s  {text}", flush=True)


def write_store(path: Path) -> set[str]:
    """Orders, of which the group has read some: those that are returned."""
    with flightlog.open(path, SETTINGS) as store:
        store.create_topic(TOPIC, QUEUES)
        for number in range(BEFORE):
            store.put(Message(TOPIC, b"order %05d" % number, keys=f"k{number}", queue_id=number % QUEUES))
        read = set()
        with store.subscribe(TOPIC, GROUP, idle_s=0) as subscription:
            for message in islice(subscription, READ_HERE):
                message.ack()
                read.add(message.body.decode())
    return read


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def controlled(cluster: Cluster, plain: str, path: Path, folder: Path) -> dict[str, str]:
    """The conf of each of two brokers under the controller: one has the folder, one has nothing."""
    found = {}
    for name, root in (("broker-1", path), ("broker-2", folder / "second")):
        own = {"listenPort": free_port(), "storePathRootDir": root, "storePathCommitLog": root / "commitlog"}
        found[name] = with_lines(plain, {**CONTROLLED, "controllerAddr": cluster.controller, **own})
    return found


def port_in(conf: str) -> int:
    [line] = [line for line in conf.splitlines() if line.startswith("listenPort=")]
    return port_of(line.replace("=", ":"))


def send(clients: PythonClients, producer: Any, first: int, count: int) -> list[str]:
    """Bodies whose sends were acknowledged."""
    for number in range(first, first + count):
        persistently(producer.send, clients.message(TOPIC, b"order %05d" % number, keys=f"k{number}"))
    return [f"order {number:05d}" for number in range(first, first + count)]


def read(consumer: Any, seen: Counter[str], count: int | None) -> None:
    """Read so many, or everything that is there."""
    quiet_since_s = time.monotonic()
    while (len(seen) < count) if count is not None else (time.monotonic() - quiet_since_s < QUIET_S):
        try:
            found = consumer.receive(32, INVISIBLE_S)
            for message in found or ():
                consumer.ack(message)
                seen[message.body.decode()] += 1
                quiet_since_s = time.monotonic()
        except Exception as e:  # the client says that a broker has gone by errors of many kinds
            if time.monotonic() - quiet_since_s > 8 * QUIET_S:
                raise TimeoutError("nothing could be read") from e
            time.sleep(0.5)


def offsets(port: int) -> list[int | None]:
    return [group_offset(port, GROUP, TOPIC, queue_id) for queue_id in range(QUEUES)]


def caught_up(ports: list[int]) -> bool:
    ends = [[max_offset(port, TOPIC, queue_id) for queue_id in range(QUEUES)] for port in ports]
    return ends[0] == ends[1] and sum(ends[0]) >= BEFORE


def run(version: str, folder: Path) -> None:
    tell, jars, path = Teller(), jars_of(version), folder / "store"
    tell(f"RocketMQ {version} from Maven; everything is below {folder}")
    read_here = write_store(path)
    tell(f"flightlog: {BEFORE:,} orders in {QUEUES} queues; the group {GROUP!r} has read {READ_HERE:,}; closed")
    seen: Counter[str] = Counter()
    with Cluster(jars, folder / "processes") as cluster, ExitStack() as undo:
        cluster.start_name_server(has_controller=True)
        tell(f"name server at {cluster.name_server}, a controller in it at {cluster.controller}")
        plain = handover.broker_conf(path, SETTINGS, address="127.0.0.1", name_server=cluster.name_server)
        texts = controlled(cluster, plain, path, folder)
        ports = [port_in(text) for text in texts.values()]
        report = handover.check(path, written(folder / "broker.conf", plain), settings=SETTINGS)
        assert report.is_fit, report.findings
        notes = ", ".join(note.name for note in report.notes) or "none"
        tell(f"handover check: {report.records:,} records, fit for a broker; notes: {notes}")
        master = cluster.start_broker("broker-1", texts["broker-1"])
        tell(f"broker 1 at 127.0.0.1:{ports[0]} on the folder of flightlog, with the conf of `handover broker-conf`")
        cluster.start_broker("broker-2", texts["broker-2"])
        wait_until("the second broker has everything", lambda: caught_up(ports))
        wait_until("both are in sync", lambda: len(replicas(cluster.controller)["inSyncReplicas"]) == 2)
        tell(f"broker 2 at 127.0.0.1:{ports[1]} began with nothing, and has copied everything")
        wait_until("the topic is routed", lambda: is_routed(cluster.name_server, TOPIC))
        address = cluster.start_proxy()
        clients = PythonClients(Address(address), undo)
        producer, consumer = clients.producer(TOPIC), clients.simple_consumer(GROUP, {TOPIC: None})
        tell(f"proxy at {address}; the official Python client is connected")
        sent = send(clients, producer, BEFORE, SENT)
        read(consumer, seen, READ_THERE)
        tell(f"sent {len(sent):,} more, read {len(seen):,} of the group's: it went on where flightlog left it")
        assert not seen.keys() & read_here, sorted(seen.keys() & read_here)
        wait_until("the group's offsets are on both brokers", lambda: offsets(ports[0]) == offsets(ports[1]))
        tell(f"broker 2 has the group's offsets, {offsets(ports[1])}")
        master.kill()
        tell("kill -9 of broker 1, the master")
        survivor = wait_until(
            "the other one is master",
            lambda: port_of(replicas(cluster.controller)["masterAddress"] or ":0") == ports[1],
        )
        assert survivor
        tell("the controller made broker 2 the master")
        sent += send(clients, producer, BEFORE + SENT, SENT_AFTER)
        read(consumer, seen, None)
        again = sum(count - 1 for count in seen.values())
        tell(f"sent {SENT_AFTER:,} more and read to the end: {len(seen):,} different messages, {again:,} a second time")
    tell("stopped: brokers, proxy, name server")
    take_back(tell, folder, seen.keys() | read_here, sent)


def take_back(tell: Teller, folder: Path, seen: set[str], sent: list[str]) -> None:
    with flightlog.open(folder / "second", SETTINGS) as store:
        stored = Counter(m.body.decode() for queue_id in range(QUEUES) for m in store.read(TOPIC, queue_id))
        expected = {f"order {number:05d}" for number in range(BEFORE)} | set(sent)
        assert stored.keys() == seen == expected, (len(stored), len(seen), len(expected))
        tell(f"flightlog opened the folder of broker 2: all {len(expected):,} acknowledged messages are there")
        store.put(Message(TOPIC, b"back home", queue_id=0))
        behind = sum(store.lag(GROUP).values())
        tell(f"the group {GROUP!r} has {behind:,} left to read, of a message put just now")
        report = store.verify()
        assert report.is_clean, report.findings
        tell("verify: clean")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for everything; what it has from an earlier run is removed")
    parser.add_argument("--version", default=NEWEST, help="of RocketMQ (default %(default)s)")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(arguments.version, folder)


if __name__ == "__main__":
    main()
