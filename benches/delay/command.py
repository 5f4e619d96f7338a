"""`make delay`: how late messages with a delay level and timers come, and what a store costs that waits.

What is measured, and from when on a message is late, stands in delay_load.py.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benches.delay.lateness import (
    DELAY_MS,
    LEVEL,
    NOTHING,
    PERCENTILES,
    TICKS_A_SECOND,
    TIMER,
    Idle,
    Lateness,
    measure,
    measure_idle,
    percentile_name,
)
from benches.delay.pending_timers import BATCH, Step
from benches.delay.pending_timers import measure as measure_pending
from benches.delay.plot import draw
from flightlog.store.errors import UsageError
from flightlog.store.settings import FlushMode
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.machine.scratch import scratch_folder
from flightlog.tools.bench.telling.plots import check_plot
from flightlog.tools.bench.telling.saving import check_files, check_folder, save_csv, save_json
from flightlog.tools.output import Column, Output
from flightlog.tools.progress_bar import ProgressBar
from flightlog.tools.words import figure_text, size_text

RATES = 1_000, 10_000
"""Messages that fall due a second."""
SECONDS, QUICK_SECONDS = 10.0, 0.5
IDLE_SECONDS, QUICK_IDLE_SECONDS = 5.0, 0.5
WAITING = 1000
"""Messages that an idle store waits for."""
P99_TARGET_MS = 150.0
"""Of delay levels. (Timers have a second that they are precise to.)"""
STEPS = {"put": "put, and delivered nothing", "take": "placed on the wheel", "open": "recovered by an opening"}


@dataclass(frozen=True)
class DelayOptions:
    """What the command line says."""

    rates: Sequence[int] = RATES
    seconds: float | None = None
    pending: int | None = None
    quick: bool = False
    folder: Path | None = None
    as_json: bool = False
    save: Path | None = None
    csv: Path | None = None
    plot: Path | None = None


def run(options: DelayOptions) -> int:
    """Measure and print. Raises UsageError for wrong options, before anything is written."""
    seconds = options.seconds if options.seconds is not None else QUICK_SECONDS if options.quick else SECONDS
    _check(options, seconds)
    with scratch_folder(options.folder) as folder:
        machine = this_machine(folder)
        print(machine, file=sys.stderr, flush=True)
        loads = [(kind, rate, mode) for kind in (LEVEL, TIMER) for rate in options.rates for mode in FlushMode]
        waiting = [(NOTHING, 0), (LEVEL, WAITING), (TIMER, WAITING)]
        found: list[Lateness] = []
        idle: list[Idle] = []
        pending: list[Step] = []
        with ProgressBar("measuring", len(loads) + len(waiting) + (options.pending is not None)) as bar:
            for kind, rate, mode in loads:
                found.append(measure(folder / f"{kind}-{rate}-{mode.name}", kind, rate, seconds, mode))
                bar.done += 1
            for kind, count in waiting:
                idle_s = QUICK_IDLE_SECONDS if options.quick else IDLE_SECONDS
                idle.append(measure_idle(folder / f"idle-{kind}", kind, count, idle_s))
                bar.done += 1
            if options.pending is not None:
                pending = measure_pending(folder / "pending", options.pending)
                bar.done += 1
    rows = [one.as_object() for one in found]
    told: dict[str, Any] = {
        "machine": asdict(machine),
        "lateness": rows,
        "idle": [asdict(each) for each in idle],
        "pending": [asdict(each) for each in pending],
    }
    if options.save is not None:
        save_json(options.save, told)
    if options.csv is not None:
        save_csv(options.csv, rows, list(rows[0]))
    if options.plot is not None:
        draw(found, machine, P99_TARGET_MS, options.plot)
    if options.as_json:
        print(json.dumps(told, indent=2))
    else:
        show(found, idle, pending, Output())
    return 0


def _check(options: DelayOptions, seconds: float) -> None:
    if not options.rates:
        raise UsageError("--rate: expected one at least")
    for rate in options.rates:
        if rate < TICKS_A_SECOND:
            raise UsageError(f"--rate {rate}: expected at least {TICKS_A_SECOND}")
    if not 0 < seconds < math.inf:
        raise UsageError(f"--seconds {seconds:g}: expected a number above 0")
    if options.pending is not None and (options.pending < BATCH or options.pending % BATCH):
        raise UsageError(f"--pending {options.pending}: expected a multiple of {BATCH:,}")
    check_folder(options.folder)
    check_files({"--save": options.save, "--csv": options.csv})
    if options.plot is not None:
        check_plot(options.plot)


def show(found: Sequence[Lateness], idle: Sequence[Idle], pending: Sequence[Step], output: Output) -> None:
    columns = [Column("due a second"), Column("flush"), Column("messages", True), Column("put in s", True)]
    columns += [Column(percentile_name(p), True) for p in PERCENTILES] + [Column("CPU of it", True)]
    titles = {
        LEVEL: f"Delay levels: how late messages can be read, ms; the target of p99 is {P99_TARGET_MS:g}",
        TIMER: "Timers: the same, from the whole second on in which they are due",
    }
    for kind, title in titles.items():
        rows = []
        for one in (one for one in found if one.kind == kind):
            late = [f"{one.percentile(p):.0f}" for p in PERCENTILES]
            share = one.cpu_seconds / (one.put_seconds + DELAY_MS / 1000)
            start = [f"{one.rate:,}", one.mode, f"{one.messages:,}", f"{one.put_seconds:.1f}"]
            rows.append([*start, *late, f"{share:.0%}"])
        output.table(title, columns, rows)
    rows = []
    for each in idle:
        rates = 1e3 * each.cpu_seconds / each.seconds, each.context_switches / each.seconds
        rows.append([each.kind, f"{each.waiting:,}", *map(figure_text, rates)])
    columns = [Column("what waits"), Column("messages", True), Column("CPU, ms a second", True)]
    output.table("An idle store", [*columns, Column("context switches a second", True)], rows)
    rows = []
    for step in pending:
        sizes = step.own_memory_size, step.peak_memory_size
        rows.append([STEPS[step.step], f"{step.pending:,}", figure_text(step.seconds), *map(size_text, sizes)])
    columns = [Column("timers that wait"), Column("how many", True), Column("s", True)]
    columns += [Column("memory", True), Column("with mapped files", True)]
    output.table("Many timers", columns, rows)
