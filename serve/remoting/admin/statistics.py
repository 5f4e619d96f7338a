"""What clients sent and received in the last minute, hour and day: RocketMQ's `StatsItem`.

Sums are sampled, and a window is the difference between its newest and its oldest sample: so a day grows by the hour.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from ....store.disk.clock import Clock
from ...metrics.traffic import Traffic
from ..answers.request import Answer, CommandRefused, Request
from ..wire.codes import ResponseCode

SENT, RECEIVED = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"
WINDOWS = {"statsMinute": (10, 7), "statsHour": (600, 7), "statsDay": (3600, 25)}
"""How many seconds are between two samples, and how many are kept."""


@dataclass
class _Window:
    """Samples of all sums, the oldest first."""

    interval_s: int
    samples: deque[tuple[float, Counter[tuple[str, str]]]] = field(default_factory=deque)

    def is_due(self, now_s: float) -> bool:
        return not self.samples or now_s - self.samples[-1][0] >= self.interval_s


class Statistics:
    """In one event loop."""

    def __init__(self, traffic: Traffic, clock: Clock) -> None:
        self._traffic, self._clock = traffic, clock
        self._windows = {name: _Window(each, deque(maxlen=most)) for name, (each, most) in WINDOWS.items()}
        self.sample()

    def sample(self) -> None:
        """Once a second, or less often."""
        now_s = self._clock.monotonic_s()
        due = [
            each
            for each in self._windows.values()
            if not each.samples or now_s - each.samples[-1][0] >= each.interval_s
        ]
        if due:
            sums = self._sums()
            for window in due:
                window.samples.append((now_s, sums))

    def _sums(self) -> Counter[tuple[str, str]]:
        sums: Counter[tuple[str, str]] = Counter()
        for (topic, _), (count, _) in self._traffic.sent().items():
            sums[SENT, topic] += count
        for (group, topic, _), (count, _) in self._traffic.received().items():
            sums[RECEIVED, f"{topic}@{group}"] += count
        return sums

    async def view(self, request: Request) -> Answer:
        """`BrokerStatsData` of the messages of a topic, or of those that a group received."""
        key = request.text("statsName"), request.text("statsKey")
        if not self._sums()[key]:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"The stats <{key[0]}> <{key[1]}> not exist")
        return Answer.of(self.figures(key))

    def figures(self, key: tuple[str, str]) -> dict[str, dict[str, Any]]:
        """Figures of a sum, by window."""
        return {name: _figures(window, key) for name, window in self._windows.items()}


def _figures(window: _Window, key: tuple[str, str]) -> dict[str, Any]:
    (first_s, first), (last_s, last) = window.samples[0], window.samples[-1]
    count, took_s = last[key] - first[key], last_s - first_s
    return {"avgpt": 0.0, "sum": count, "tps": count / took_s if took_s else 0.0}
