"""Group commit: one sync serves all who wait for it.

Whoever comes first leads: it syncs everything appended so far, for all whose records are among it. When it is done it
wakes one of those whom that did not serve, who leads next, and the first of those whom it did; each of them wakes the
next one. Woken all at once they would only queue up for the interpreter, and so each be woken twice. Where the
interpreter is busy with something else, whoever comes late to his turn wakes all who are left: each would wait as long
for it.

Invariants:
- Only one thread syncs at a time.
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

RING_LOST_S = 0.05
LATE_S = 0.001
"""Waking takes some microseconds; a thread that keeps the interpreter for itself gives it back after five milliseconds
(`sys.getswitchinterval`)."""


class _Waiter:
    """Somebody who waits to be rung."""

    __slots__ = ("bell", "has_left", "is_served", "rung_s")

    def __init__(self, is_served: Callable[[], bool]) -> None:
        self.is_served = is_served
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
    """Who may sync, and who waits for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # never taken twice; an RLock knows whether this thread holds it
        """Held by the leader; whoever else takes it keeps all syncs away."""
        self._waiters: dict[_Waiter, bool] = {}
        """Who waits, the first one first; all are True."""
        self._served: deque[_Waiter] = deque()
        """Taken from among them: who is to be rung, one by the other."""

    def until(self, is_served: Callable[[], bool], lead: Callable[[], None], timeout_s: float | None) -> bool:
        """Return True once `is_served()`, by this thread's own `lead()` or another's; False if others took too long.

        Raises what this thread's `lead` raises.
        """
        if is_served() or (self._lead(is_served, lead) and is_served()):
            return True
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        waiter: _Waiter | None = None
        try:
            while not is_served():
                if waiter is None:
                    waiter = _Waiter(is_served)
                    self._waiters[waiter] = True
                if self._lead(is_served, lead):
                    continue
                left_s = RING_LOST_S if deadline_s is None else min(RING_LOST_S, deadline_s - time.monotonic())
                if left_s <= 0:
                    return False
                if waiter.bell.acquire(timeout=left_s):
                    self._pass_on(to_all=time.perf_counter() - waiter.rung_s > LATE_S)
                    waiter = None
                    if not is_served():
                        self._lead(is_served, lead)  # mostly it is this one's turn now
            return True
        finally:
            if waiter is not None:
                waiter.has_left = True
                if not self._waiters.pop(waiter, False):
                    self._ring()  # somebody rings in vain, or has: others are to hear it

    def _lead(self, is_served: Callable[[], bool], lead: Callable[[], None]) -> bool:
        """Whether nobody else led, so that this thread did."""
        lock = self.lock
        leads: bool | None = None
        try:
            leads = lock.acquire(blocking=False)
            if leads and not is_served():
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
            is_served = waiter.is_served()
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
