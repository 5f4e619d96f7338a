"""A plot of lateness: what part of the messages came no later than so many milliseconds, a panel for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benches.delay.lateness import LEVEL, TIMER, Lateness
from flightlog.store.settings import FlushMode
from flightlog.tools.bench.machine.machine import Machine
from flightlog.tools.bench.telling.plots import LABEL_BOX, OWN_COLOURS, PEER_COLOURS, drawing
from flightlog.tools.bench.writers import OWN
from flightlog.tools.words import figure_text

TITLES = {LEVEL: "Delay levels", TIMER: "Timers, from their whole second on"}
COLOURS = OWN_COLOURS[OWN], *PEER_COLOURS
STYLES = {FlushMode.ASYNC.name.lower(): "-", FlushMode.SYNC.name.lower(): (0, (4, 1.5))}
SHARES = 0.5, 0.9, 0.99, 0.999, 0.9999
"""Of the messages; each gets as much room as the one before."""


def draw(found: Sequence[Lateness], machine: Machine, target_ms: float, path: Path) -> None:
    """One figure. A rate has one colour, a flush mode one style; the target is that of delay levels."""
    kinds = list(dict.fromkeys(one.kind for one in found))
    rates = sorted({one.rate for one in found})
    with drawing(path, machine, 1, len(kinds), figsize=(1.0 + 6.0 * len(kinds), 5.2), sharey=True) as panels:
        for kind, axes in zip(kinds, panels[0], strict=True):
            for one in (one for one in found if one.kind == kind):
                late = np.sort(one.late_ms)
                above = 1 - np.arange(len(late)) / len(late)  # the part that comes as late as this, or later
                axes.plot(
                    *(np.append(late, late[-1]), np.append(above, above[-1])),
                    linestyle=STYLES[one.mode],
                    linewidth=1.6,
                    color=COLOURS[rates.index(one.rate) % len(COLOURS)],
                    label=f"{one.rate:,} a second, {one.mode} flush: p99 {figure_text(one.percentile(99))} ms",
                )
            if kind == LEVEL:
                axes.axvline(target_ms, color="#404040", linewidth=0.9, linestyle=":")
                axes.annotate(
                    f"the target of p99: {target_ms:g} ms",
                    xy=(target_ms, 1.0),
                    xycoords=axes.get_xaxis_transform(),
                    xytext=(4, -4),
                    textcoords="offset points",
                    fontsize=8,
                    color="#404040",
                    va="top",
                    bbox=LABEL_BOX,
                )
            axes.set_title(TITLES[kind], loc="left", fontweight="bold")
            axes.set_yscale("log")
            axes.set_ylim(1.0, 1 - SHARES[-1])
            axes.set_yticks([1 - share for share in SHARES], [f"{100 * share:g} %" for share in SHARES], minor=False)
            axes.minorticks_off()
            axes.set_xlim(left=0)
            axes.set_xlabel("ms late")
            axes.grid(alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.13), fontsize=8, ncols=2)
        panels[0][0].set_ylabel("messages that came no later")
