"""Group commit: one sync serves all who wait for it.

Whoever comes first leads: it syncs everything appended so far, for all whose records are among it. When it is done it
wakes all who wait; who is served returns, and of the others one leads next.

Invariants:
- Only one thread syncs at a time.
- A waiter puts its bell on the list before it looks whether somebody leads; a leader rings after it has let go. So
  every waiter is rung or leads itself. An interrupt may cost a ring: nobody waits longer than `RING_LOST_S` at a time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

RING_LOST_S = 0.05


class GroupCommit:
    """Who may sync, and who waits for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # never taken twice; an RLock knows whether this thread holds it
        """Held by the leader; whoever else takes it keeps all syncs away."""
        self._bells: deque[threading.Lock] = deque()
        """Of those who wait; a locked one has not been rung."""

    def until(self, is_served: Callable[[], bool], lead: Callable[[], None], timeout_s: float | None) -> bool:
        """Return True once `is_served()`, by this thread's own `lead()` or another's; False if others took too long.

        Raises what this thread's `lead` raises.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        bell: threading.Lock | None = None
        while not is_served():
            if self._lead(is_served, lead):
                continue
            if bell is None:
                bell = threading.Lock()
                bell.acquire()
                self._bells.append(bell)
                continue
            left_s = RING_LOST_S if deadline_s is None else min(RING_LOST_S, deadline_s - time.monotonic())
            if left_s <= 0:
                return False
            if bell.acquire(timeout=left_s):
                bell = None
        return True

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
                self._ring()

    def _ring(self) -> None:
        """Wake everybody who waits now; who is not served yet comes back with a new bell."""
        for _ in range(len(self._bells)):
            try:
                self._bells.popleft().release()
            except IndexError:
                return  # the next leader has been as quick
