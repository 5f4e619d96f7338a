"""Wake-ups: wait for a notice from another thread.

Wake-ups are raw locks, not events: `notify` is one call into C, which no KeyboardInterrupt can leave half done.
"""

from __future__ import annotations

import threading
from typing import Protocol


class Notifiable(Protocol):
    """Wakes a waiting thread or coroutine."""

    def notify(self) -> None:
        """From any thread."""


class WakeUp:
    """A notification ends the next wait, or the one under way. Several before a wait count as one."""

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()
        self.notify_once = self._silence.release
        """`notify` in C: raises RuntimeError if it is notified already."""

    @property
    def is_notified(self) -> bool:
        return not self._silence.locked()

    def notify(self) -> None:
        try:  # noqa: SIM105 (an interrupt could come inside contextlib.suppress, before the release)
            self._silence.release()
        except RuntimeError:
            pass  # notified already

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a notification and clear it; False if there is none within `timeout_s` (None: no limit)."""
        return self._silence.acquire(timeout=-1 if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))
