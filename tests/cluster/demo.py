"""A store grows past its machine, and comes back: `make cluster-demo`.

flightlog writes; a name server with a controller, two brokers and a proxy take the folder over; the master is killed;
the official Python client sends and reads on; flightlog opens what the surviving broker has, and verifies it.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import flightlog
from flightlog import Message, StoreSettings, handover
from flightlog.tests.cluster.jars import FIRST, jars_of
from flightlog.tests.cluster.pairs import pair_of
from flightlog.tests.cluster.processes import Cluster
from flightlog.tests.support.rocketmq_clients import Address, PythonClients, persistently

TOPIC, GROUP, QUEUES = "orders", "billing", 4
BEFORE, READ_HERE, SENT, READ_THERE, SENT_AFTER = 2000, 600, 300, 500, 300
SETTINGS = StoreSettings.small()
INVISIBLE_S = 10
PATIENCE_S = 300.0
"""What was received and not acknowledged comes again, but not at once."""


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


def send(clients: PythonClients, producer: Any, first: int, count: int) -> list[str]:
    """Bodies whose sends were acknowledged."""
    for number in range(first, first + count):
        persistently(producer.send, clients.message(TOPIC, b"order %05d" % number, keys=f"k{number}"))
    return [f"order {number:05d}" for number in range(first, first + count)]


def read(consumer: Any, seen: Counter[str], is_enough: Callable[[], bool]) -> None:
    """Raises TimeoutError."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_enough():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{len(seen):,} messages were read in {PATIENCE_S:.0f} s, and no more")
        try:
            for message in consumer.receive(32, INVISIBLE_S) or ():
                consumer.ack(message)
                seen[message.body.decode()] += 1
        except Exception:  # the client says by errors of many kinds that a broker has gone; the deadline ends it
            time.sleep(0.5)


def run(version: str, folder: Path) -> None:
    tell, jars, path = Teller(), jars_of(version), folder / "store"
    tell(f"RocketMQ {version} from Maven; everything is below {folder}")
    read_here = write_store(path)
    tell(f"flightlog: {BEFORE:,} orders in {QUEUES} queues; the group {GROUP!r} has read {READ_HERE:,}; closed")
    seen: Counter[str] = Counter()
    with Cluster(jars, folder / "processes") as cluster, ExitStack() as undo:
        cluster.start_name_server(has_controller=True)
        tell(f"name server at {cluster.name_server}, a controller in it at {cluster.controller}")
        conf = handover.broker_conf(path, SETTINGS, address="127.0.0.1", name_server=cluster.name_server)
        report = handover.check(path, written(folder / "broker.conf", conf), settings=SETTINGS)
        assert report.is_fit, report.findings
        notes = ", ".join(note.name for note in report.notes) or "none"
        tell(f"handover check: {report.records:,} records, fit for a broker; notes: {notes}")
        pair = pair_of(cluster, path, folder / "second", TOPIC, QUEUES, BEFORE)
        master = pair.start_master(SETTINGS)
        tell(f"broker 1 at 127.0.0.1:{pair.ports[0]} on flightlog's folder, with the conf of `handover broker-conf`")
        other = pair.start_other()
        tell(f"broker 2 at 127.0.0.1:{pair.ports[1]} began with nothing, and has copied everything")
        address = cluster.start_proxy()
        clients = PythonClients(Address(address), undo)
        producer, consumer = clients.producer(TOPIC), clients.simple_consumer(GROUP, {TOPIC: None})
        tell(f"proxy at {address}; the official Python client is connected")
        sent = send(clients, producer, BEFORE, SENT)
        read(consumer, seen, lambda: len(seen) >= READ_THERE)
        tell(f"sent {len(sent):,} more, read {len(seen):,} of the group's: it went on where flightlog left it")
        assert not seen.keys() & read_here, sorted(seen.keys() & read_here)
        pair.wait_for_offsets(GROUP)
        tell(f"broker 2 has the group's offsets, {pair.group_offsets(1, GROUP)}")
        master.kill()
        tell("kill -9 of broker 1, the master")
        pair.wait_for_new_master()
        tell("the controller made broker 2 the master")
        sent += send(clients, producer, BEFORE + SENT, SENT_AFTER)
        owed = ({f"order {number:05d}" for number in range(BEFORE)} | set(sent)) - read_here
        read(consumer, seen, lambda: seen.keys() >= owed)
        again = sum(count - 1 for count in seen.values())
        tell(f"sent {SENT_AFTER:,} more and read to the end: {len(seen):,} messages, {again:,} a second time")
        other.stop()
    tell("stopped: broker 2, proxy, name server")
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
    parser.add_argument("--version", default=FIRST, help="of RocketMQ (default %(default)s)")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(arguments.version, folder)


if __name__ == "__main__":
    main()
