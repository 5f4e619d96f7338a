"""Schedule of rebalances: at once on a notice, else every 20 s (or as set), or after 1 s while a group is unbalanced.

A lost notice delays a rebalance to the next round at most. RocketMQ: `RebalanceService`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ...engine.services.service_thread import ServiceThread
from ...engine.services.wake_up import WakeUp
from ...store.disk.clock import Clock, SystemClock
from .group import Group, Round, Subscription

INTERVAL_S = 20.0
UNBALANCED_INTERVAL_S = 1.0


@dataclass
class _Chore:
    """What is done besides, every so often."""

    work: Callable[[], None]
    interval_s: float
    due_s: float


class Hint:
    """Requests an immediate round of every group. It refers to no service, so it keeps none alive."""

    def __init__(self, wake_up: WakeUp) -> None:
        self._wake_up = wake_up
        self.is_given = False

    def give(self) -> None:
        """Takes no lock: to be called from anywhere, also by what a garbage collection calls, or with any lock held."""
        self.is_given = True
        self._wake_up.notify()


class RebalanceService:
    """The rounds of any number of groups, on one thread. `start` it, or call `run_due` oneself."""

    def __init__(self, clock: Clock | None = None, interval_s: float = INTERVAL_S) -> None:
        self._clock, self._interval_s = clock or SystemClock(), interval_s
        self._lock = threading.Lock()
        self._due_s: dict[Group, float] = {}
        self._noticed: set[Group] = set()
        self._chores: list[_Chore] = []
        self._wake_up = WakeUp()
        self.hint = Hint(self._wake_up)
        self._thread = self._new_thread()

    def group(self, name: str, subscription: Subscription, *, is_broadcasting: bool = False) -> Group:
        """A new group whose rounds run here; the first is due at once."""

        def notify() -> None:
            self.notify(made)

        made = Group(name, subscription, notify, is_broadcasting=is_broadcasting)
        with self._lock:
            self._due_s[made] = self._clock.monotonic_s()
        self._wake_up.notify()
        return made

    def also_every(self, interval_s: float, work: Callable[[], None]) -> None:
        """Have the thread do this too; it must not raise. To be called before `start`."""
        self._chores.append(_Chore(work, interval_s, self._clock.monotonic_s() + interval_s))

    def forget(self, group: Group) -> None:
        """No more rounds for this group."""
        with self._lock:
            self._due_s.pop(group, None)
            self._noticed.discard(group)

    def notify(self, group: Group) -> None:
        """Have the next round of this group come at once."""
        with self._lock:
            self._noticed.add(group)
        self._wake_up.notify()

    def run_due(self) -> dict[Group, Round]:
        """One round of each group that is due, and what it did."""
        now_s = self._clock.monotonic_s()
        if is_hinted := self.hint.is_given:
            self.hint.is_given = False  # a hint from here on is of something that a round may have missed
        with self._lock:
            due = [g for g, due_s in self._due_s.items() if is_hinted or due_s <= now_s or g in self._noticed]
            self._noticed.clear()  # as with hints
        done: dict[Group, Round] = {}
        for group in due:
            done[group] = found = group.rebalance()
            after_s = self._interval_s if found.is_balanced else min(UNBALANCED_INTERVAL_S, self._interval_s)
            with self._lock:
                if group in self._due_s:
                    self._due_s[group] = self._clock.monotonic_s() + after_s
        return done

    def next_due_s(self) -> float | None:
        """How long until a group is due; None: never."""
        with self._lock:
            if self.hint.is_given or self._noticed & self._due_s.keys():
                return 0.0
            due_s = min([*self._due_s.values(), *(chore.due_s for chore in self._chores)], default=None)
        return None if due_s is None else max(0.0, due_s - self._clock.monotonic_s())

    # -- the thread

    def _new_thread(self) -> ServiceThread:
        return ServiceThread("flightlog-rebalance", self._work, self._wake_up.notify)

    def start(self) -> None:
        """Unless it runs."""
        self._thread.start()

    def rest(self) -> None:
        """Have the thread end once its chores are done, until `start`. To be called by a chore."""
        over, self._thread = self._thread, self._new_thread()
        over.request_stop()

    def stop(self) -> None:
        """Return once no round is under way, and none comes. Not to be called by a member or a listener in a round."""
        self._thread.stop()

    def _work(self) -> None:
        thread = self._thread
        while not thread.is_stopping:
            self.run_due()
            self._do_chores()
            if not thread.is_stopping:  # else the wake-up may be there for the next one
                self._wake_up.wait(self.next_due_s())

    def _do_chores(self) -> None:
        for chore in self._chores:
            if chore.due_s <= self._clock.monotonic_s():
                chore.work()
                chore.due_s = self._clock.monotonic_s() + chore.interval_s
