"""What the system does for a round of puts. The same messages cost a writer the same CPU time in every round; the pages
they go to do not, and that is what rounds differ by (docs/performance.md, "The machine")."""

from __future__ import annotations

import resource

from ..case import Outcome, Sample

FAULTS, SYSTEM = "page faults", "system µs"
"""Page faults of all threads of this process, and their CPU time in the kernel, a message."""
SPREAD_MAX = 0.35
"""Rounds that differ by more are explained."""


class SystemUse:
    """Page faults and CPU time in the kernel from now on."""

    def __init__(self) -> None:
        self._before = resource.getrusage(resource.RUSAGE_SELF)

    def since(self, count: int) -> dict[str, float]:
        """By FAULTS and SYSTEM, of so many messages."""
        now = resource.getrusage(resource.RUSAGE_SELF)
        faults = now.ru_minflt - self._before.ru_minflt
        return {FAULTS: float(faults), SYSTEM: (now.ru_stime - self._before.ru_stime) * 1e6 / count}


def why_rounds_differ(outcome: Outcome) -> str:
    """What the system did in the slowest round and in the fastest one. Empty if rounds are alike, or none tells."""
    rounds = sorted((sample for sample in outcome.rounds if FAULTS in sample.figures), key=lambda sample: sample.each_s)
    if not rounds or outcome.spread <= SPREAD_MAX:
        return ""
    return f"rounds differ by {outcome.spread:.0%}; the slowest: {_told(rounds[-1])}; the fastest: {_told(rounds[0])}"


def _told(sample: Sample) -> str:
    written = "" if sample.device_size is None else f", {sample.device_size / 1e6:,.0f} MB to the device"
    return (
        f"{sample.each_s * 1e6:.2f} µs a message, of it {sample.figures[SYSTEM]:.2f} CPU of the system, "
        f"{sample.figures[FAULTS]:,.0f} page faults{written}"
    )
