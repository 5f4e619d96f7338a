"""Group commit: one sync serves all who wait for it. The kernel's type `GroupCommit` and the reference's do the same.

Whoever comes first leads: it syncs everything appended so far, for all whose records are among it. When it is done it
wakes one of those whom that did not serve, who leads next; those whom it did are woken one by one, because woken all at
once they would only queue up for the interpreter, and so each be woken twice.

The reference wakes the first who is served, and each wakes the next as soon as it runs. The kernel waits a little
longer: the next is woken by whoever goes to sleep next, mostly the same thread with another put. It then finds the
interpreter free, so that a put costs one switch of threads in place of two or more. Where nobody went to sleep while
the next sync was under way, all are woken at once by its end, and by the next few; where no next sync is to come, at
once.

Invariants:
- Only one thread leads at a time.
- Whoever waits is served, or will be rung to lead, or waits for somebody who leads.
- Nobody who is served waits for a ring for longer than a moment: each looks now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class GroupCommitProtocol(Protocol):
    """Made by the commit log, at each opening, with the place that is synced. All arguments are positional."""

    synced_to: int
    """Who waits for this place, or for one before it, is served. Moved by who leads."""

    @property
    def waiting(self) -> int:
        """How many wait, and are not rung yet."""

    def wait_for(self, goal: int, lead: Callable[[], object], timeout_s: float | None, /) -> bool:
        """Return True once `synced_to` has come to the goal, by this thread's own `lead()` or another's; False if
        others took too long. Raises what this thread's `lead` raises."""

    def run_exclusive(self, call: Callable[[], object], /) -> None:
        """Call it while nobody leads. Raises what it raises."""
