"""One line of the table of targets: a figure, its target, and the measured values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from flightlog.tools.output import Column, Output
from flightlog.tools.words import figure_text


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
        return (max(self.values) - min(self.values)) / median(self.values)

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None if nothing was measured."""
        if self.measured is None:
            return None
        return self.measured <= self.target if self.at_most else self.measured >= self.target

    @property
    def cells(self) -> list[str]:
        """The figure as a row of the table."""
        unit = self.unit if self.unit == "x" else f" {self.unit}"
        target = f"{'<=' if self.at_most else '>='} {self.target:g}{unit}"
        if self.measured is None:
            return [self.figure, target, "", "", self.note]
        measured = f"{figure_text(self.measured)}{unit}"
        return [self.figure, target, measured, f"{self.spread:.0%}", "yes" if self.is_met else "NO"]

    @property
    def brief(self) -> str:
        """The figure as one line of text."""
        return "  ".join(cell for cell in self.cells if cell)

    def as_object(self) -> dict[str, Any]:
        return {**asdict(self), "measured": self.measured, "is_met": self.is_met}


def show(lines: Sequence[Line], output: Output) -> None:
    """Print the table, the notes, and how many targets are met."""
    columns = [Column("figure"), *(Column(name, True) for name in ("target", "measured", "spread")), Column("met")]
    output.table("Targets; medians of rounds, ratios within one round", columns, [line.cells for line in lines])
    output.line()
    for line in lines:
        if line.note and line.values:
            output.line(f"{line.figure}: {line.note}")
    known = [line for line in lines if line.is_met is not None]
    left_out = len(lines) - len(known)
    tail = f"; {left_out} not measured" if left_out else ""
    output.line()
    output.line(f"{sum(bool(line.is_met) for line in known)} of {len(known)} targets are met{tail}.")
