"""Which of several stores is left alone for a while: RocketMQ's latency classes and its table of back-offs.

A send that took 600 ms has its store left alone for 2 s; one that failed for 10 s, as if it had taken 10 s. Left alone
means: another one is taken as long as there is one that is not. RocketMQ: `MQFaultStrategy`, values of 5.3.3.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..store.arguments import check_whole
from ..store.disk.clock import Clock
from ..store.errors import InvalidSettingsError, WrongTypeError

LATENCIES_MS = (50, 100, 550, 1800, 3000, 5000, 15000)
BACK_OFFS_MS = (0, 0, 2000, 5000, 6000, 10000, 30000)
FAILED_MS = 10_000
"""A failed send counts as one that took so long."""


@dataclass(frozen=True)
class FaultRules:
    """A send of `latencies_ms[i]` or more has its store left alone for `back_offs_ms[i]`. Raises InvalidArgumentError,
    and InvalidSettingsError for two that do not fit each other."""

    latencies_ms: tuple[int, ...] = LATENCIES_MS
    back_offs_ms: tuple[int, ...] = BACK_OFFS_MS

    def __post_init__(self) -> None:
        for name in ("latencies_ms", "back_offs_ms"):
            object.__setattr__(self, name, _checked_times(name, getattr(self, name)))
        if len(self.latencies_ms) != len(self.back_offs_ms) or list(self.latencies_ms) != sorted(self.latencies_ms):
            raise InvalidSettingsError(
                f"latencies {self.latencies_ms} and back-offs {self.back_offs_ms}: expected as many of the one as of "
                "the other, the latencies ascending"
            )

    def back_off_ms(self, latency_ms: float) -> int:
        place = bisect_right(self.latencies_ms, latency_ms)
        return self.back_offs_ms[place - 1] if place else 0


def _checked_times(argument: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes, bytearray)):
        raise WrongTypeError(argument, values, "whole numbers of ms, as in (50, 100, 550)")
    return tuple(check_whole(f"{argument}[{i}]", value) for i, value in enumerate(values))


class FaultTable:
    """When each store may be sent to again. Thread-safe."""

    def __init__(self, clock: Clock, rules: FaultRules) -> None:
        self._clock, self._rules = clock, rules
        self._lock = threading.Lock()
        self._alone_until_s: dict[str, float] = {}
        """Only of stores that were left alone; a store that works fast costs no more than a look."""

    def note(self, name: str, latency_ms: float) -> None:
        """A send to this store has succeeded, after so long."""
        back_off_ms = self._rules.back_off_ms(latency_ms)
        if back_off_ms or name in self._alone_until_s:
            self._leave_alone(name, back_off_ms)

    def note_failure(self, name: str) -> None:
        self._leave_alone(name, self._rules.back_off_ms(FAILED_MS))

    def forget(self, name: str) -> None:
        """It is another store from now on, or none."""
        with self._lock:
            self._alone_until_s.pop(name, None)

    def _leave_alone(self, name: str, back_off_ms: int) -> None:
        with self._lock:
            self._alone_until_s[name] = self._clock.monotonic_s() + back_off_ms / 1000

    def alone_until_s(self, name: str) -> float:
        """On the clock of `monotonic_s`; 0 for a store that was never left alone."""
        return self._alone_until_s.get(name, 0.0)

    def is_available(self, name: str) -> bool:
        return name not in self._alone_until_s or self._clock.monotonic_s() >= self.alone_until_s(name)
