"""Broadcasting: every member has all queues, and keeps its offsets in a folder of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Consumer, Message, MessageQueue, ReceivedMessage, Stores, StoreSettings, Subscription
from flightlog.consume.group.local_progress import LocalProgress, OffsetsFile
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import ConfigFileError, InconsistentGroupError, UsageError
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.tests.consume.conftest import Disks

Bodies = Callable[[Subscription], list[bytes]]


def test_each_member_has_all_messages_and_goes_on_where_it_was(disks: Disks, bodies: Bodies, tmp_path: Path) -> None:
    hosts = [tmp_path / name for name in ("host-1", "host-2")]
    with Stores(disks.open("a", "b")) as stores:
        for number in range(16):
            disks.put("ab"[number % 2], f"{number:02}")
        members = [stores.subscribe("orders", "prices", broadcast_folder=folder) for folder in hosts]
        assert [len(each.queues) for each in members] == [8, 8]
        assert bodies(members[0]) == [b"%02d" % number for number in range(16)]
        first = members[1].receive(0)
        assert first is not None and first.ack()
    with Stores(disks.stores) as stores:
        disks.put("b", 16)
        members = [stores.subscribe("orders", "prices", broadcast_folder=folder) for folder in hosts]
        assert bodies(members[0]) == [b"16"]
        assert len(bodies(members[1])) == 16
    assert not disks.stores["a"].group_offsets("prices", "orders"), "the group has none"
    assert {path.name for path in hosts[0].rglob("*") if path.is_file()} >= {"offsets.json"}


@pytest.mark.parametrize("ordered", [False, True])
def test_a_listener_of_each_member_hears_all_messages(
    ordered: bool, disks: Disks, tmp_path: Path, wait_until: Callable[[Callable[[], object]], None]
) -> None:
    store = disks.open("a")["a"]
    for number in range(20):
        store.put(Message("orders", b"%d" % number))  # of one queue
    heard: dict[str, list[int]] = {"host-1": [], "host-2": []}
    both = threading.Barrier(2)

    def listener(host: str) -> Callable[[ReceivedMessage], None]:
        def hear(message: ReceivedMessage) -> None:
            if not heard[host]:
                both.wait(process.LIMIT_S)  # neither keeps the other from the queue
            heard[host].append(int(message.body))

        return hear

    consumers = [
        Consumer(
            *(store, "orders", "prices", listener(host)),
            threads=1,
            ordered=ordered,
            broadcast_folder=tmp_path / host,
        )
        for host in heard
    ]
    with consumers[0], consumers[1]:
        wait_until(lambda: all(len(each) == 20 for each in heard.values()))
    assert all(sorted(each) == list(range(20)) for each in heard.values())
    with Consumer(store, "orders", "prices", listener("host-1"), broadcast_folder=tmp_path / "host-1") as again:
        assert sum(again.lag().values()) == 0


def test_members_that_differ_do_not_get_in(disks: Disks, tmp_path: Path) -> None:
    store = disks.open("a")["a"]
    first = store.subscribe("orders", "g", broadcast_folder=tmp_path / "x")
    with pytest.raises(InconsistentGroupError, match="a folder for each member"):
        store.subscribe("orders", "g", broadcast_folder=tmp_path / "x")
    with pytest.raises(InconsistentGroupError, match="broadcasting"):
        store.subscribe("orders", "g")
    with (
        flightlog.open(tmp_path / "free", StoreSettings.small(rocketmq_strict=False)) as free,
        pytest.raises(UsageError, match="a name that a folder can have"),
    ):
        free.subscribe("orders", "../g", broadcast_folder=tmp_path / "x")
    first.close()
    assert len(store.subscribe("orders", "g").topics) == 1


def test_a_poisoned_store_keeps_its_offsets_and_the_other_goes_on(
    disks: Disks, bodies: Bodies, tmp_path: Path, wait_until: Callable[[Callable[[], object]], None]
) -> None:
    stores = Stores(disks.open("a", "b"))
    disks.put("a", *range(4))
    disks.put("b", *range(4))
    member = stores.subscribe("orders", "g", broadcast_folder=tmp_path / "host")
    assert len(bodies(member)) == 8
    inside.look_after(stores)
    disks.poison("a")
    disks.put("b", 4)
    wait_until(lambda: {queue.broker_name for queue in member.queues} == {"b"})
    assert bodies(member) == [b"4"]
    stores.close()
    found = LocalProgress(RealDisk(), tmp_path / "host", "g", dict)
    assert sum(found.get(MessageQueue("orders", "b", queue_id)) or 0 for queue_id in range(4)) == 5
    assert sum(found.get(MessageQueue("orders", "a", queue_id)) or 0 for queue_id in range(4)) == 4


def test_the_file_is_rocketmqs(tmp_path: Path) -> None:
    """As `LocalFileOffsetStore` of 5.3.3 writes it, with fastjson: keys that are objects."""
    file = tmp_path / "g" / "offsets.json"
    file.parent.mkdir()
    file.write_text(
        '{\n\t"offsetTable":{{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":3,\n\t\t\t"topic":"TopicTest"\n\t\t}:123,'
        '{\n\t\t\t"brokerName":"订}:{",\n\t\t\t"queueId":0,\n\t\t\t"topic":"a \\"{}: b"\n\t\t}:5\n\t}\n}'
    )
    progress = LocalProgress(RealDisk(), tmp_path, "g", dict)
    assert progress.get(MessageQueue("TopicTest", "broker-a", 3)) == 123
    assert progress.get(MessageQueue('a "{}: b', "订}:{", 0)) == 5
    queue = json.dumps({"brokerName": "订}:{", "queueId": 0, "topic": "a"})
    OffsetsFile(RealDisk(), file).write({"offsetTable": {queue: 7}})
    assert LocalProgress(RealDisk(), tmp_path, "g", dict).get(MessageQueue("a", "订}:{", 0)) == 7


QUEUE = '{"topic":"t","brokerName":"b","queueId":0}'


@pytest.mark.parametrize(
    "table",
    [
        *("[]", '{{"topic":"t"}:1}', '{"x":1}', "{", "\udcff", '{{"topic":"t","brokerName":"b","queueId":-1}:1}'),
        *('{{"topic":"t","brokerName":"b","queueId":"0"}:1}', *(f"{{{QUEUE}:{at}}}" for at in ("-1", "true", "1.5"))),
    ],
)
def test_a_damaged_file_is_told(tmp_path: Path, table: str) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "offsets.json").write_bytes(f'{{"offsetTable":{table}}}'.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigFileError):
        LocalProgress(RealDisk(), tmp_path, "g", dict)
