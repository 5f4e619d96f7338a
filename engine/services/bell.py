"""Something to wait for.

Raw locks are the bells here, not events: ringing is one call into C, which no KeyboardInterrupt can leave half done.
"""

from __future__ import annotations

import threading
from typing import Protocol


class Ringable(Protocol):
    """What wakes somebody."""

    def ring(self) -> None:
        """From any thread."""


class Bell:
    """Rung once or often before a wait, it ends that wait."""

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()
        self.ring_once = self._silence.release
        """To ring it in C: RuntimeError if it is rung already."""

    @property
    def is_rung(self) -> bool:
        return not self._silence.locked()

    def ring(self) -> None:
        try:  # noqa: SIM105 (an interrupt could come inside contextlib.suppress, before the release)
            self._silence.release()
        except RuntimeError:
            pass  # rung already

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return, and silence the bell, once it is rung; False if it is not within `timeout_s` (None: no limit)."""
        return self._silence.acquire(timeout=-1 if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))
