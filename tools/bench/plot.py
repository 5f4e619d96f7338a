"""Plots of outcomes: throughput by mode, and latency of a call.

A writer has the same colour in both. References are drawn as lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..words import figure_text
from .case import FILE, FRESH_PAGES, MEMCPY, NOTHING, OWN, PLAIN, PLAIN_COLD, PURE, RAW_LOOP, REFERENCES, Outcome
from .machine.machine import Machine

SUFFIXES = (".png", ".svg", ".pdf")
OWN_COLOURS = {OWN: "#1769aa", PURE: "#7fb2d9", NOTHING: "#9a9a9a"}
PEER_COLOURS = ("#c77d2e", "#5b8c3a", "#9b4f96", "#b5493f", "#4f9a94", "#8a6d3b", "#6b6b6b", "#d19a9a")
REFERENCE_COLOUR = "#404040"
LINE_STYLES = {MEMCPY: "-", FRESH_PAGES: "--", FILE: ":", RAW_LOOP: "-", PLAIN: "-", PLAIN_COLD: "--"}
NINES = np.array([0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999])
CURVES_MAX = 10
"""More lines cannot be told apart."""
BAR_HEIGHT_INCHES = 0.27
LEGEND_BELOW_INCHES = 0.5
WIDE_RANGE = 50
LABEL_BOX = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
"""Keeps reference lines from crossing a number."""
SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "flightlog", "font.size": 9}
"""Output is reproducible, and text stays text."""


@contextmanager
def drawing(path: Path, machine: Machine, rows: int, columns: int, **options: Any) -> Iterator[Any]:
    """Yield the panels of a figure, an array of rows and columns; write it to `path` when the block ends."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context(SETTINGS):
        figure, panels = pyplot.subplots(rows, columns, squeeze=False, layout="constrained", **options)
        yield panels
        figure.supxlabel(str(machine), x=0.01, ha="left", fontsize=8, color="#555555")
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
        figure.savefig(path, dpi=110, metadata=metadata)
        pyplot.close(figure)


def draw(outcomes: Sequence[Outcome], machine: Machine, path: Path) -> None:
    """Draw one figure with a row for each body size."""
    sizes = sorted({outcome.case.body_size for outcome in outcomes})
    bars = max(sum(outcome.case.body_size == size for outcome in outcomes) for size in sizes)
    height = max(4.5, 2.0 + BAR_HEIGHT_INCHES * bars)
    colours = _colours(outcomes)
    wide = any(outcome.latencies_ns for outcome in outcomes)
    options = {"figsize": (15 if wide else 9, height * len(sizes)), "width_ratios": (3, 2)[: 1 + wide]}
    with drawing(path, machine, len(sizes), 1 + wide, **options) as panels:
        for row, size in zip(panels, sizes, strict=True):
            here = [outcome for outcome in outcomes if outcome.case.body_size == size]
            _throughput(row[0], here, colours)
            row[0].set_title(f"Throughput until drained, bodies of {size:,} bytes", loc="left")
            if wide:
                _latencies(row[1], here, colours)
                row[1].set_title(f"Time of one call, bodies of {size:,} bytes", loc="left")


def _colours(outcomes: Sequence[Outcome]) -> dict[str, str]:
    writers = dict.fromkeys(o.case.who for o in outcomes if o.case.who not in (*OWN_COLOURS, *REFERENCES))
    return OWN_COLOURS | {name: PEER_COLOURS[i % len(PEER_COLOURS)] for i, name in enumerate(writers)}


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
        labels |= {i: f"{o.case.who}: {o.case.mode}" for i, o in zip(rows, own, strict=True)}
        rates += here
        for outcome in outcomes if own else ():
            if outcome.case.sync == is_sync and outcome.case.who in LINE_STYLES:
                rate = 1 / outcome.per_message_s
                style = "--" if is_sync and outcome.case.batch > 1 else LINE_STYLES[outcome.case.who]
                label = f"{outcome.case.who}: {outcome.case.mode} ({figure_text(rate)})"
                colour = "#b03030" if is_sync else REFERENCE_COLOUR
                axes.vlines(rate, row - 0.5, row + len(own) - 0.5, colour, style, linewidth=1.3, label=label, zorder=3)
                rates.append(rate)
        row += len(own) + bool(own)
    axes.set_yticks(list(labels), list(labels.values()), fontsize=8)
    axes.set_ylim(-0.7, row - 1.3)
    axes.set_xscale("log")
    axes.set_xlim(min(rates) / 2, max(rates) * 4)
    _plain_numbers(axes.xaxis, axes.get_xlim())
    axes.set_xlabel("messages per second, logarithmic")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        _legend_below(axes)


def _latencies(axes: Any, outcomes: Sequence[Outcome], colours: dict[str, str]) -> None:
    hidden = {name for name in REFERENCES if name != NOTHING}
    drawn = [o for o in outcomes if o.case.who not in hidden and o.case.batch == 1 and o.latencies_ns]
    drawn.sort(key=lambda o: (o.case.who != OWN, o.case.sync, o.case.who, o.case.threads))
    most = 1000
    for outcome in drawn[:CURVES_MAX]:
        latencies_ns = np.concatenate(outcome.latencies_ns)
        most = max(most, len(latencies_ns))
        known = NINES[1 - 1 / len(latencies_ns) >= NINES]  # no percentile beyond the resolution of this many calls
        style = ":" if outcome.case.threads > 1 else "--" if outcome.case.sync else "-"
        marker = "os^Dv"[min(outcome.case.threads.bit_length() // 2, 4)]
        label = f"{outcome.case.who}: {outcome.case.mode}"
        times_us = np.quantile(latencies_ns, known) / 1e3
        colour = colours[outcome.case.who]
        axes.plot(-np.log10(1 - known), times_us, style, color=colour, marker=marker, markersize=4, label=label)
    axes.set_xticks(-np.log10(1 - NINES), [f"{100 * part:g} %" for part in NINES])
    axes.set_xlim(0.2, max(np.log10(most), 1.2) + 0.1)  # else a marker would be cut in half
    axes.set_xlabel("of the calls take no longer than")
    axes.set_ylabel("µs, logarithmic")
    axes.set_yscale("log")
    _plain_numbers(axes.yaxis, axes.get_ylim())
    _open(axes)
    if drawn:
        _legend_below(axes)


def shares(axes: Any, series: Mapping[str, Sequence[float]], label: str, *, is_log: bool) -> None:
    """Draw the cumulative share of ascending values; each further nine gets the same room."""
    for name, values in series.items():
        above = 1 - np.arange(len(values)) / len(values)
        axes.plot([*values, values[-1]], [*above, above[-1]], label=name)
    parts = NINES[:5]
    axes.set_yscale("log")
    axes.set_ylim(1.0, 1 - parts[-1])
    axes.set_yticks(1 - parts, [f"{100 * part:g} %" for part in parts], minor=False)
    axes.minorticks_off()
    axes.set_ylabel("of the messages, no later than")
    if is_log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_plain)
    else:
        axes.set_xlim(left=0)
    axes.set_xlabel(label)
    _open(axes)
    _legend_below(axes)


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
    axes.yaxis.set_major_formatter(_plain)
    axes.set_xlabel(label)
    axes.set_ylabel(height)
    _open(axes)
    _legend_below(axes)


def _open(axes: Any) -> None:
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _legend_below(axes: Any) -> None:
    """Place the legend below the axis label, at a fixed distance."""
    from matplotlib.transforms import ScaledTranslation

    below = axes.transAxes + ScaledTranslation(0, -LEGEND_BELOW_INCHES, axes.figure.dpi_scale_trans)
    place = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": below}
    axes.legend(fontsize=8, frameon=False, ncols=2, borderaxespad=0, **place)


def _plain_numbers(axis: Any, limits: tuple[float, float]) -> None:
    """Label ticks with plain numbers; also at twos and fives if the range has few powers of ten."""
    axis.set_major_formatter(_plain)
    axis.set_minor_formatter(_plain_two_or_five if limits[1] < WIDE_RANGE * limits[0] else "")


def _plain(value: float, position: int | None = None) -> str:
    """1,000 instead of a power of ten."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _plain_two_or_five(value: float, position: int | None = None) -> str:
    return _plain(value) if f"{value:e}"[0] in "25" else ""
