"""Messages on the way, drawn: how long one takes, how many come through, and a burst that is worked off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benches.messaging.part import Part
from flightlog.tools.bench.machine.machine import Machine
from flightlog.tools.bench.telling.plots import drawing


def draw(parts: Sequence[Part], machine: Machine, path: Path) -> None:
    """A picture for each part that has one."""
    drawn = [part for part in parts if part.name in PICTURES]
    count = max(len(drawn), 1)
    with drawing(path, machine, 1, count, figsize=(5.5 * count, 4.5)) as axes:
        for place, part in zip(axes[0], drawn, strict=False):
            PICTURES[part.name](place, part)
            place.grid(alpha=0.3)
            place.spines[["top", "right"]].set_visible(False)
            place.set_title(part.title, loc="left", fontsize=9)


def _shares(axes: Any, part: Part) -> None:
    """How many come no later than."""
    for label, ms in part.series.items():
        axes.step(ms, 100 * np.arange(1, len(ms) + 1) / len(ms), where="post", label=label)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, position: f"{value:g}")
    axes.set_xlabel("ms, logarithmic")
    axes.set_ylabel("% of the messages, no later than")
    if part.series:
        axes.legend(frameon=False, loc="lower right")


def _throughputs(axes: Any, part: Part) -> None:
    for label, points in part.series.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, position: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, position: f"{value:,.0f}")
    axes.set_xlabel("consumers")
    axes.set_ylabel("messages a second")
    axes.set_ylim(0, 1.4 * axes.get_ylim()[1])  # the words stand above the lines
    if part.series:
        axes.legend(frameon=False, loc="upper right")


def _backlog(axes: Any, part: Part) -> None:
    for points in part.series.values():
        axes.plot(*zip(*points, strict=True))
    axes.yaxis.set_major_formatter(lambda value, position: f"{value:,.0f}")
    axes.set_xlabel("s since the burst began")
    axes.set_ylabel("messages behind")
    axes.set_ylim(bottom=0)


PICTURES: dict[str, Callable[[Any, Part], None]] = {
    "latency": _shares,
    "throughput": _throughputs,
    "burst": _backlog,
    "pulls": _shares,
}
