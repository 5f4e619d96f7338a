"""Broadcast offsets beside RocketMQ's own LocalFileOffsetStore: its offsets.json is read by us, ours by it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.tests.interop.harness import RocketMq

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

pytestmark = pytest.mark.ci

LIMIT_S = 120.0
UNKNOWN = -1
"""What RocketMQ answers of a queue whose offset it does not know."""

Client = Callable[..., dict[str, int]]


@pytest.fixture
def client(rocketmq: RocketMq, tmp_path: Path) -> Client:
    """The offsets that a client of RocketMQ reads below "host" of the queues in `ask` ("TOPIC:BROKER_NAME:QUEUE_ID").
    It then commits ("TOPIC:BROKER_NAME:QUEUE_ID:OFFSET"), and writes the file."""

    def run(*ask: str, commit: Sequence[str] = ()) -> dict[str, int]:
        arguments = {"path": tmp_path / "host", "group": "caches", "ask": ask, "commit": commit}
        found: dict[str, int] = {}
        with rocketmq.run("local-offsets", arguments, LIMIT_S) as output:
            for line in output.read_text().splitlines():
                found |= {queue: int(offset) for queue, offset in json.loads(line)["offsets"].items()}
        return found

    return run


def consume(stores: flightlog.Stores, folder: Path, topic: str) -> list[bytes]:
    """What a member that begins in this folder has not had yet; it acknowledges it all."""
    with stores.subscribe(topic, "caches", broadcast_folder=folder, idle_s=0) as member:
        return sorted(message.body for message in member if message.ack())


def test_each_goes_on_where_the_other_was(client: Client, tmp_path: Path, assert_clean: AssertClean) -> None:
    host = tmp_path / "host"
    with flightlog.open(tmp_path / "a", flightlog.StoreSettings.small(rocketmq_strict=False)) as store:
        for topic in ("prices", "订单🚀"):
            for number in range(6):
                store.put(flightlog.Message(topic, b"%d" % number, queue_id=number % 2))
        with flightlog.Stores({"broker-a": store}) as stores:
            assert len(consume(stores, host, "prices")) == 6
            assert len(consume(stores, host, "订单🚀")) == 6
            ours = client("prices:broker-a:0", "prices:broker-a:1", "订单🚀:broker-a:1", "prices:broker-b:0")
            assert ours.pop("prices:broker-b:0") == UNKNOWN
            assert ours == {"prices:broker-a:0": 3, "prices:broker-a:1": 3, "订单🚀:broker-a:1": 3}

            client(commit=["prices:broker-a:0:1", "prices:broker-b:7:9"])
            assert consume(stores, host, "prices") == [b"2", b"4"], "those behind RocketMQ's offset of queue 0"
            assert consume(stores, host, "订单🚀") == [], "what RocketMQ did not touch stays"
            assert client("prices:broker-a:0", "prices:broker-b:7") == {"prices:broker-a:0": 3, "prices:broker-b:7": 9}
    assert_clean(tmp_path / "a")


def test_a_folder_that_rocketmq_began(client: Client, tmp_path: Path, assert_clean: AssertClean) -> None:
    client(commit=["prices:broker-a:0:2", "prices:broker-a:1:0"])
    with flightlog.open(tmp_path / "a", flightlog.StoreSettings.small()) as store:
        for number in range(6):
            store.put(flightlog.Message("prices", b"%d" % number, queue_id=number % 2))
        with flightlog.Stores({"broker-a": store}) as stores:
            assert consume(stores, tmp_path / "host", "prices") == [b"1", b"3", b"4", b"5"]
    assert_clean(tmp_path / "a")
