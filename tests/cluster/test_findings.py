"""What a broker 5.3.3, its proxy, a slave and its clients do with what `flightlog handover check` warns of, with
nothing mended. One store shows it all; the rest is in tests/interop/test_handover_findings.py, and `file-sizes` in
tests/interop/test_handover_conf.py."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Message, StoreSettings, handover
from flightlog.consume.store import open_store
from flightlog.serve.remoting.wire.codes import RequestCode
from flightlog.tests.cluster.jars import FIRST, OLDEST
from flightlog.tests.cluster.java_client import run_client
from flightlog.tests.cluster.java_words import program_of
from flightlog.tests.cluster.processes import Cluster, RocketmqProcess, free_port, with_lines
from flightlog.tests.cluster.states import PATIENCE_S, group_offset, is_routed, max_offset, topics, wait_until
from flightlog.tests.support.clocks import HeldClock
from flightlog.tests.support.remoting_client import RemotingClient
from flightlog.tests.support.rocketmq_clients import Address, PythonClients

pytestmark = [pytest.mark.ci, pytest.mark.timeout(900), pytest.mark.xdist_group("cluster-findings")]

REFUSALS_LIMIT_S = 200.0
SETTINGS = StoreSettings.small(rocketmq_strict=False, store_host=("127.0.0.1", 1))
"""Nobody answers at this address."""
OTHER_NAME = "another"
BATCH, SOUND, POPPED, POPPED_AWAY = 10, 3, 3, 2
INVISIBLE_MS = 1000
TIMED_MS = 10_000
"""Below delay level 4; what is popped for a second or less gets no timer."""
RECEIVED_S = 30
BEHIND_S = 5
"""What was due earlier has come, if it comes at all."""
NEW_TOPICS = [f"new-{number}" for number in range(10)]


@dataclass
class Shown:
    """The store with its findings under a broker of another name, with a proxy and a slave."""

    jars: Path
    folder: Path
    cluster: Cluster
    clients: PythonClients
    port: int
    slave_port: int
    broker: RocketmqProcess
    slave: RocketmqProcess
    found: dict[str, str]
    message_id: str


def fill(path: Path) -> str:
    """Returns the offset message id of a message."""
    with flightlog.open(path, SETTINGS) as store:
        for number in range(SOUND):
            put = store.put(Message("sound", b"sound %d" % number))
        store.put(Message("dotted.topic", b"x"))
        store.commit_offset("bill.ing", "sound", 0, 1)
        store.put_many([Message("quiet", b"before"), Message("quiet", b""), Message("quiet", b"behind")])
        store.create_topic("packed", 1, attributes={"queue.type": "BatchCQ"})
        store.put_batch([Message("packed", b"packed %d" % number) for number in range(BATCH)])
        store.put_many(Message("popped", b"popped %d" % number) for number in range(POPPED))
        assert len(store.receive("popper", "popped", POPPED_AWAY, invisible_ms=INVISIBLE_MS)) == POPPED_AWAY
    return put.message_id


@pytest.fixture(scope="module")
def shown(jars: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("findings")
    path, ports = folder / "store", (free_port(), free_port())
    message_id = fill(path)
    with ExitStack() as undo:
        cluster = undo.enter_context(Cluster(jars(FIRST), folder / "processes"))
        cluster.start_name_server()
        conf = handover.broker_conf(path, SETTINGS, address="127.0.0.1", port=ports[0], name_server=cluster.name_server)
        conf = with_lines(conf, {"brokerName": OTHER_NAME})
        (folder / "broker.conf").write_text(conf)
        report = handover.check(path, folder / "broker.conf", settings=SETTINGS)
        seeded = handover.seed_slave(
            *(path, folder / "slave", SETTINGS), address="127.0.0.1", port=ports[1], name_server=cluster.name_server
        )
        broker = cluster.launch_broker("broker", conf)
        slave = cluster.launch_broker("slave", with_lines(seeded.conf, {"brokerName": OTHER_NAME}))
        broker.wait_started()
        wait_until("the topics are routed", lambda: is_routed(cluster.name_server, "sound"))
        clients = PythonClients(Address(cluster.start_proxy()), undo)
        slave.wait_started()
        yield Shown(
            *(jars(FIRST), folder, cluster, clients, *ports, broker, slave),
            {each.name: each.found for each in report.findings + report.notes},
            message_id,
        )


def refusals(shown: Shown, *words: str) -> dict[str, str]:
    """What RocketMQ's Java client said to each attempt; see Refusals.java."""
    home = shown.folder / "refusals"
    options = [f"-Drocketmq.client.logRoot={home}"]
    command = program_of("Refusals.java", shown.jars, home, options, shown.cluster.name_server, *words)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=REFUSALS_LIMIT_S,
        cwd=home,
        env={**os.environ, "NAMESRV_ADDR": ""},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    pairs = (line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    return dict(pairs)


def test_the_check_finds_all_of_it(shown: Shown) -> None:
    assert set(shown.found) == {
        *("topic-names", "group-names", "empty-bodies", "broker-name", "store-host", "topic-attributes"),
        *("batch-queues", "rocketmq-4.9"),
    }


def test_clients_refuse_names_and_find_nobody_at_the_address_of_an_id(shown: Shown) -> None:
    """`topic-names`, `group-names`, `store-host`: the broker has the topic and the group all the same."""
    said = refusals(
        *(shown, "send", "sound", "send", "dotted.topic", "join", "billing", "sound", "join", "bill.ing", "sound"),
        *("view", "sound", shown.message_id),
    )
    assert said["send sound"] == said["join billing sound"] == "done"
    assert "contains illegal characters" in said["send dotted.topic"]
    assert "contains illegal characters" in said["join bill.ing sound"]
    assert said[f"view {shown.message_id}"] == "connect to 127.0.0.1:1 failed"
    assert max_offset(shown.port, "dotted.topic", 0) == group_offset(shown.port, "bill.ing", "sound", 0) == 1


def test_the_proxy_refuses_the_name_of_a_topic_that_remoting_clients_can_read(shown: Shown) -> None:
    """`topic-names`"""
    with pytest.raises(Exception, match="topic name is invalid"):
        received(shown, "readers", "dotted.topic")
    said = run_client(shown.jars, shown.folder / "puller", shown.cluster.name_server, "pull", "dotted.topic")
    assert said.bodies("pulled") == ["x"]


def received(shown: Shown, group: str, topic: str) -> list[Any]:
    """What a gRPC client gets first. Raises what the proxy answers."""
    consumer = shown.clients.simple_consumer(group, {topic: None})
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            found = consumer.receive(32, RECEIVED_S)
            if found or time.monotonic() > deadline_s:
                return found or []
        except Exception as e:
            if '"settings" is null' not in str(e) or time.monotonic() > deadline_s:
                raise  # what it catches is a race in the proxy, when a consumer has just started


def test_the_proxy_fails_on_a_message_without_a_body(shown: Shown) -> None:
    """`empty-bodies`: its group gets none of those that were received together; the remoting client gets all."""
    sound, wanted = set[bytes](), {b"sound %d" % number for number in range(SOUND)}

    def is_whole() -> bool:
        sound.update(message.body for message in received(shown, "readers", "sound"))
        return sound >= wanted

    wait_until("the sound ones come", is_whole)
    with pytest.raises(Exception, match="MessageDigest.update"):
        received(shown, "readers-of-quiet", "quiet")
    said = run_client(shown.jars, shown.folder / "puller", shown.cluster.name_server, "pull", "quiet")
    assert said.bodies("pulled") == ["", "before", "behind"]


def test_the_proxy_hands_out_a_batch_as_one_message(shown: Shown) -> None:
    """`batch-queues`: Java's pull consumer gets each."""
    [batch] = received(shown, "readers-of-packed", "packed")
    assert all(b"packed %d" % number in batch.body for number in range(BATCH))
    said = run_client(shown.jars, shown.folder / "puller", shown.cluster.name_server, "pull", "packed")
    assert said.bodies("pulled") == [f"packed {number}" for number in range(BATCH)]


def logged(process: RocketmqProcess, log: str, *words: str) -> bool:
    """Whether a line of the log has all these words."""
    text = (process.home / "logs" / "rocketmqlogs" / log).read_text(errors="replace")
    return any(all(word in line for word in words) for line in text.splitlines())


def test_a_broker_of_another_name_never_delivers_what_was_popped(shown: Shown) -> None:
    """`broker-name`: it looks for a broker of the store's name, which nobody has."""
    wait_until(
        "the broker wants to deliver it",
        lambda: all(
            logged(shown.broker, "pop.log", f"topic:popped, qid:0, offset:{offset}", "brokerAddress not found")
            for offset in range(POPPED_AWAY)
        ),
    )
    assert [message.body for message in received(shown, "popper", "popped")] == [b"popped %d" % POPPED_AWAY]


def create_topics(port: int, names: list[str]) -> None:
    with RemotingClient(port) as client:
        for name in names:
            fields = {
                "topic": name,
                "defaultTopic": "TBW102",
                "readQueueNums": 1,
                "writeQueueNums": 1,
                "perm": 6,
                "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": 0,
                "order": "false",
            }
            answer = client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
            assert answer.code == 0, answer.remark


def test_a_slave_loses_topics_over_attributes(shown: Shown) -> None:
    """`topic-attributes`: it stops at the first one, and gets none of the master's topics any more."""
    create_topics(shown.port, NEW_TOPICS)
    assert topics(shown.port) >= set(NEW_TOPICS)
    wait_until("the slave asks for topics", lambda: logged(shown.slave, "broker.log", "SyncTopicConfig Exception"))
    assert not topics(shown.slave_port) & set(NEW_TOPICS)


def test_a_broker_beside_a_store_in_use_deletes_index_files(jars: Callable[[str], Path], tmp_path: Path) -> None:
    """`in-use`: and then it ends."""
    path, conf = tmp_path / "store", tmp_path / "broker.conf"
    with flightlog.open(path, SETTINGS) as store:
        store.put(Message("sound", b"x", keys="first"))
    with flightlog.open(path, SETTINGS) as store, Cluster(jars(FIRST), tmp_path / "processes") as cluster:
        for number in range(SOUND):
            store.put(Message("sound", b"x", keys=f"k{number}"))
        conf.write_text(
            handover.broker_conf(path, SETTINGS, address="127.0.0.1", port=free_port(), name_server="127.0.0.1:1")
        )
        assert [each.name for each in handover.check(path, conf, settings=SETTINGS).findings] == ["in-use"]
        before = sorted((path / "index").iterdir())
        broker = cluster.launch_broker("broker", conf.read_text())
        assert broker.wait_ended() != 0 and "Lock failed" in broker.output
        assert before and not set(before) & set((path / "index").iterdir())


@pytest.mark.full
def test_a_broker_without_rocksdb_has_no_topics_and_offsets_that_are_in_it(
    jars: Callable[[str], Path], tmp_path: Path
) -> None:
    """`rocksdb`"""
    path, conf, port = tmp_path / "store", tmp_path / "broker.conf", free_port()
    flightlog.open(path, SETTINGS).close()
    with Cluster(jars(FIRST), tmp_path / "processes") as cluster:
        cluster.start_name_server()
        text = handover.broker_conf(path, SETTINGS, address="127.0.0.1", port=port, name_server=cluster.name_server)
        conf.write_text(text)
        broker = cluster.start_broker("broker", with_lines(text, {"storeType": "defaultRocksDB"}))
        create_topics(port, NEW_TOPICS)
        with RemotingClient(port) as client:
            group = {"groupName": "billing"}
            assert client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group).code == 0
            fields = {"consumerGroup": "billing", "topic": NEW_TOPICS[0], "queueId": 0, "commitOffset": 0}
            assert client.call(RequestCode.UPDATE_CONSUMER_OFFSET, fields).code == 0
        assert group_offset(port, "billing", NEW_TOPICS[0], 0) == 0
        broker.stop()
        assert "rocksdb" in {each.name for each in handover.check(path, conf, settings=SETTINGS).findings}
        cluster.start_broker("broker", text)
        assert not topics(port) & set(NEW_TOPICS)
        assert group_offset(port, "billing", NEW_TOPICS[0], 0) is None


@pytest.mark.full
def test_a_broker_of_49_delivers_no_timer_and_nothing_that_was_popped(
    jars: Callable[[str], Path], tmp_path: Path
) -> None:
    """`rocketmq-4.9`. A message with a delay level tells that the time of both is over."""
    path, port = tmp_path / "store", free_port()
    # The clock stands still, so that both timers wait yet when the store is closed, however long that takes.
    with open_store(path, SETTINGS, clock=HeldClock(time.time())) as store:
        for topic in ("levels", "timed", "popped"):
            store.create_topic(topic, 1)
        store.put(Message("popped", b"x"))
        assert store.receive("popper", "popped", invisible_ms=TIMED_MS)
        store.put(Message("timed", b"x").deliver_after_ms(TIMED_MS))
        store.put(Message("levels", b"x", delay_level=4))
    text = handover.broker_conf(path, SETTINGS, address="127.0.0.1", port=port)
    (tmp_path / "broker.conf").write_text(text)
    report = handover.check(path, tmp_path / "broker.conf", settings=SETTINGS)
    told = {each.name: each.found for each in report.findings + report.notes}["rocketmq-4.9"]
    assert "2 timers" in told, "the one that was put, and that of what was popped"
    assert "popped and not acknowledged" in told
    with Cluster(jars(OLDEST), tmp_path / "processes") as cluster:
        cluster.start_name_server()
        cluster.start_broker("broker", with_lines(text, {"namesrvAddr": cluster.name_server}))
        wait_until("the delay is over", lambda: max_offset(port, "levels", 0) == 1)
        time.sleep(BEHIND_S)
        assert max_offset(port, "timed", 0) == 0
        assert "%RETRY%popper_popped" not in topics(port)
    with flightlog.open(path, SETTINGS) as store:
        wait_until("the timer fires here", lambda: store.queue_bounds("timed", 0)[1] == 1)
        again = wait_until("what was popped comes again here", lambda: store.receive("popper", "popped"))
        assert [each.body for each in again] == [b"x"]
