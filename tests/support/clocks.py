"""Clocks that go as a test says."""

from __future__ import annotations

from dataclasses import dataclass

from flightlog.store.disk.clock import SystemClock


@dataclass
class SteppedClock:
    """Time that passes when a test says so (`advance`), and a clock that a test may set (`at_ms`)."""

    at_ms: int = 1_700_000_000_000
    passed_ms: int = 0

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.passed_ms / 1000

    def advance(self, ms: int) -> None:
        self.at_ms += ms
        self.passed_ms += ms


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
