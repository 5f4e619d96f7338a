"""Failed messages beside a RocketMQ broker: the same records in the retry topic and among the dead letters, and each
continues the attempts of the other."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoredMessage, StoreSettings
from flightlog.consume.retry.send_back import send_to_dead_letters, send_to_retry
from flightlog.engine.topics.offset_table import read_offsets
from flightlog.store.disk.disk import RealDisk
from flightlog.testing import kill
from flightlog.tests.interop import mixed
from flightlog.tests.interop.harness import Line, RocketMq
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

pytestmark = pytest.mark.ci

LEVELS = " ".join(["1s"] * 18)
SIZES = {"segmentSize": 1 << 20, "queueEntries": 1000, "index": False, "config.messageDelayLevel": LEVELS}
SETTINGS = StoreSettings(
    segment_size=1 << 20, queue_file_entries=1000, key_index=False, delay_levels=LEVELS, rocketmq_strict=False
)
COUNT = 60


def run_broker(rocketmq: RocketMq, root: Path, *orders: Sequence[object]) -> list[Line]:
    """A broker with these orders; see PopProgram.java."""
    path = root.parent / f"orders-{root.name}"
    path.write_text("".join("\t".join(map(str, words)) + "\n" for words in (("group", "g"), *orders)))
    with rocketmq.run("pop", {"path": root, "orders": path, **SIZES}, 300) as output:
        return [json.loads(line) for line in output.read_text().splitlines()]


def originals(root: Path) -> list[StoredMessage]:
    """Messages of every kind, each with a queue entry. A broker takes none back that has an empty body."""
    dice = islice(mixed.mixed_messages(7), 3 * COUNT)
    plain = [each for each in dice if not each.sys_flag & 12 and 0 < len(each.body) < 10_000][:COUNT]
    with flightlog.open(root, SETTINGS) as store:
        store.create_topic("orders", 2)
        for number, each in enumerate(plain):
            each.topic, each.queue_id, each.reconsume_times = "orders", number % 2, (0, 3, 15, 16, 17)[number % 5]
            store.put(each)
        store.put(Message("orders", b"was late", delay_level=1))
        process.wait_until(lambda: any(m.body == b"was late" for m in store.read("orders")))
        return [message for queue_id in range(2) for message in store.read("orders", queue_id)]


def sent_back(root: Path) -> list[tuple[object, ...]]:
    """All fields of what is in the retry topic and among the dead letters, but times and where they are in the log."""
    with flightlog.open_read_only(root) as view:
        return [
            (
                *(m.topic, m.queue_id, m.queue_offset, m.body, m.body_crc, m.flag, m.sys_flag, m.born_timestamp_ms),
                *(m.born_host, m.reconsume_times, m.prepared_transaction_offset, m.properties),
            )
            for topic in ("%RETRY%g", "%DLQ%g")
            for m in view.read(topic)
        ]


def test_records_are_those_of_the_broker(rocketmq: RocketMq, tmp_path: Path) -> None:
    found = originals(tmp_path / "ours")
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    orders = [
        ("back", "g", message.physical_offset, -1 if number % 7 == 6 else 0) for number, message in enumerate(found)
    ]
    retried = sum(m.reconsume_times + 1 < 17 and number % 7 != 6 for number, m in enumerate(found))
    lines = run_broker(rocketmq, tmp_path / "theirs", *orders, ("arrived", "%RETRY%g", retried))
    assert not [line for line in lines if line["type"] == "missing"]
    refused = {
        number: line["remark"]
        for number, line in enumerate(line for line in lines if line["type"] == "back")
        if line["code"]
    }
    assert not refused, [(found[number], refused[number]) for number in refused]
    with flightlog.open(tmp_path / "ours", SETTINGS) as store:
        inner = store.message_store
        for number, message in enumerate(found):
            attempt = message.reconsume_times + 1
            if attempt >= 17 or number % 7 == 6:
                send_to_dead_letters(inner, "g", message, attempt)
            else:
                send_to_retry(inner, "g", message, attempt)
        process.wait_until(lambda: not any(state.pending for state in store.statistics().delays))
        topics = {name: (t.perm, t.read_queue_count, t.write_queue_count) for name, t in store.topics().items()}
    ours, theirs = sent_back(tmp_path / "ours"), sent_back(tmp_path / "theirs")
    key = repr
    assert len(ours) == len(found)
    # The levels deliver side by side, so their order in the retry topic is not defined.
    without_place = [sorted((each[:2] + each[3:] for each in some), key=key) for some in (ours, theirs)]
    assert without_place[0] == without_place[1]
    made = json.loads((tmp_path / "theirs" / "config" / "topics.json").read_text())["topicConfigTable"]
    for name in ("%RETRY%g", "%DLQ%g"):
        assert topics[name] == tuple(made[name][field] for field in ("perm", "readQueueNums", "writeQueueNums"))


def test_each_continues_the_attempts_of_the_other(rocketmq: RocketMq, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with flightlog.open(root, SETTINGS) as store:
        store.put_many(Message("orders", b"%d" % number) for number in range(3))
        offsets = [message.physical_offset for message in store.read("orders")]
        with store.subscribe("orders", "g", max_attempts=4) as member:
            for message in islice(member, 3):
                assert message.send_back()
    lines = run_broker(rocketmq, root, ("arrived", "%RETRY%g", 3), ("sleep", 2000))
    assert lines[-1]["type"] == "closed"
    with flightlog.open(root, SETTINGS) as store:
        waiting = list(store.read("%RETRY%g"))
        assert sorted(m.body for m in waiting) == [b"0", b"1", b"2"], "the broker has delivered what we sent back"
    backs = [("back", "g", message.physical_offset, 0) for message in waiting]
    lines = run_broker(rocketmq, root, *backs, ("sleep", 500))
    assert [line["code"] for line in lines if line["type"] == "back"] == [0] * 3, offsets
    with flightlog.open(root, SETTINGS) as store:
        with store.subscribe("orders", "g", max_attempts=3) as member:
            found = {}
            for message in islice(member, 6):
                found[message.body, message.attempt] = message.topic
                assert message.ack() if message.attempt == 2 else message.send_back()
        assert found == {(b"%d" % n, attempt): "orders" for n in range(3) for attempt in (2, 3)}
        assert sorted((m.body, m.reconsume_times) for m in store.dead_letters("g")) == [
            (b"%d" % n, 3) for n in range(3)
        ]


def test_after_a_kill_a_broker_loses_no_message_and_may_repeat_a_dead_letter(
    rocketmq: RocketMq, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """It knows offsets and deliveries as they were on the disk. Its group fails at all that it receives."""
    root = tmp_path / "store"
    store = flightlog.open(root, replace(SETTINGS, offset_save_interval_ms=3_600_000, delay_save_interval_ms=3_600_000))
    inside.groups_without_thread(store)
    store.put_many(Message("orders", b"%d" % number) for number in range(5))
    member = store.subscribe("orders", "g", max_attempts=2)
    messages = member.receive_batch(5)
    assert messages[0].ack()
    inside.group_offsets(store).save()
    assert messages[1].send_back()
    again = member.receive(process.LIMIT_S)
    assert again is not None and (again.body, again.attempt) == (b"1", 2) and again.send_back()
    assert messages[2].send_back() and messages[3].ack()
    assert [letter.body for letter in store.dead_letters("g")] == [b"1"]
    kill(store)

    lines = run_broker(rocketmq, root, ("arrived", "%RETRY%g", 3))
    assert [line["type"] for line in lines] == ["closed"]
    assert read_offsets(RealDisk(), root)["g"]["orders"][0] == 1
    with flightlog.open_read_only(root) as view:
        received = [*view.read("orders", 0, 1), *view.read("%RETRY%g")]
    assert Counter(m.body for m in received)[b"1"] == 3, "its first record, and its delivery twice"
    lines = run_broker(rocketmq, root, *(("back", "g", message.physical_offset, -1) for message in received))
    assert [line["code"] for line in lines if line["type"] == "back"] == [0] * len(received)

    with flightlog.open(root, SETTINGS) as store:
        letters = Counter(letter.body for letter in store.dead_letters("g"))
    assert letters.keys() == {b"1", b"2", b"3", b"4"} and letters[b"1"] == 4
    assert_clean(root)
