"""Clocks that a test moves."""

from __future__ import annotations

from dataclasses import dataclass

from ..store.disk.clock import SystemClock


@dataclass
class ManualClock:
    """Hand it to `flightlog.open(..., clock=clock)`. Delayed messages, retention and redeliveries follow it.

    `advance` lets time pass. Setting `at_ms` alone is an operator who sets the machine's clock: no time passes then.
    """

    at_ms: int = 1_700_000_000_000
    """The time of day, in milliseconds since 1970-01-01 UTC."""
    passed_ms: int = 0
    """How much time has passed, in milliseconds: what deadlines and intervals are measured by."""

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.passed_ms / 1000

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass. A service that sleeps notices at its next round."""
        self.at_ms += ms
        self.passed_ms += ms


class AheadClock(SystemClock):
    """The machine's clock, moved ahead by `advance`: for a store whose clients have clocks of their own."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        """By how many milliseconds it is ahead of the machine's clock."""

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_ms / 1000

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass. A service that sleeps notices at its next round."""
        self.ahead_ms += ms
