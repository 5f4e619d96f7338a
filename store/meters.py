"""Small gauges for what a store does: cheap to update from any thread, computed when they are read."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

KEPT = 1024
RATE_WINDOW_S = 10.0
NOTE_EVERY_S = 0.25
NOTES = 64
assert NOTES * NOTE_EVERY_S > RATE_WINDOW_S


@dataclass(frozen=True, slots=True)
class Distribution:
    """How the latest measurements lie. All 0.0 without any."""

    count: int
    """How many these are: 1,024 at most."""
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    maximum: float = 0.0


class Latest:
    """The latest measurements of one thing."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=KEPT)
        self.note = self._values.append

    def distribution(self) -> Distribution:
        values = sorted(self._values.copy())
        if not values:
            return Distribution(0)
        p50, p90, p99 = (values[min(len(values) * percent // 100, len(values) - 1)] for percent in (50, 90, 99))
        return Distribution(len(values), p50, p90, p99, values[-1])


class RateMeter:
    """How fast two totals have grown lately. One thread notes; any may ask."""

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self._notes: deque[tuple[float, int, int]] = deque([(now_s, 0, 0)], maxlen=NOTES)

    def note(self, now_s: float, count: int, size: int) -> None:
        """The totals now. To be called after every growth, soon or late: between two notes the growth may lie
        anywhere."""
        at_s = self._notes[-1][0]
        if now_s - at_s < NOTE_EVERY_S:
            self._notes[-1] = (at_s, count, size)
        else:
            self._notes.append((now_s, count, size))

    def rates(self, now_s: float, count: int, size: int) -> tuple[float, float]:
        """Counts and bytes per second, over the last 10 s or since the beginning; 0.0 in its first instant."""
        span_s = min(RATE_WINDOW_S, now_s - self._since_s)
        if span_s <= 0:
            return 0.0, 0.0
        before = [note for note in self._notes.copy() if note[0] <= now_s - span_s]
        _, old_count, old_size = before[-1] if before else (0.0, count, size)
        return (count - old_count) / span_s, (size - old_size) / span_s
