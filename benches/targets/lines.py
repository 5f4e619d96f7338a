"""One line of the table of targets: a figure, its target, and the measured values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from flightlog.tools.bench.machine.machine import Machine
from flightlog.tools.output import Output
from flightlog.tools.words import count_text, figure_text, seconds_text


@dataclass(frozen=True)
class Line:
    """A figure with its target and its values."""

    group: str
    figure: str
    target: float
    values: tuple[float, ...] = ()
    """One value for each round; empty if it was not measured, for the reason in the note."""
    unit: str = "x"
    at_most: bool = False
    """Whether the target is an upper limit."""
    every: bool = False
    """Whether every value must meet the target, not only the median."""
    note: str = ""

    @property
    def measured(self) -> float | None:
        """The value compared with the target: the median, or the worst value if every one must meet it."""
        if not self.values:
            return None
        worst = max if self.at_most else min
        return worst(self.values) if self.every else median(self.values)

    @property
    def spread(self) -> float:
        """The range from the lowest to the highest value, as a fraction of the median."""
        lowest, highest = min(self.values), max(self.values)
        return (highest - lowest) / median(self.values) if highest > lowest else 0.0

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None if nothing was measured."""
        if self.measured is None:
            return None
        return self.measured <= self.target if self.at_most else self.measured >= self.target

    @property
    def cells(self) -> list[str]:
        """The figure as a row of the table."""
        unit = f" {self.unit}" if self.unit not in ("x", "") else self.unit
        target = f"{'<=' if self.at_most else '>='} {self.target:g}{unit}"
        if self.measured is None:
            return [self.figure, target, "", "", self.note]
        measured = f"{figure_text(self.measured)}{unit}"
        return [self.figure, target, measured, f"{self.spread:.0%}", "yes" if self.is_met else "NO"]

    @property
    def command(self) -> str:
        """What measures it."""
        return f"make targets ONLY={self.group}"

    @property
    def brief(self) -> str:
        """The figure as one line of text."""
        return "  ".join(cell for cell in self.cells if cell)

    def as_object(self) -> dict[str, Any]:
        return {**asdict(self), "measured": self.measured, "is_met": self.is_met}


def show(lines: Sequence[Line], machine: Machine, rounds: int, seconds: float, output: Output) -> None:
    """Print the table as Markdown, the notes, and how many targets are met."""
    output.line(
        f"{machine}; medians of {count_text(rounds, 'round')}, ratios within one round; {seconds_text(seconds)}."
    )
    output.line()
    output.line("| figure | target | measured | spread | met | command |")
    output.line("|---|---|---|---|---|---|")
    for line in lines:
        output.line(f"| {' | '.join(line.cells)} | `{line.command}` |")
    output.line()
    for line in lines:
        if line.note and line.values:
            output.line(f"- {line.figure}: {line.note}")
    known = [line for line in lines if line.is_met is not None]
    left_out = len(lines) - len(known)
    tail = f"; {left_out} not measured" if left_out else ""
    output.line()
    output.line(f"{sum(bool(line.is_met) for line in known)} of {len(known)} targets are met{tail}.")
