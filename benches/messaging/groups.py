"""The cost of a rebalance, by strategy: a member joins or leaves a group that consumes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from flightlog.benches.loads import await_all, body_of, load, number_of, pace
from flightlog.benches.messaging.contenders import GROUP, QUEUES, TOPIC, new_store
from flightlog.consume.allocate.allocate import AllocationStrategy, Averagely, AveragelyByCircle
from flightlog.consume.allocate.consistent_hash import ConsistentHash
from flightlog.consume.consumer import Consumer
from flightlog.consume.deliver.received import ReceivedMessage
from flightlog.store.message import Message
from flightlog.tools.bench.case import Case, Sample
from flightlog.tools.bench.drive import in_threads

STRATEGIES: Sequence[AllocationStrategy] = (Averagely(), AveragelyByCircle(), ConsistentHash())
JOIN, LEAVE = CHANGES = ("one joins", "one leaves")
MEMBERS, RATE, WORK_S = 4, 1_000, 0.001
"""Members without the one that joins or leaves; messages a second; time of the listener for each message."""
REBALANCE = f"A rebalance: {QUEUES} queues, {MEMBERS} members and one that joins or leaves, {RATE:,} a second"


@dataclass
class Life:
    """Records when and where messages were received, by queue."""

    came: list[tuple[float, str, int, int]] = field(default_factory=list)
    """Time, member, queue id, number of the message."""
    members: list[Consumer] = field(default_factory=list)

    def owners(self) -> dict[int, str]:
        return {queue.queue_id: each.subscription.name for each in self.members for queue in each.queues}

    def repeats_since(self, begin_s: float) -> int:
        """The number of messages since then that had been received before."""
        seen: set[int] = set()
        repeats = 0
        for at_s, _, _, number in sorted(self.came):
            repeats += number in seen and begin_s <= at_s
            seen.add(number)
        return repeats

    def pauses_s(self, queue_ids: set[int], change_s: float) -> list[float]:
        """For each reassigned queue, the time from the last message before the change to the first one after it."""
        found = []
        for queue_id in queue_ids:
            times = [at_s for at_s, _, its_id, _ in self.came if its_id == queue_id]
            before, after = [t for t in times if t <= change_s], [t for t in times if t > change_s]
            if before and after:
                found.append(min(after) - max(before))
        return found


def rebalance_cases(seconds: float) -> list[Case]:
    """A case for each strategy, with the same duration before and after the change."""
    return [
        load(f"{one.name}, {change}", REBALANCE, partial(rebalance, one, change, seconds))
        for one in STRATEGIES
        for change in CHANGES
    ]


def rebalance(strategy: AllocationStrategy, change: str, seconds: float, folder: Path) -> Sample:
    life, count = Life(), max(int(RATE * 2 * seconds), QUEUES)
    with new_store(folder) as store:

        def join(name: str) -> None:
            def listen(message: ReceivedMessage) -> None:
                life.came.append((time.perf_counter(), name, message.queue_id, number_of(message.body)))
                time.sleep(WORK_S)

            made = Consumer(store, TOPIC, GROUP, listen, threads=2, member=name, strategy=strategy)
            life.members.append(made)
            made.start()

        def produce() -> None:
            numbers = iter(range(count))

            def put() -> None:
                number = next(numbers)
                store.put(Message(TOPIC, body_of(number), queue_id=number % QUEUES))

            pace(count, RATE, put)

        def alter() -> tuple[float, float, set[int]]:
            time.sleep(seconds)
            before, change_s = life.owners(), time.perf_counter()
            if change == JOIN:
                join(f"member-{MEMBERS}")
            else:
                life.members[-1].close()
            took_s, after = time.perf_counter() - change_s, life.owners()
            return change_s, took_s, {queue for queue in after if after[queue] != before.get(queue)}

        for number in range(MEMBERS + (change == LEAVE)):
            join(f"member-{number}")
        [_, (change_s, took_s, moved)] = in_threads([produce, alter])  # type: ignore[misc]
        await_all(
            lambda: len({number for _, _, _, number in life.came}) == count, lambda: "some messages have not come"
        )
        for each in life.members:
            each.close()
    pauses_ms = np.array(life.pauses_s(moved, change_s) or [0.0]) * 1e3
    figures = {"queues moved": len(moved), "call ms": took_s * 1e3, "pause p50 ms": float(np.median(pauses_ms))}
    figures |= {"pause max ms": float(pauses_ms.max()), "came again": life.repeats_since(change_s), "messages": count}
    return Sample(count, 2 * seconds, 2 * seconds, figures=figures)
