"""Group commit: one sync serves all threads that wait for it. `GroupCommit` of the kernel and of the pure-Python
reference implement this protocol.

The first thread leads: it syncs everything appended so far, which serves all waiters whose records are covered. Then it
notifies one waiter that was not served, the next leader. Served waiters are notified one after the other: notified at
once, all of them would queue for the GIL, and each would be woken twice.

In the reference, the leader notifies the first served waiter, and each notifies the next one as soon as it runs. The
kernel delays this: the next one is notified by the next thread that goes to sleep, usually the same thread with another
put. It then finds the GIL free, so a put costs one thread switch instead of two or more. If no thread went to sleep
during the next sync, all served waiters are notified at its end and at the end of some later ones; if there is no next
sync, they are notified immediately.

Invariants:
- Only one thread leads at a time.
- Every waiter is served, or will be notified to lead, or waits while another thread leads.
- A served waiter does not rely on its notification: every waiter rechecks at short intervals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class GroupCommitProtocol(Protocol):
    """Created by the commit log at each open, with the offset that is synced. All arguments are positional."""

    synced_to: int
    """A waiter with a goal at or below this offset is served. Advanced by the leader."""

    @property
    def waiting(self) -> int:
        """The number of waiters that have not been notified."""

    def wait_for(self, goal: int, lead: Callable[[], object], timeout_s: float | None, /) -> bool:
        """Return True once `synced_to` has reached the goal, by this thread's own `lead()` or another's; False if other
        threads take longer than `timeout_s`. Raises what this thread's `lead` raises."""

    def run_exclusive(self, call: Callable[[], object], /) -> None:
        """Call `call` while no thread leads. Raises what it raises."""
