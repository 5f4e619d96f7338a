"""Threads that wait for the same queues and share what arrives: one of them is woken, not all.

With 64 receives of one group, a put would wake 64 threads, of which 63 find nothing.

Invariants:
- A notification reaches a waiter that looks for messages after it, if there is one: the first that is not notified yet.
- A waiter that leaves, with messages or without, notifies the next one: there may be more than it took.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager

from ...store.queue_offsets import QueueKey
from .arrivals import Arrivals
from .wake_up import WakeUp


class WaitingLine:
    """Stands for its waiters at `Arrivals`. Thread-safe."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._lock = threading.Lock()
        self._waiting: dict[WakeUp, None] = {}
        """Written under the lock. In the order in which they joined."""

    @property
    def is_used(self) -> bool:
        """Whether there are waiters."""
        return bool(self._waiting)

    @contextmanager
    def joined(self, wake_up: WakeUp) -> Iterator[None]:
        """The block waits on this wake-up. It calls `expect` and looks for messages before each wait."""
        with self._lock:
            self._waiting[wake_up] = None
        try:
            yield
        finally:
            with self._lock:
                del self._waiting[wake_up]
                if not self._waiting:
                    self._arrivals.forget(self)
            self.notify()

    def expect(self, wanted: Container[QueueKey]) -> None:
        """As `Arrivals.expect`: one waiter is notified, once, when something new can be read from these queues."""
        self._arrivals.expect(self, wanted)

    def notify(self) -> None:
        for wake_up in tuple(self._waiting):
            if not wake_up.is_notified:
                wake_up.notify()
                return


class WaitingLines:
    """A line for each group and topic that has waiters. Thread-safe."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._lines: dict[tuple[str, str], WaitingLine] = {}

    @contextmanager
    def joined(self, name: tuple[str, str], wake_up: WakeUp) -> Iterator[WaitingLine]:
        """As `WaitingLine.joined`, in the line of this name."""
        line = self._lines.setdefault(name, WaitingLine(self._arrivals))
        try:
            with line.joined(wake_up):
                yield line
        finally:
            # One who joins it at this very moment waits as well, apart from the others, and leaves their line alone.
            if not line.is_used and self._lines.get(name) is line:
                self._lines.pop(name, None)
