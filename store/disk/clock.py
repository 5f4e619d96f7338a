"""Time comes in through one door, so that tests can hold it still, step it back, or run it ahead."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What a store asks of a clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may step backwards."""

    def monotonic_s(self) -> float:
        """Seconds that never step backwards, from an arbitrary start: for deadlines and intervals."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
