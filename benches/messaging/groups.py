"""What a rebalance costs, by strategy: a member joins a group at work, and leaves it again."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benches.messaging.flow import GROUP, LIMIT_S, QUEUES, TOPIC, body_of, new_store, number_of, pace
from benches.messaging.part import Part
from flightlog.consume.allocate.allocate import AllocationStrategy, Averagely, AveragelyByCircle
from flightlog.consume.allocate.consistent_hash import ConsistentHash
from flightlog.consume.consumer import Consumer
from flightlog.consume.deliver.received import ReceivedMessage
from flightlog.store.errors import UsageError
from flightlog.store.message import Message

STRATEGIES: Sequence[AllocationStrategy] = (Averagely(), AveragelyByCircle(), ConsistentHash())
MEMBERS, RATE, WORK_S = 4, 1_000, 0.001
"""Members before one joins; messages a second; how long the listener takes for one."""


@dataclass
class Life:
    """When and where messages came, by queue."""

    came: list[tuple[float, str, int, int]] = field(default_factory=list)
    """Time, member, queue id, number of the message."""
    members: list[Consumer] = field(default_factory=list)

    def owners(self) -> dict[int, str]:
        return {queue.queue_id: each.subscription.name for each in self.members for queue in each.queues}

    def repeats_between(self, begin_s: float, end_s: float) -> int:
        """Messages that came then, and had come before."""
        seen: set[int] = set()
        repeats = 0
        for at_s, _, _, number in sorted(self.came):
            repeats += number in seen and begin_s <= at_s < end_s
            seen.add(number)
        return repeats

    def pauses_s(self, queue_ids: set[int], change_s: float) -> list[float]:
        """Of each queue that moved: from the last message before the change to the first behind it."""
        found = []
        for queue_id in queue_ids:
            times = sorted(at_s for at_s, _, its_id, _ in self.came if its_id == queue_id)
            before = [at_s for at_s in times if at_s <= change_s]
            after = [at_s for at_s in times if at_s > change_s]
            if before and after:
                found.append(after[0] - before[-1])
        return found


def rebalance(folder: Path, seconds: float) -> Part:
    """Each strategy in turn; `seconds` between the changes."""
    rows = [row for one in STRATEGIES for row in _one(folder / one.name, one, seconds)]
    title = f"A rebalance: {QUEUES} queues, {MEMBERS} members and one that joins and leaves, {RATE:,} a second"
    return Part("rebalance", title, rows)


def _one(folder: Path, strategy: AllocationStrategy, seconds: float) -> list[dict[str, Any]]:
    life, count = Life(), max(int(RATE * 3 * seconds), QUEUES)
    rows: list[dict[str, Any]] = []
    with new_store(folder) as store:
        store.create_topic(TOPIC, QUEUES)

        def member(name: str) -> Consumer:
            def listen(message: ReceivedMessage) -> None:
                number = number_of(message.body)
                life.came.append((time.perf_counter(), name, message.queue_id, number))
                time.sleep(WORK_S)

            made = Consumer(store, TOPIC, GROUP, listen, threads=2, member=name, strategy=strategy)
            life.members.append(made)
            return made.start()

        def produce() -> None:
            numbers = iter(range(count))

            def put() -> None:
                number = next(numbers)
                store.put(Message(TOPIC, body_of(number), queue_id=number % QUEUES))

            pace(count, RATE, put)

        for number in range(MEMBERS):
            member(f"member-{number}")
        producer = threading.Thread(target=produce)
        producer.start()
        changes = [("join", seconds), ("leave", 2 * seconds)]
        began_s = time.perf_counter()
        told: list[tuple[str, float, float, set[int]]] = []
        for what, at_s in changes:
            time.sleep(max(0.0, began_s + at_s - time.perf_counter()))
            before, change_s = life.owners(), time.perf_counter()
            if what == "join":
                member(f"member-{MEMBERS}")
            else:
                life.members[-1].close()
            took_s, after = time.perf_counter() - change_s, life.owners()
            told.append((what, change_s, took_s, {queue for queue in after if after[queue] != before.get(queue)}))
        producer.join()
        _await_everything(life, count)
        for each in life.members:
            each.close()
    ends_s = [told[1][1], float("inf")]
    for (what, change_s, took_s, moved), end_s in zip(told, ends_s, strict=True):
        pauses_ms = np.array(life.pauses_s(moved, change_s) or [0.0]) * 1e3
        rows.append({"strategy": strategy.name, "change": what, "queues moved": len(moved), "call ms": took_s * 1e3})
        rows[-1] |= {"pause p50 ms": float(np.median(pauses_ms)), "pause max ms": float(pauses_ms.max())}
        rows[-1] |= {"came again": life.repeats_between(change_s, end_s), "messages": count}
    return rows


def _await_everything(life: Life, count: int) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while (missing := count - len({number for _, _, _, number in life.came})) > 0:
        if time.monotonic() > deadline_s:
            raise UsageError(f"{missing:,} of {count:,} messages have not come after {LIMIT_S:g} s: try it when idle")
        time.sleep(0.02)
