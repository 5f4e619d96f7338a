"""Runs cases round by round, so that what else the machine does hits all of them alike, and keeps every sample."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .case import Case

PILOT_PART = 20


@dataclass
class Result:
    """One case and how long each of its rounds took."""

    case: Case
    seconds: list[float] = field(default_factory=list)
    latencies_ns: list[np.ndarray] = field(default_factory=list)
    """One array a round, of a case that times its calls."""

    @property
    def median_s(self) -> float:
        """Seconds a round."""
        return statistics.median(self.seconds)

    @property
    def per_message_s(self) -> float:
        return self.median_s / self.case.count

    @property
    def spread(self) -> float:
        """How far the slowest round is from the fastest, as a part of the median."""
        return (max(self.seconds) - min(self.seconds)) / self.median_s

    def latency_us(self, percentile: float) -> float:
        """Of one call, the median of the rounds; NaN if calls are not timed."""
        found = [float(np.percentile(latencies_ns, percentile)) for latencies_ns in self.latencies_ns]
        return statistics.median(found) / 1e3 if found else float("nan")

    def part_of(self, reference: Result) -> float:
        """How fast it is beside its reference, message for message: 1.0 is as fast."""
        return reference.per_message_s / self.per_message_s


def pilot(cases: Sequence[Case], folder: Path) -> float:
    """Run every case once with a twentieth of its messages, to warm up. Returns about how long a round takes (s)."""
    total_s = 0.0
    for case in cases:
        small = dataclasses.replace(case, count=max(case.count // PILOT_PART, 1))
        total_s += small.measure(folder).seconds * case.count / small.count
    return total_s


def measure(cases: Sequence[Case], rounds: int, folder: Path, done: Callable[[int], None]) -> list[Result]:
    """`rounds` rounds of all cases in turn; `done` is told how many measurements are made."""
    results = [Result(case) for case in cases]
    for number in range(rounds):
        for i, result in enumerate(results):
            measured = result.case.measure(folder)
            result.seconds.append(measured.seconds)
            if measured.latencies_ns is not None:
                result.latencies_ns.append(measured.latencies_ns)
            done(number * len(results) + i + 1)
    return results
