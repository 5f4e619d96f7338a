"""Two plots of a comparison: throughput by mode, and how long one call takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...store.errors import UsageError
from ..words import figure_text
from .load import Outcome
from .machine import Machine
from .writers import OWN, PURE, REFERENCES

SUFFIXES = (".png", ".svg", ".pdf")
OWN_COLOUR, PURE_COLOUR, PEER_COLOUR, REFERENCE_COLOUR = "#1769aa", "#7fb2d9", "#c77d2e", "#9a9a9a"
NINES = np.array([0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999])
CURVES_MAX = 10
"""More lines than that nobody can tell from each other."""
BAR_HEIGHT_INCHES = 0.27


def check_plot(path: Path) -> None:
    """Raises UsageError for a file that no plot can be written to."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"--plot {path}: expected a name that ends in {', '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--plot {path}: there is no folder {path.parent}")


def draw(outcomes: Sequence[Outcome], machine: Machine, path: Path) -> None:
    """One figure, a row for each body size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = sorted({outcome.load.body_size for outcome in outcomes})
    bars = max(sum(outcome.load.body_size == size for outcome in outcomes) for size in sizes)
    height = max(4.0, 1.2 + BAR_HEIGHT_INCHES * bars)
    drawing, axes = pyplot.subplots(
        len(sizes), 2, figsize=(15, height * len(sizes)), squeeze=False, width_ratios=(3, 2)
    )
    for (left, right), size in zip(axes, sizes, strict=True):
        here = [outcome for outcome in outcomes if outcome.load.body_size == size]
        _throughput(left, here)
        _latencies(right, here)
        left.set_title(f"Messages per second, bodies of {size:,} bytes", loc="left")
        right.set_title("Time of one call", loc="left")
    drawing.text(0.01, 0.005, str(machine), fontsize=8, color="#555555")
    drawing.tight_layout(rect=(0, 0.02, 1, 1))
    drawing.savefig(path, dpi=110)
    pyplot.close(drawing)


def _colour(outcome: Outcome) -> str:
    writer = outcome.load.writer
    if writer in REFERENCES:
        return REFERENCE_COLOUR
    return {OWN: OWN_COLOUR, PURE: PURE_COLOUR}.get(writer, PEER_COLOUR)


def _throughput(axes: Any, outcomes: Sequence[Outcome]) -> None:
    ordered = sorted(outcomes, key=lambda outcome: (outcome.load.sync, outcome.per_message_s), reverse=True)
    rates = [1 / outcome.per_message_s for outcome in ordered]
    bars = axes.barh(range(len(ordered)), rates, color=[_colour(outcome) for outcome in ordered], height=0.72)
    axes.set_yticks(range(len(ordered)), [f"{o.load.writer}: {o.load.mode}" for o in ordered], fontsize=8)
    axes.bar_label(bars, [figure_text(rate) for rate in rates], padding=3, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(min(rates) / 2, max(rates) * 5)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _latencies(axes: Any, outcomes: Sequence[Outcome]) -> None:
    drawn = [o for o in outcomes if o.load.writer not in REFERENCES and o.load.batch == 1 and o.stamped is not None]
    drawn = [o for o in drawn if o.stamped is not None and len(o.stamped.latencies_ns)]
    drawn.sort(key=lambda o: (o.load.writer != OWN, o.latency_ns(50)))
    nines = NINES
    for outcome in drawn[:CURVES_MAX]:
        assert outcome.stamped is not None
        latencies_ns = outcome.stamped.latencies_ns
        known = nines[nines <= 1 - 1 / len(latencies_ns)]  # no percentile beyond what so many calls can show
        style = "-" if outcome.load.writer == OWN else "--"
        label = f"{outcome.load.writer}: {outcome.load.mode}"
        axes.plot(-np.log10(1 - known), np.quantile(latencies_ns, known) / 1e3, style, marker=".", label=label)
    axes.set_xticks(-np.log10(1 - NINES), [f"{100 * part:g} %" for part in NINES])
    most = max((len(o.stamped.latencies_ns) for o in drawn if o.stamped is not None), default=1000)
    axes.set_xlim(0.2, max(np.log10(most), 1.2))
    axes.set_xlabel("of the calls take no longer than")
    axes.set_ylabel("µs")
    axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if drawn:
        axes.legend(fontsize=8, frameon=False)
