"""Transactions of a broker and of ours in one folder: who begins and ends them, and what is there afterwards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flightlog
from flightlog import Message, Producer, StoredMessage, StoreSettings, TransactionChecker
from flightlog import TransactionResolution as Resolution
from flightlog.produce.transaction.half_message import CHECK_GROUP, OP_TOPIC
from flightlog.schedule.delivered import HALF_TOPIC
from flightlog.store.message_queue import MessageQueue
from flightlog.testing.clock import ManualClock
from flightlog.tests.interop.harness import Line, RocketMq
from flightlog.tests.support import inside

SIZES = {"segmentSize": 1 << 20, "queueEntries": 1000, "index": False}
CHECKS = {"timeOut": 6000, "checkMax": 3, "checkInterval": 5000}
SETTINGS = StoreSettings(segment_size=1 << 20, queue_file_entries=1000, key_index=False, transaction_check_max_count=3)
TOPIC, GROUP = "orders", "billing"


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
