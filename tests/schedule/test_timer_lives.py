"""Random lives of a store with timers: puts, cancellations, clocks that are set, kills and power cuts anywhere.

Whatever happened: every timer that is in the timer topic is delivered in the end, none before its time, those that were
cancelled in time never, and none more often than 1 + the deaths since it was first delivered, for each time that it was
parked: one that was rolled on just before a death may come twice.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flightlog
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import timed_store
from flightlog.tests.support.timed_store import SetClock, TimedStore

if TYPE_CHECKING:
    from flightlog.schedule.delivered import DueMessage
    from flightlog.tests.conftest import Scale

TOPIC = "orders"
STEPS = 60


class Life:
    """One store, from its first to its last opening."""

    def __init__(self, root: Path, seed: int) -> None:
        self.dice, self.root = random.Random(seed), root
        self.timed = timed_store
        self.disk: PowerDisk = PowerDisk(root)
        self.clock: SetClock = self.timed.SetClock()
        self.due: dict[int, int] = {}
        self.cancelled: set[int] = set()
        """Cancelled before they were delivered."""
        self.behind: set[int] = set()
        """Put or cancelled while the clock was behind where it had been: such a cancellation may come too late."""
        self.latest_ms = self.clock.at_ms
        self.deaths = 0
        self.died_before: dict[int, int] = {}
        """Number -> deaths before it was first delivered."""
        self.store: TimedStore | None = None
        self.early: list[Any] = []

    def opened(self) -> TimedStore:
        if self.store is None:
            self.store = self.timed.TimedStore(self.root, self.clock, self.disk)
            deliver = self.store.deliver

            def watched(deliveries: Sequence[DueMessage]) -> int:
                for message, _ in deliveries:
                    if message.topic == TOPIC:
                        number = int(message.body)
                        self.died_before.setdefault(number, self.deaths)
                        if self.clock.at_ms < self.due[number]:
                            self.early.append((number, self.clock.at_ms, self.due[number]))
                return deliver(deliveries)

            self.store.deliver = watched
        return self.store

    def step(self) -> None:
        dice, clock = self.dice, self.clock
        store = self.opened()
        match dice.choices(
            ("put", "cancel", "run", "pass", "leap", "back", "save", "close", "kill", "cut"),
            (30, 8, 30, 25, 2, 4, 5, 3, 4, 4),
        )[0]:
            case "put":
                for _ in range(dice.choice((1, 1, 5, 40))):
                    number = len(self.due)
                    delay_ms = dice.choice((1, 999, 1000, 1001, 5_000, dice.randint(1, 60_000), 2_000_000))
                    self.due[number] = clock.at_ms + delay_ms
                    if clock.at_ms < self.latest_ms:
                        self.behind.add(number)
                    store.put(TOPIC, number, self.due[number])
            case "cancel":
                waiting = [n for n, due in self.due.items() if due > clock.at_ms and n not in self.died_before]
                if waiting:
                    number = dice.choice(waiting)
                    store.cancel(TOPIC, number, self.due[number])
                    self.cancelled.add(number)
                    if clock.at_ms < self.latest_ms:
                        self.behind.add(number)
            case "run":
                store.run()
            case "pass":
                clock.at_ms += dice.choice((10, 500, 1000, dice.randint(1, 10_000)))
            case "leap":
                clock.at_ms += dice.choice((700_000, 5_000_000))
            case "back":
                clock.at_ms -= dice.choice((400, 3_000, 20_000))
            case "save":
                store.timers.save(clock.at_ms)
            case "close":
                store.close()
                self.store = None
            case "kill":
                self.die()
            case "cut":
                self.die()
                self.disk.cut(dice)
        self.latest_ms = max(self.latest_ms, clock.at_ms)

    def die(self) -> None:
        if self.store is not None:
            with contextlib.suppress(Died):
                self.store.kill()
            self.store = None
        self.deaths += 1
        self.disk.kill()

    def live(self) -> None:
        for _ in range(STEPS):
            if self.dice.random() < 0.05:
                self.disk.die_after = self.dice.randint(0, 12)
            try:
                self.step()
            except Died:
                self.die()
                if self.dice.random() < 0.5:
                    self.disk.cut(self.dice)
        self.disk.die_after = None
        self.clock.at_ms = self.latest_ms
        store = self.opened()
        while (due := store.run()) is not None:
            self.clock.at_ms = max(due, self.clock.at_ms)
        assert store.timers.pending == 0
        assert store.timers.lost == 0
        store.close()

    def check(self) -> None:
        assert not self.early
        parked, cancelled = Counter[int](), set[int]()
        with flightlog.open_read_only(self.root) as view:
            assert view.verify().is_clean
            for message in view.read("rmq_sys_wheel_timer", 0):
                key = message.properties.get("TIMER_DEL_UNIQKEY")
                if key is None:
                    parked[int(message.body)] += 1
                else:
                    cancelled.add(int(key.removeprefix(f"{TOPIC}+")))
            found = Counter(int(message.body) for message in view.read(TOPIC, 0))
        cancelled &= self.cancelled & parked.keys()  # a cut may have taken the timer before it was cancelled
        assert found.keys() & (cancelled - self.behind) == set()
        assert found.keys() | (cancelled & self.behind) == parked.keys() - (cancelled - self.behind)
        for number, times in found.items():
            assert times <= parked[number] * (1 + self.deaths - self.died_before[number])


def test_lives(tmp_path: Path, scale: Scale) -> None:
    for seed in range(scale.pick(ci=25, full=1000)):
        life = Life(tmp_path / str(seed), seed)
        try:
            life.live()
            life.check()
        except BaseException as e:
            e.add_note(f"life {seed}")
            raise
