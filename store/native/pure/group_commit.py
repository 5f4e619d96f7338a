"""The group commit in Python: who syncs, who waits for it, and who wakes whom. See group_commit_protocol.py.

Where the interpreter is busy with something else, whoever comes late to his turn wakes all who are left: each would
wait as long for it.

Invariants:
- A waiter is among the others before it looks whether somebody leads; a leader rings after it has let go. So every
  waiter is served or leads itself, or somebody leads who will ring next.
- Who takes a waiter from among the others rings it, or puts it into the line of those who are served; who wakes goes on
  with that line, and so does who rang somebody that had left. An interrupt may cost a ring: nobody waits longer than
  `RING_LOST_S` at a time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from .arguments import integer

RING_LOST_S = 0.05
LATE_S = 0.001
"""Waking takes some microseconds; a thread that keeps the interpreter for itself gives it back after five milliseconds
(`sys.getswitchinterval`)."""


class _Waiter:
    """Somebody who waits to be rung."""

    __slots__ = ("bell", "goal", "has_left", "rung_s")

    def __init__(self, goal: int) -> None:
        self.goal = goal
        self.bell = threading.Lock()
        """Locked until it is rung, which it is once at most."""
        self.bell.acquire()
        self.rung_s = 0.0
        self.has_left = False
        """Set before the waiter looks whether somebody has taken it; who rings it looks afterwards."""

    def ring(self) -> None:
        self.rung_s = time.perf_counter()
        self.bell.release()


class GroupCommit:
    """See GroupCommitProtocol."""

    def __init__(self, synced_to: int, /) -> None:
        self.synced_to = integer(synced_to, "synced_to", 64)
        self._lock = threading.RLock()  # never taken twice; an RLock knows whether this thread holds it
        """Held by who leads."""
        self._waiters: dict[_Waiter, bool] = {}
        """Who waits, the first one first; all are True."""
        self._served: deque[_Waiter] = deque()
        """Taken from among them: who is to be rung, one by the other."""

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    def wait_for(self, goal: int, lead: Callable[[], object], timeout_s: float | None, /) -> bool:
        if goal <= self.synced_to or (self._lead(goal, lead) and goal <= self.synced_to):
            return True
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        waiter: _Waiter | None = None
        try:
            while goal > self.synced_to:
                if waiter is None:
                    waiter = _Waiter(goal)
                    self._waiters[waiter] = True
                if self._lead(goal, lead):
                    continue
                left_s = RING_LOST_S if deadline_s is None else min(RING_LOST_S, deadline_s - time.monotonic())
                if left_s <= 0:
                    return False
                if waiter.bell.acquire(timeout=left_s):
                    self._pass_on(to_all=time.perf_counter() - waiter.rung_s > LATE_S)
                    waiter = None
                    if goal > self.synced_to:
                        self._lead(goal, lead)  # mostly it is this one's turn now
            return True
        finally:
            if waiter is not None:
                waiter.has_left = True
                if not self._waiters.pop(waiter, False):
                    self._ring()  # somebody rings in vain, or has: others are to hear it

    def run_exclusive(self, call: Callable[[], object], /) -> None:
        try:
            with self._lock:
                call()
        finally:
            self._ring()

    def _lead(self, goal: int, lead: Callable[[], object]) -> bool:
        """Whether nobody else led, so that this thread did."""
        lock = self._lock
        leads: bool | None = None
        try:
            leads = lock.acquire(blocking=False)
            if leads and goal > self.synced_to:
                lead()
            return leads
        finally:
            if leads is not False:
                # An interrupt may come right after the lock was taken, before that could be noted: so try to let it go.
                # (contextlib.suppress is Python code, in which an interrupt could come before the release.)
                try:
                    lock.release()
                except RuntimeError:
                    pass  # not held: another thread leads
                else:
                    if self._waiters or self._served:
                        self._ring()

    def _ring(self) -> None:
        """Wake the first who is not served, and begin with those who are."""
        has_leader = False
        for waiter in list(self._waiters):
            is_served = waiter.goal <= self.synced_to
            if (is_served or not has_leader) and self._waiters.pop(waiter, False):
                if is_served:
                    self._served.append(waiter)
                else:
                    has_leader = True
                    waiter.ring()
        self._pass_on(to_all=False)

    def _pass_on(self, *, to_all: bool) -> None:
        """Wake the next in the line who has not left, or all of them."""
        served = self._served
        while served:
            try:
                waiter = served.popleft()
            except IndexError:
                return  # another one was faster
            waiter.ring()
            if not (to_all or waiter.has_left):
                return
