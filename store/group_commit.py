"""Group commit: one sync serves all who wait for it.

Whoever comes first leads: it syncs everything appended so far, for all whose records are among it. When it is done it
wakes one of those whom that did not serve, who leads next, and then all whom it did. The others sleep on: woken, they
would only take the processor from those who have something to do.

Invariants:
- Only one thread syncs at a time.
- A waiter puts its bell among the others before it looks whether somebody leads; a leader rings after it has let go. So
  every waiter is served or leads itself, or somebody leads who will ring next. An interrupt may cost a ring: nobody
  waits longer than `RING_LOST_S` at a time.
- Who takes a bell from among the others rings it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

RING_LOST_S = 0.05


class GroupCommit:
    """Who may sync, and who waits for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # never taken twice; an RLock knows whether this thread holds it
        """Held by the leader; whoever else takes it keeps all syncs away."""
        self._bells: dict[threading.Lock, Callable[[], bool]] = {}
        """Of those who wait, the first one first: a lock that is locked until it is rung, and whether its waiter is
        served."""

    def until(self, is_served: Callable[[], bool], lead: Callable[[], None], timeout_s: float | None) -> bool:
        """Return True once `is_served()`, by this thread's own `lead()` or another's; False if others took too long.

        Raises what this thread's `lead` raises.
        """
        if is_served() or (self._lead(is_served, lead) and is_served()):
            return True
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        bell: threading.Lock | None = None
        try:
            while not is_served():
                if bell is None:
                    bell = threading.Lock()
                    bell.acquire()
                    self._bells[bell] = is_served
                if self._lead(is_served, lead):
                    continue
                left_s = RING_LOST_S if deadline_s is None else min(RING_LOST_S, deadline_s - time.monotonic())
                if left_s <= 0:
                    return False
                if bell.acquire(timeout=left_s):
                    bell = None
                    if not is_served():
                        self._lead(is_served, lead)  # mostly it is this one's turn now
            return True
        finally:
            if bell is not None and self._bells.pop(bell, None) is None:
                self._ring()  # somebody has rung in vain: the next one is to hear it

    def _lead(self, is_served: Callable[[], bool], lead: Callable[[], None]) -> bool:
        """Whether nobody else led, so that this thread did."""
        lock = self.lock
        try:
            if not lock.acquire(blocking=False):
                return False
            if not is_served():
                lead()
            return True
        finally:
            # An interrupt may come right after the lock was taken, before anything could be noted: so always let it go.
            # (contextlib.suppress is Python code, in which an interrupt could come before the release.)
            try:
                lock.release()
            except RuntimeError:
                pass  # not held: another thread leads
            else:
                if self._bells:
                    self._ring()

    def _ring(self) -> None:
        """Wake the first who is not served, then all who are."""
        served: list[threading.Lock] = []
        leader: threading.Lock | None = None
        for bell, is_served in list(self._bells.items()):
            if is_served():
                served.append(bell)
            elif leader is None:
                leader = bell
        for bell in served if leader is None else [leader, *served]:
            if self._bells.pop(bell, None) is not None:
                bell.release()
