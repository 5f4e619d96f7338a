"""Random lives of real stores read as one: members join, leave and are dropped, stores close, are poisoned and come
back. At no moment two members have one queue; in the end every message that is in a store was received, and those that
came twice lay behind one that was not acknowledged when their queue changed its owner."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

from flightlog import ReceivedMessage, Stores, Subscription
from flightlog.store.errors import StorePoisonedError
from flightlog.tests.support import inside
from flightlog.tests.support.clocks import HeldClock

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.consume.conftest import Disks

STEPS = 60
NAMES = ("a", "b", "c")
HAPPENINGS = [
    "join",
    "leave",
    "drop",
    "close",
    "poison",
    "open",
    *["put"] * 10,
    *["receive"] * 14,
    *["acknowledge"] * 8,
]


class Life:
    def __init__(self, rng: random.Random, disks: Disks, clock: HeldClock) -> None:
        self.rng, self.disks = rng, disks
        self.stores = Stores(disks.open(*NAMES), clock=clock)
        self.members: list[Subscription] = []
        self.held: list[tuple[Subscription, ReceivedMessage]] = []
        self.away: set[str] = set()
        self.numbers = iter(range(1 << 30))
        self.received: set[bytes] = set()
        self.join()

    def join(self) -> None:
        self.members.append(self.stores.subscribe("orders", "g"))

    def leave(self) -> None:
        if self.members:
            self.members.pop(self.rng.randrange(len(self.members))).close()

    def drop(self) -> None:
        """What it has at work goes with it."""
        if self.members:
            gone = self.members.pop(self.rng.randrange(len(self.members)))
            self.held = [(member, message) for member, message in self.held if member is not gone]

    def close(self) -> None:
        if there := sorted({*NAMES} - self.away):
            name = self.rng.choice(there)
            self.away.add(name)
            self.disks.stores[name].close()

    def poison(self) -> None:
        if there := sorted({*NAMES} - self.away):
            name = self.rng.choice(there)
            self.away.add(name)
            self.disks.poison(name)

    def open(self) -> None:
        for name in sorted(self.away):
            if not self.disks.stores[name].is_closed:
                self.stores.remove_store(name)
                self.disks.close_one(name)
            self.disks.open(name)
            self.stores.add_store(name, self.disks.stores[name])
        self.away.clear()

    def put(self) -> None:
        if there := sorted({*NAMES} - self.away):
            self.disks.put(self.rng.choice(there), next(self.numbers))

    def receive(self) -> None:
        if self.members:
            try:
                member = self.rng.choice(self.members)
                message = member.receive(0)
            except StorePoisonedError:
                assert self.away, "all that are left"
                return
            if message is not None:
                self.received.add(message.body)
                self.held.append((member, message))

    def acknowledge(self) -> None:
        if self.held:
            self.held.pop(self.rng.randrange(len(self.held)))[1].ack()

    def check(self) -> None:
        with inside.between_rounds(self.stores, "g"):
            owned = [queue for member in self.members for queue in member.queues]
        assert len(owned) == len(set(owned)), "two members have one queue"

    def settle(self) -> None:
        self.open()
        while self.members:
            self.leave()
        last = self.stores.subscribe("orders", "g")
        while (message := last.receive(0)) is not None:
            self.received.add(message.body)
            assert message.ack()
        assert not any(last.lag().values())
        self.stores.close()
        for store in self.disks.stores.values():
            ends = {queue_id: end for (topic, queue_id), (_, end) in store.queues().items() if topic == "orders"}
            assert {queue_id: at for queue_id, at in store.group_offsets("g", "orders").items() if at} == ends
            there = {message.body for queue_id in ends for message in store.read("orders", queue_id)}
            assert there <= self.received, "a message was lost"


def test_no_message_is_lost_whatever_comes_and_goes(disks: Disks, clock: HeldClock, scale: Scale) -> None:
    seed = int(os.environ["FLIGHTLOG_SEED"])
    for number in range(scale.pick(ci=5, full=300)):
        life = Life(random.Random(seed * 1_000_003 + number), disks.below(f"{number}"), clock)
        history: list[str] = []
        try:
            for _ in range(STEPS):
                history.append(life.rng.choice(HAPPENINGS))
                getattr(life, history[-1])()
                life.check()
            life.settle()
        except AssertionError as e:
            raise AssertionError(f"life {number}: {e}\n{' '.join(history)}") from e
        finally:
            life.disks.close()
