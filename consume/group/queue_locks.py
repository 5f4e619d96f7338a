"""Locks of queues that are consumed in order.

A lock outlives the membership: a member that has left while its listener is at work keeps the queue from the others
until the listener ends, or for 60 s. RocketMQ: `RebalanceLockManager` and the client's `ConsumeMessageOrderlyService`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ...store.disk.clock import Clock
from ...store.message_queue import MessageQueue

EXPIRY_S = 60.0
"""Life of a lock that is not renewed."""
RENEW_INTERVAL_S = 20.0


@dataclass
class _Held:
    owner: object
    expires_s: float


class QueueLocks:
    """The locks of all groups of one coordinator. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[tuple[str, MessageQueue], _Held] = {}

    def lock(self, group: str, queue: MessageQueue, owner: object) -> bool:
        """Take or renew the lock for 60 s. Returns False if another owner has it."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            held = self._held.get((group, queue))
            if held is not None and held.owner is not owner and now_s < held.expires_s:
                return False
            self._held[group, queue] = _Held(owner, now_s + EXPIRY_S)
        return True

    def unlock(self, group: str, queue: MessageQueue, owner: object) -> None:
        """Release the lock; does nothing if another owner has it by now."""
        with self._lock:
            held = self._held.get((group, queue))
            if held is not None and held.owner is owner:
                del self._held[group, queue]

    def renew(self, owner: object) -> None:
        """Renew all locks of the owner for 60 s from now."""
        expires_s = self._clock.monotonic_s() + EXPIRY_S
        with self._lock:
            for held in self._held.values():
                if held.owner is owner:
                    held.expires_s = expires_s
