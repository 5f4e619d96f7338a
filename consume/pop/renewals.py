"""Received messages whose invisible time the store prolongs while they are worked on (`receive(..., renew=True)`).

A message is invisible for a slice, the `invisible_ms` of its receive. The slice is prolonged before it ends, until the
message is acknowledged or changed, for LONGEST_MS at most. Its receiver names it by the handle that it got; this knows
which one counts.

RocketMQ: the proxy's `DefaultReceiptHandleManager`, `RenewStrategyPolicy`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from ...store.disk.clock import Clock
from ...store.errors import FlightlogError, StoreClosedError
from .pop_errors import ExpiredHandleError
from .popped import PopHandle, words_of

log = logging.getLogger("flightlog.pop")

AHEAD_MS: Final = 10_000
"""How long before its end a slice is prolonged (`renewAheadTimeMillis`); short ones at half their time."""
LONGEST_MS: Final = 3 * 3_600_000
"""`renewMaxTimeMillis`"""
LEAST_SLICE_MS: Final = 5_000
"""Slices are looked at once a second."""
MAX_FAILURES: Final = 3
"""`maxRenewRetryTimes`"""


@dataclass(slots=True)
class _Renewed:
    handle: PopHandle
    slice_ms: int
    expires_ms: int
    began_ms: int
    failures: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while it is prolonged: whoever takes the handle gets the new one."""


class Renewals:
    """Automatic renewals of the handles of one store. Thread-safe."""

    def __init__(self, clock: Clock, change: Callable[[PopHandle, int], PopHandle]) -> None:
        """`change` prolongs the handle that counts."""
        self._clock, self._change = clock, change
        self._renewed: dict[PopHandle, _Renewed] = {}
        """By the handle that the receiver has."""

    def __len__(self) -> int:
        return len(self._renewed)

    def __contains__(self, handle: PopHandle) -> bool:
        return handle in self._renewed

    def add(self, handles: Iterable[PopHandle], slice_ms: int) -> None:
        now_ms = self._clock.now_ms()
        for handle in handles:
            self._renewed[handle] = _Renewed(handle, slice_ms, _expires_ms(handle), now_ms)

    def take(self, handle: PopHandle) -> PopHandle:
        """The handle that counts; it is prolonged no more."""
        found = self._renewed.pop(handle, None)
        if found is None:
            return handle
        with found.lock:
            return found.handle

    def renew_due(self) -> None:
        """Prolong what ends soon. Raises StoreClosedError."""
        for key, each in tuple(self._renewed.items()):
            with each.lock:
                now_ms = self._clock.now_ms()
                if key not in self._renewed or each.expires_ms - now_ms > min(AHEAD_MS, each.slice_ms // 2):
                    continue
                if now_ms - each.began_ms > LONGEST_MS or not self._prolong(each):
                    self._renewed.pop(key, None)

    def _prolong(self, each: _Renewed) -> bool:
        """False: it is over, or failed too often."""
        try:
            each.handle = self._change(each.handle, each.slice_ms)
        except ExpiredHandleError:
            return False
        except StoreClosedError:
            raise
        except FlightlogError as e:
            each.failures += 1
            log.warning("a message was not kept for its receiver: %s", e, extra={"cause": repr(e)})
            return each.failures < MAX_FAILURES
        each.expires_ms = _expires_ms(each.handle)
        return True


def _expires_ms(handle: PopHandle) -> int:
    words, _ = words_of(handle)
    return words.expires_ms
