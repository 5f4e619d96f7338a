"""Transactions that a broker began and we end, and the reverse; the same calls leave the same records.

RocketMQ's clock cannot be set, so its broker checks every five seconds; ours is moved by hand.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Message, Producer, StoredMessage, StoreSettings, TransactionChecker
from flightlog import TransactionResolution as Resolution
from flightlog.produce.transaction.half_message import CHECK_GROUP, CHECK_TIMES, DISCARDED_TOPIC, OP_TOPIC
from flightlog.schedule.delivered import HALF_TOPIC
from flightlog.store.message_queue import MessageQueue
from flightlog.testing import kill
from flightlog.testing.clock import ManualClock
from flightlog.tests.interop.harness import Line, RocketMq
from flightlog.tests.support import inside

pytestmark = pytest.mark.ci

SIZES = {"segmentSize": 1 << 20, "queueEntries": 1000, "index": False}
CHECKS = {"timeOut": 6000, "checkMax": 3, "checkInterval": 5000}
SETTINGS = StoreSettings(segment_size=1 << 20, queue_file_entries=1000, key_index=False, transaction_check_max_count=3)
QUIET_MS = 12_000
"""By then a broker has looked twice."""
TOPIC, GROUP = "orders", "billing"
NAMES = ("commit", "rollback", "late-commit", "late-rollback", "never")


def run_broker(rocketmq: RocketMq, root: Path, *orders: Sequence[object], **checks: int) -> list[Line]:
    """A broker with these orders, and settings of its checks; see TransactionsProgram.java."""
    path = root.parent / f"{root.name}-orders"
    path.write_text("".join("\t".join(map(str, words)) + "\n" for words in orders))
    with rocketmq.run("transactions", {"path": root, "orders": path, **SIZES, **CHECKS, **checks}, 300) as output:
        return [json.loads(line) for line in output.read_text().splitlines()]


def checked(lines: list[Line]) -> Counter[str]:
    return Counter(line["name"] for line in lines if line["type"] == "check")


class Ours:
    """A store of ours, opened at the end of its log's time, with a producer that answers."""

    def __init__(self, root: Path, answers: dict[str, Resolution]) -> None:
        last_ms = 1_700_000_000_000
        if root.exists():
            with flightlog.open_read_only(root) as view:
                last_ms = max(m.store_timestamp_ms for key in view.queues() for m in view.read(*key))
        self.clock, self.answers, self.asked = ManualClock(last_ms), answers, Counter[str]()
        self.store = flightlog.open(root, SETTINGS, clock=self.clock)
        inside.transactions_by_hand(self.store)
        self.producer = Producer(self.store, producer_group=GROUP)
        self.checker = TransactionChecker(self.store, GROUP, self.answer)

    def answer(self, message: StoredMessage) -> Resolution:
        assert message.topic == TOPIC
        self.asked[message.body.decode()] += 1
        return self.answers.get(message.body.decode(), Resolution.UNKNOWN)

    def begin(self, name: str, queue_id: int = 0) -> flightlog.Transaction:
        message = Message(TOPIC, name.encode(), tags="t", uniq_key=f"uniq-{name}")
        queue = MessageQueue(TOPIC, "store", queue_id)
        return self.producer.transaction(message, selector=lambda queues, message: queue)

    def look(self) -> None:
        self.clock.advance(7000)
        self.checker.check_now()

    def close(self) -> None:
        self.store.close()


def records(root: Path, topic: str) -> list[tuple[Any, ...]]:
    """All of a topic, in order, but times, hosts and places in the log."""
    with flightlog.open_read_only(root, SETTINGS) as view:
        queues = sorted(queue_id for name, queue_id in view.queues() if name == topic)
        return [
            (
                *(m.queue_id, m.queue_offset, m.body, m.flag, m.sys_flag, m.reconsume_times, m.tags, m.magic),
                *(m.body_crc, bool(m.prepared_transaction_offset)),
                sorted(each for each in m.properties.items() if each[0] not in OF_THE_SEND),
            )
            for queue_id in queues
            for m in view.read(topic, queue_id)
        ]


def bodies(root: Path, topic: str = TOPIC) -> list[str]:
    return sorted(record[2].decode() for record in records(root, topic))


def offsets(root: Path) -> dict[str, dict[int, int]]:
    with flightlog.open(root, SETTINGS, clock=ManualClock(1 << 42)) as store:
        return {topic: store.group_offsets(CHECK_GROUP, topic) for topic in (HALF_TOPIC, OP_TOPIC)}


OF_THE_SEND = ("CLUSTER", "MSG_REGION", "TRACE_ON")
"""Properties that a broker gives to every message that is sent to it."""
HALVES = [("half", name, GROUP, TOPIC, place % 2, "t") for place, name in enumerate(NAMES)]
ANSWERS = [("answer", name, name.removeprefix("late-")) for name in NAMES if name.startswith("late-")]
OUR_ANSWERS = {"late-commit": Resolution.COMMIT, "late-rollback": Resolution.ROLLBACK}


def test_the_same_calls_leave_the_same_records(rocketmq: RocketMq, tmp_path: Path) -> None:
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    lines = run_broker(
        *(rocketmq, theirs),
        ("producer", GROUP),
        *ANSWERS,
        *HALVES,
        ("end", "commit", "commit"),
        ("end", "rollback", "rollback"),
        ("settle",),
    )
    assert all(line["code"] == 0 for line in lines if "code" in line)
    assert checked(lines) == {"late-commit": 1, "late-rollback": 1, "never": 3}
    here = Ours(own, OUR_ANSWERS)
    opened = {name: here.begin(name, place % 2) for place, name in enumerate(NAMES)}
    opened["commit"].commit()
    opened["rollback"].rollback()
    for name in NAMES[2:]:
        opened[name].unknown()
    for _ in range(6):
        here.look()
    assert here.asked == checked(lines)
    here.close()
    for topic in (TOPIC, HALF_TOPIC, DISCARDED_TOPIC):
        assert records(own, topic) == records(theirs, topic), topic
    assert bodies(own) == ["commit", "late-commit"] and bodies(own, DISCARDED_TOPIC) == ["never"]
    for root in (own, theirs):  # how many offsets an op message has is a matter of time
        for record in records(root, OP_TOPIC):
            assert (record[3:7], record[-1]) == ((0, 0, 0, "d"), [("TAGS", "d"), ("WAIT", "true")])
        named = ",".join(bodies(root, OP_TOPIC)).split(",")
        assert sorted(int(each) for each in named if each) == [0, 1, 5, 6]
    assert offsets(own)[HALF_TOPIC] == offsets(theirs)[HALF_TOPIC]


def test_we_end_what_a_broker_left(rocketmq: RocketMq, tmp_path: Path) -> None:
    root = tmp_path / "store"
    ends = ("end", "commit", "commit"), ("end", "rollback", "rollback")
    run_broker(*(rocketmq, root), *HALVES, *ends, ("sleep", 1000), checkInterval=600_000)
    here = Ours(root, OUR_ANSWERS | {"rollback": Resolution.ROLLBACK})
    for _ in range(5):
        here.look()
    here.asked.pop("rollback", None)  # a broker that ends does not write the op messages that it has gathered
    assert here.asked == {"late-commit": 1, "late-rollback": 1, "never": 3}
    here.close()
    assert bodies(root) == ["commit", "late-commit"] and bodies(root, DISCARDED_TOPIC) == ["never"]
    lines = run_broker(*(rocketmq, root), ("producer", GROUP), ("sleep", QUIET_MS))
    assert checked(lines) == {}, "the broker finds everything ended"


def test_a_broker_ends_what_we_left(rocketmq: RocketMq, tmp_path: Path) -> None:
    root = tmp_path / "store"
    here = Ours(root, {})
    opened = {name: here.begin(name) for name in NAMES}
    opened["commit"].commit()
    opened["rollback"].rollback()
    here.clock.advance(500)
    kept = opened["never"]
    for name in NAMES[2:4]:
        opened.pop(name).unknown()
    here.look()
    assert here.asked == {"late-commit": 1, "late-rollback": 1} and kept.resolution is None
    here.close()
    lines = run_broker(*(rocketmq, root), ("producer", GROUP), *ANSWERS, ("settle",))
    assert checked(lines) == {"late-commit": 1, "late-rollback": 1, "never": 3}
    assert bodies(root) == ["commit", "late-commit"] and bodies(root, DISCARDED_TOPIC) == ["never"]
    with flightlog.open_read_only(root, SETTINGS) as view:
        [given_up] = view.read(DISCARDED_TOPIC)
        assert given_up.properties[CHECK_TIMES] == "3"
        assert view.verify().is_clean
    again = Ours(root, {})
    again.look()
    assert again.asked == {}
    again.close()


def test_a_broker_asks_about_a_commit_whose_op_message_a_crash_took(rocketmq: RocketMq, tmp_path: Path) -> None:
    """What our documents say of it: its answer makes a second message. Ours finds the commit record."""
    root = tmp_path / "store"
    here = Ours(root, {})
    here.begin("commit").commit()
    kill(here.store)
    Ours(root, {}).close()  # recovered; nobody has looked
    lines = run_broker(*(rocketmq, root), ("producer", GROUP), ("answer", "commit", "commit"), ("settle",))
    assert checked(lines) == {"commit": 1} and bodies(root) == ["commit", "commit"]
