"""Plots of outcomes: throughput by mode, latency of a call, and what a load draws itself; a row for each table.

A writer has the same colour in all of them. References are drawn as lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..words import figure_text
from .case import FRESH_PAGES, MEMCPY, NOTHING, OWN, PLAIN, PLAIN_COLD, PURE, PUT, RAW_LOOP, REFERENCES, Outcome
from .machine.machine import Machine
from .report import tables

SUFFIXES = (".png", ".svg", ".pdf")
OWN_COLOURS = {OWN: "#1769aa", PURE: "#7fb2d9", NOTHING: "#9a9a9a"}
PEER_COLOURS = ("#c77d2e", "#5b8c3a", "#9b4f96", "#b5493f", "#4f9a94", "#8a6d3b", "#6b6b6b", "#d19a9a")
REFERENCE_COLOUR, SYNC_REFERENCE_COLOUR = "#404040", "#b03030"
LINE_STYLES = {MEMCPY: "-", FRESH_PAGES: "--", RAW_LOOP: "-", PLAIN: "-", PLAIN_COLD: "--"}
NINES = np.array([0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999])
CURVES_MAX = 10
"""More lines cannot be told apart."""
BAR_HEIGHT_INCHES, PANEL_HEIGHT_INCHES = 0.27, 4.5
WIDTHS_INCHES = (9, 6)
"""Widths of the first and the second panel of a row."""
LEGEND_BELOW_INCHES = 0.5
LABEL_MAX = 40
"""Letters: of longer ones there is room for one column."""
WIDE_RANGE, NARROW_RANGE = 50, 4
"""A range below the first has few powers of ten: twos and fives are named, too. One below the second may have none."""
LABEL_BOX = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
"""Keeps reference lines from crossing a number."""
SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "flightlog", "font.size": 9}
"""Output is reproducible, and text stays text."""


def draw(outcomes: Sequence[Outcome], machine: Machine, path: Path) -> None:
    """Draw one figure with a row of panels for each table; tables of mere figures are left out."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn = {title: here for title, here in tables(outcomes).items() if here[0].case.draw or not _is_load(here)}
    columns = 1 + any(outcome.latencies_ns for here in drawn.values() for outcome in here)
    heights = [max(PANEL_HEIGHT_INCHES, 2.0 + BAR_HEIGHT_INCHES * len(here)) for here in drawn.values()] or [1.0]
    colours = _colours(outcomes)
    with matplotlib.rc_context(SETTINGS):
        figure, panels = pyplot.subplots(
            *(len(heights), columns),
            squeeze=False,
            layout="constrained",
            figsize=(sum(WIDTHS_INCHES[:columns]), sum(heights)),
            width_ratios=WIDTHS_INCHES[:columns],
            height_ratios=heights,
        )
        for row, (title, here) in zip(panels, drawn.items(), strict=False):
            draw_load = here[0].case.draw
            if draw_load is not None:
                draw_load(row[0], {o.case.who: o.rounds[0].series for o in here})
                row[0].set_title(title, loc="left")
            else:
                _throughput(row[0], here, colours)
                row[0].set_title(f"Throughput until drained: {title}", loc="left")
            timed = [o for o in here if o.latencies_ns]
            if timed:
                _latencies(row[1], timed, colours)
                row[1].set_title("Time of one call", loc="left")
            for empty in row[1 + bool(timed) :]:
                empty.set_axis_off()
        figure.supxlabel(str(machine), x=0.01, ha="left", fontsize=8, color="#555555")
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
        figure.savefig(path, dpi=110, metadata=metadata)
        pyplot.close(figure)


def _is_load(outcomes: Sequence[Outcome]) -> bool:
    return outcomes[0].case.has_figures


def _colours(outcomes: Sequence[Outcome]) -> dict[str, str]:
    writers = dict.fromkeys(o.case.who for o in outcomes if o.case.who not in (*OWN_COLOURS, *REFERENCES))
    return OWN_COLOURS | {name: PEER_COLOURS[i % len(PEER_COLOURS)] for i, name in enumerate(writers)}


def _label(outcome: Outcome) -> str:
    return f"{outcome.case.who}: {outcome.case.mode}"


def _throughput(axes: Any, outcomes: Sequence[Outcome], colours: dict[str, str]) -> None:
    """Async above, sync below, each sorted by speed. A reference line spans the bars of its flush mode."""
    row = 0
    labels: dict[int, str] = {}
    rates: list[float] = []
    for is_sync in (True, False):
        own = [o for o in outcomes if o.case.sync == is_sync and o.case.who not in REFERENCES]
        own.sort(key=lambda outcome: outcome.per_message_s, reverse=True)
        rows = range(row, row + len(own))
        here = [1 / outcome.per_message_s for outcome in own]
        bars = axes.barh(rows, here, color=[colours[outcome.case.who] for outcome in own], height=0.72)
        axes.bar_label(bars, [figure_text(rate) for rate in here], padding=3, fontsize=8, zorder=4, bbox=LABEL_BOX)
        labels |= {i: _label(o) for i, o in zip(rows, own, strict=True)}
        rates += here
        for outcome in outcomes if own else ():
            if outcome.case.sync == is_sync and outcome.case.who in LINE_STYLES:
                rate = 1 / outcome.per_message_s
                style = "--" if is_sync and outcome.case.batch > 1 else LINE_STYLES[outcome.case.who]
                label = f"{_label(outcome)} ({figure_text(rate)})"
                colour = SYNC_REFERENCE_COLOUR if is_sync else REFERENCE_COLOUR
                axes.vlines(rate, row - 0.5, row + len(own) - 0.5, colour, style, linewidth=1.3, label=label, zorder=3)
                rates.append(rate)
        row += len(own) + bool(own)
    axes.set_yticks(list(labels), list(labels.values()), fontsize=8)
    axes.set_ylim(-0.7, row - 1.3)
    axes.set_xscale("log")
    axes.set_xlim(min(rates) / 2, max(rates) * 4)
    axes.set_xlabel("messages per second, logarithmic")
    _finish(axes, axes.xaxis)


def _latencies(axes: Any, outcomes: Sequence[Outcome], colours: dict[str, str]) -> None:
    hidden = {name for name in REFERENCES if name != NOTHING}
    drawn = [o for o in outcomes if o.case.who not in hidden and o.case.batch == 1]
    are_puts = all(o.case.task == PUT for o in drawn)
    if are_puts:
        drawn.sort(key=lambda o: (o.case.who != OWN, o.case.sync, o.case.who, o.case.threads))
    for outcome in drawn[:CURVES_MAX]:
        style = ":" if outcome.case.threads > 1 else "--" if outcome.case.sync else "-"
        marker = "os^Dv"[min(outcome.case.threads.bit_length() // 2, 4)]
        times_us = np.concatenate(outcome.latencies_ns) / 1e3
        colour = colours[outcome.case.who] if are_puts else None  # of tasks, each has its own
        _curve(axes, times_us, _label(outcome), color=colour, linestyle=style, marker=marker)
    axes.set_ylabel("µs, logarithmic")
    _finish_curves(axes)


def curves(label: str) -> Any:
    """A function that draws the distribution of values, each further nine in the same room, as `Case.draw` wants it."""
    return partial(_draw_curves, label)


def _draw_curves(label: str, axes: Any, series: Mapping[str, Sequence[float]]) -> None:
    for name, values in series.items():
        _curve(axes, np.array(values), name, marker=".")
    axes.set_ylabel(f"{label}, logarithmic")
    _finish_curves(axes)


def _curve(axes: Any, values: np.ndarray, label: str, **style: Any) -> None:
    known = NINES[1 - 1 / len(values) >= NINES]  # no percentile beyond the resolution of this many values
    axes.plot(-np.log10(1 - known), np.quantile(values, known), label=label, markersize=4, **style)


def _finish_curves(axes: Any) -> None:
    most = max((line.get_xdata()[-1] for line in axes.get_lines()), default=1.0)
    axes.set_xticks(-np.log10(1 - NINES), [f"{100 * part:g} %" for part in NINES])
    axes.set_xlim(0.2, max(most, 1.2) + 0.1)  # else a marker would be cut in half
    axes.set_xlabel("take no longer than")
    axes.set_yscale("log")
    _finish(axes, axes.yaxis)


def lines(
    axes: Any,
    series: Mapping[str, Sequence[tuple[float, float]]],
    label: str,
    height: str,
    style: str = "-",
    *,
    is_log: bool = False,
) -> None:
    """Draw points joined by lines, from zero upwards if not `is_log`, as both axes are then. A second call with
    another style draws the same names in the same colours."""
    axes.set_prop_cycle(None)
    for name, points in series.items():
        marker = "." if len(points) < CURVES_MAX else ""
        axes.plot(*zip(*points, strict=True), style, marker=marker, label=name if style == "-" else None)
    if is_log:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(_plain)
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(label)
    axes.set_ylabel(height)
    _finish(axes, axes.yaxis)


def _finish(axes: Any, axis: Any) -> None:
    """Plain numbers on this axis, a grid, and the legend below the axis label, at a fixed distance."""
    from matplotlib.transforms import ScaledTranslation

    axis.set_major_formatter(_plain)
    low, high = axis.get_view_interval()
    minor = _plain if high < NARROW_RANGE * low else _plain_two_or_five if high < WIDE_RANGE * low else ""
    axis.set_minor_formatter(minor)
    axes.grid(axis="both" if axis is axes.yaxis else "x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    labels = axes.get_legend_handles_labels()[1]
    if labels:
        below = axes.transAxes + ScaledTranslation(0, -LEGEND_BELOW_INCHES, axes.figure.dpi_scale_trans)
        place = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": below}
        columns = 2 if max(map(len, labels)) < LABEL_MAX else 1
        axes.legend(fontsize=8, frameon=False, ncols=columns, borderaxespad=0, **place)


def _plain(value: float, position: int | None = None) -> str:
    """1,000 instead of a power of ten."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _plain_two_or_five(value: float, position: int | None = None) -> str:
    return _plain(value) if f"{value:e}"[0] in "25" else ""
