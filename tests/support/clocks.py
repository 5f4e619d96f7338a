"""Clocks that go as a test says."""

from __future__ import annotations

from dataclasses import dataclass

from flightlog.store.disk.clock import SystemClock


@dataclass
class HeldClock:
    """Both stand still until a test moves them together."""

    now_s: float = 1000.0

    def now_ms(self) -> int:
        return round(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s


class ClockAhead(SystemClock):
    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms
