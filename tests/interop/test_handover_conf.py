"""The conf that `handover broker-conf` writes, under a real broker; and what becomes of the store without it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Message, StoreSettings, handover
from flightlog.serve.remoting.wire.codes import RequestCode, ResponseCode
from flightlog.serve.remoting.wire.command import Command
from flightlog.tests.cluster.processes import free_port
from flightlog.tests.interop.harness import RocketMq
from flightlog.tests.interop.real_broker import ended_broker, running_broker, running_name_server
from flightlog.tests.support.remoting_client import RemotingClient

pytestmark = pytest.mark.ci

COUNT, QUEUES = 4000, 2
SETTINGS = StoreSettings.small(delay_levels="1s 7s 2h")
PULL_LIMIT = 32
PATIENCE_S = 120.0


def put(path: Path, first: int = 0) -> None:
    with flightlog.open(path, SETTINGS) as store:
        for number in range(first, first + COUNT):
            store.put(Message("orders", f"body {number} ".encode() * 30, keys=f"k{number}", queue_id=number % QUEUES))


def stored(path: Path) -> list[bytes]:
    """The records of each queue, as they lie in the log."""
    segments = {int(file.name): file.read_bytes() for file in (path / "commitlog").iterdir()}
    found = []
    with flightlog.open_read_only(path) as view:
        for queue_id in range(QUEUES):
            places = [(message.physical_offset, message.size) for message in view.read("orders", queue_id)]
            parts = []
            for at, size in places:
                base = at - at % (SETTINGS.segment_size or 1)
                parts.append(segments[base][at - base : at - base + size])
            found.append(b"".join(parts))
    return found


def call(client: RemotingClient, code: RequestCode, fields: dict[str, Any], body: bytes = b"") -> Command:
    """The answer; a broker does nothing for a request that waited for a fifth of a second, and says that it is busy."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (answer := client.call(code, fields, body)).code == ResponseCode.SYSTEM_BUSY:
        assert time.monotonic() < deadline_s, answer.remark
    return answer


def send(port: int, count: int) -> None:
    with RemotingClient(port) as client:
        for number in range(count):
            fields = {
                "producerGroup": "sender",
                "topic": "orders",
                "defaultTopic": "TBW102",
                "defaultTopicQueueNums": QUEUES,
                "queueId": number % QUEUES,
                "sysFlag": 0,
                "bornTimestamp": 1,
                "flag": 0,
                "properties": "",
                "reconsumeTimes": 0,
                "unitMode": "false",
            }
            answer = call(client, RequestCode.SEND_MESSAGE, fields, f"sent {number}".encode())
            assert answer.code == 0, (answer.code, answer.remark)


def pulled(port: int) -> list[bytes]:
    """The records that the broker answers, queue by queue."""
    found = []
    with RemotingClient(port) as client:
        for queue_id in range(QUEUES):
            at, parts = 0, []
            while True:
                fields = {
                    "consumerGroup": "reader",
                    "topic": "orders",
                    "queueId": queue_id,
                    "queueOffset": at,
                    "maxMsgNums": PULL_LIMIT,
                    "sysFlag": 4,  # the subscription stands in the request
                    "commitOffset": 0,
                    "suspendTimeoutMillis": 0,
                    "subscription": "*",
                    "subVersion": 0,
                    "expressionType": "TAG",
                }
                answer = call(client, RequestCode.PULL_MESSAGE, fields)
                if answer.code == ResponseCode.PULL_NOT_FOUND:
                    break
                assert answer.code == 0, (answer.code, answer.remark)
                parts.append(answer.body)
                at = int(answer.fields["nextBeginOffset"])
            found.append(b"".join(parts))
    return found


def test_a_broker_serves_the_store_with_its_conf_and_gives_it_back(
    rocketmq: RocketMq, tmp_path: Path, assert_clean: Callable[[Path], object]
) -> None:
    path, conf = tmp_path / "store", tmp_path / "broker.conf"
    for turn in range(2):
        put(path, turn * COUNT)
        assert len(list((path / "commitlog").iterdir())) >= 2
        port = free_port()
        conf.write_text(handover.broker_conf(path, SETTINGS, address="127.0.0.1", port=port, name_server="127.0.0.1:1"))
        report = handover.check(path, conf, settings=SETTINGS)
        assert report.is_fit and report.records == (turn + 1) * COUNT, report.findings
        expected = stored(path)
        with running_broker(rocketmq, conf, tmp_path / f"home-{turn}"):
            assert pulled(port) == expected
        assert stored(path) == expected
        assert_clean(path)


def test_a_broker_with_its_default_sizes_does_not_start(
    rocketmq: RocketMq, tmp_path: Path, assert_clean: Callable[[Path], object]
) -> None:
    """The finding `file-sizes`, seen on a real broker, and that the folder is none the worse for it."""
    path, conf = tmp_path / "store", tmp_path / "broker.conf"
    put(path)
    text = handover.broker_conf(path, SETTINGS, address="127.0.0.1", port=free_port(), name_server="127.0.0.1:1")
    sizes = ("mappedFileSize", "maxHashSlotNum", "maxIndexNum")
    conf.write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith(sizes)))
    [finding] = handover.check(path, conf, settings=SETTINGS).findings
    assert finding.name == "file-sizes"
    before = stored(path)
    ended = ended_broker(rocketmq, conf, tmp_path / "home")
    assert ended.code != 0 and "length not matched message store config value" in ended.output
    flightlog.open(path, SETTINGS).close()
    assert stored(path) == before
    assert_clean(path)


@pytest.mark.timeout(900)
def test_a_seeded_slave_follows_its_master(
    rocketmq: RocketMq, tmp_path: Path, assert_clean: Callable[[Path], object]
) -> None:
    """Old messages from the copy, new ones from the master, byte by byte."""
    path, master, slave = tmp_path / "store", tmp_path / "master.conf", tmp_path / "slave.conf"
    put(path)
    ports = free_port(), free_port()
    with running_name_server(rocketmq, tmp_path / "home-names") as names:
        made = handover.seed_slave(
            path, tmp_path / "slave", SETTINGS, address="127.0.0.1", port=ports[1], name_server=names
        )
        assert_clean(made.path)
        assert stored(made.path) == stored(path)
        slave.write_text(made.conf)
        master.write_text(handover.broker_conf(path, SETTINGS, address="127.0.0.1", port=ports[0], name_server=names))
        with (
            running_broker(rocketmq, master, tmp_path / "home-master"),
            running_broker(rocketmq, slave, tmp_path / "home-slave"),
        ):
            send(ports[0], 100)
            expected = pulled(ports[0])
            deadline_s = time.monotonic() + PATIENCE_S
            while (found := pulled(ports[1])) != expected and time.monotonic() < deadline_s:
                time.sleep(0.2)
            assert [len(raw) for raw in found] == [len(raw) for raw in expected] and found == expected
    assert stored(made.path) == stored(path) == expected
    for store in (path, made.path):
        assert_clean(store)
