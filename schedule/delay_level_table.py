"""RocketMQ's delay levels: level 1 waits 1 s, level 18 waits 2 h.

A message with a level is parked in `SCHEDULE_TOPIC_XXXX`, one queue a level; its queue entry holds the delivery time in
place of the tag's hash.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..store.errors import InvalidSettingsError
from ..store.format.record import INT64_MAX

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
UNKNOWN_LEVEL_DELAY_MS = 1000
UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True)
class DelayLevelTable:
    """The delays of levels 1, 2, ... in milliseconds, from RocketMQ's `messageDelayLevel` text."""

    delays_ms: tuple[int, ...]

    @classmethod
    def parse(cls, text: str = DEFAULT_DELAY_LEVELS) -> DelayLevelTable:
        """Parse the text. Raises InvalidSettingsError, which names the word that is not a delay."""
        delays: list[int] = []
        for word in text.split():
            number, unit = word[:-1], UNIT_MS.get(word[-1])
            if unit is None or not number.isdecimal():
                raise InvalidSettingsError(f"delay level {word!r}: expected a number and one of s, m, h, d, as in 10s")
            delays.append(int(number) * unit)
        if not delays:
            raise InvalidSettingsError("delay levels: expected at least one, as in '1s 5s 10s'")
        return cls(tuple(delays))

    def clamp(self, level: int) -> int:
        """The level to use: one above the highest counts as the highest."""
        return min(level, len(self.delays_ms))

    def delivery_time_ms(self, level: int, store_timestamp_ms: int) -> int:
        """When a message parked at `store_timestamp_ms` is due."""
        level = self.clamp(level)
        delay_ms = self.delays_ms[level - 1] if level >= 1 else UNKNOWN_LEVEL_DELAY_MS
        return min(store_timestamp_ms + delay_ms, INT64_MAX)  # no CRC covers a store time
