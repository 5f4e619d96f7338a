"""When a flush is worth it: RocketMQ's interval, least pages and thorough interval.

    least pages or more are dirty     every interval
    fewer                             every thorough interval
    nothing is dirty                  never

The thorough interval runs from the last flush that was due by it: what is written after a long silence is flushed with
the next round.
"""

from __future__ import annotations

import math
from collections.abc import Callable


class FlushRule:
    """One service's rule. Pure: it is told the time and asks what is dirty."""

    def __init__(self, interval_s: float, least_pages: int, thorough_interval_s: float) -> None:
        self._interval_s, self._least_pages, self._thorough_interval_s = interval_s, least_pages, thorough_interval_s
        self._due_s = self._thorough_due_s = -math.inf

    def due_s(self, is_dirty: Callable[[int], bool]) -> float:
        """When to flush, by the clock that `flushed` is told; infinity where nothing is dirty.

        `is_dirty(n)` answers whether n pages are, `is_dirty(0)` whether a byte is.
        """
        if is_dirty(self._least_pages):
            return self._due_s
        return max(self._due_s, self._thorough_due_s) if is_dirty(0) else math.inf

    def flushed(self, now_s: float) -> None:
        """Everything was flushed at `now_s`."""
        self._due_s = now_s + self._interval_s
        if now_s >= self._thorough_due_s:
            self._thorough_due_s = now_s + self._thorough_interval_s
