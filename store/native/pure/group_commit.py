"""Group commit in Python, see group_commit_protocol.py.

A waiter that runs late after its notification, because another thread kept the GIL, notifies all remaining served
waiters: otherwise each of them would be as late.

Invariants:
- A waiter registers before it checks for a leader, and a leader notifies after it has released the lock. So every
  waiter is served, or leads itself, or there is a leader that will notify.
- The thread that removes a waiter from `_waiters` notifies it, or moves it to `_served`. A notified waiter notifies the
  next one of `_served`; if a waiter has left, the thread that notified it does. An interrupt may lose a notification:
  so no thread waits longer than `RECHECK_S` at a time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from .arguments import integer

RECHECK_S = 0.05
LATE_S = 0.001
"""A wake-up takes microseconds; a busy thread keeps the GIL for five milliseconds (`sys.getswitchinterval`)."""


class _Waiter:
    """A thread that waits for a notification."""

    __slots__ = ("goal", "has_left", "notified_s", "wakeup")

    def __init__(self, goal: int) -> None:
        self.goal = goal
        self.wakeup = threading.Lock()
        """Locked until the waiter is notified, at most once."""
        self.wakeup.acquire()
        self.notified_s = 0.0
        self.has_left = False
        """Set before the waiter checks whether it was removed; checked by the thread that notifies it, afterwards."""

    def notify(self) -> None:
        self.notified_s = time.perf_counter()
        self.wakeup.release()


class GroupCommit:
    """See GroupCommitProtocol."""

    def __init__(self, synced_to: int, /) -> None:
        self.synced_to = integer(synced_to, "synced_to", 64)
        self._lock = threading.RLock()  # never taken twice; an RLock knows whether this thread holds it
        """Held by the leader."""
        self._waiters: dict[_Waiter, bool] = {}
        """The waiters that are not notified, in order of arrival; all values are True."""
        self._served: deque[_Waiter] = deque()
        """Removed from `_waiters` because they are served; notified one after the other."""

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
                left_s = RECHECK_S if deadline_s is None else min(RECHECK_S, deadline_s - time.monotonic())
                if left_s <= 0:
                    return False
                if waiter.wakeup.acquire(timeout=left_s):
                    self._notify_served(to_all=time.perf_counter() - waiter.notified_s > LATE_S)
                    waiter = None
                    if goal > self.synced_to:
                        self._lead(goal, lead)  # usually it is the next leader
            return True
        finally:
            if waiter is not None:
                waiter.has_left = True
                if not self._waiters.pop(waiter, False):
                    self._notify()  # its notification is lost: pass it on to others

    def run_exclusive(self, call: Callable[[], object], /) -> None:
        try:
            with self._lock:
                call()
        finally:
            self._notify()

    def _lead(self, goal: int, lead: Callable[[], object]) -> bool:
        """Lead unless another thread does. Returns whether this thread led."""
        lock = self._lock
        leads: bool | None = None
        try:
            leads = lock.acquire(blocking=False)
            if leads and goal > self.synced_to:
                lead()
            return leads
        finally:
            if leads is not False:
                # An interrupt may occur after the lock was acquired but before `leads` was set, so try to release it.
                # (contextlib.suppress is Python code, where an interrupt could occur before the release.)
                try:
                    lock.release()
                except RuntimeError:
                    pass  # not held: another thread leads
                else:
                    if self._waiters or self._served:
                        self._notify()

    def _notify(self) -> None:
        """Notify the first waiter that is not served, to lead, and the first served one."""
        has_leader = False
        for waiter in list(self._waiters):
            is_served = waiter.goal <= self.synced_to
            if (is_served or not has_leader) and self._waiters.pop(waiter, False):
                if is_served:
                    self._served.append(waiter)
                else:
                    has_leader = True
                    waiter.notify()
        self._notify_served(to_all=False)

    def _notify_served(self, *, to_all: bool) -> None:
        """Notify the next served waiter that has not left, or all of them."""
        served = self._served
        while served:
            try:
                waiter = served.popleft()
            except IndexError:
                return  # another thread was faster
            waiter.notify()
            if not (to_all or waiter.has_left):
                return
