"""Whose turn it is: a counter a thread, so that threads do not wait for each other, with a start by chance, so that
senders do not all begin with the same queue. RocketMQ: `ThreadLocalIndex`."""

from __future__ import annotations

import random
import threading

MASK = 0x7FFFFFFF


class RoundRobin:
    """Safe from many threads."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def next(self) -> int:
        """0 to 2**31 - 1, one more than this thread's last one."""
        last: int | None = getattr(self._of_thread, "last", None)
        found = random.getrandbits(31) if last is None else (last + 1) & MASK
        self._of_thread.last = found
        return found
