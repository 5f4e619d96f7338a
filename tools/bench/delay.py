"""`flightlog bench delay`: how late messages with a delay level come, and what a store costs that waits.

Messages are put evenly spaced, so they fall due evenly spaced. Lateness is from the time that a message was due, its
store time when it was parked and the level's delay, to the store time of its delivery; under sync flush one sync for
the whole batch follows.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...engine.message_store import MessageStore, open_store
from ...store.errors import UsageError
from ...store.message import Message
from ...store.settings import FlushMode, StoreSettings
from ..bar import Bar
from ..output import Column, Output
from ..words import figure_text
from .machine import Machine, this_machine
from .plots import SETTINGS, check_plot
from .saving import check_files, save_json

RATES = 1_000, 10_000
"""Messages that fall due a second."""
SECONDS, QUICK_SECONDS = 10.0, 0.5
IDLE_SECONDS, QUICK_IDLE_SECONDS = 5.0, 0.5
BODY_SIZE = 100
TICKS_A_SECOND = 100
"""Puts of many a second: as evenly as a thread is woken."""
LEVELS = "1s 2h"
DELAY_MS = 1000
WAITING = 1000
"""Messages of the second level that the waiting store has."""
LIMIT_S = 120.0
"""How long deliveries may take after the last one is due; beyond it, the figure would mean nothing."""
PERCENTILES = 50, 90, 99, 99.9, 100


@dataclass(frozen=True)
class DelayOptions:
    """What the command line says."""

    rates: Sequence[int] = RATES
    seconds: float | None = None
    quick: bool = False
    folder: Path | None = None
    as_json: bool = False
    save: Path | None = None
    plot: Path | None = None


@dataclass(frozen=True)
class Lateness:
    """One rate in one flush mode."""

    rate: int
    mode: str
    messages: int
    put_seconds: float
    """How long the puts took: more than was asked for where the machine could not keep up."""
    late_ms: np.ndarray
    """Of each message, in the order of delivery."""
    cpu_seconds: float
    """Of the whole process, puts included, until the last delivery."""

    def as_object(self) -> dict[str, Any]:
        told = {f"p{p:g}_ms" if p < 100 else "max_ms": float(np.percentile(self.late_ms, p)) for p in PERCENTILES}
        figures = {name: value for name, value in asdict(self).items() if name != "late_ms"}
        return figures | told


@dataclass(frozen=True)
class Idle:
    """A store that nothing happens to."""

    waiting: int
    seconds: float
    cpu_seconds: float


def run(options: DelayOptions) -> int:
    """Measure and print. Raises UsageError for wrong options, before anything is written."""
    seconds = options.seconds if options.seconds is not None else QUICK_SECONDS if options.quick else SECONDS
    for rate in options.rates:
        if rate < TICKS_A_SECOND:
            raise UsageError(f"--rate {rate}: expected at least {TICKS_A_SECOND}")
    if seconds <= 0:
        raise UsageError(f"--seconds {seconds:g}: expected more than 0")
    if options.folder is not None and not options.folder.is_dir():
        raise UsageError(f"--folder {options.folder}: no such folder")
    check_files({"--save": options.save})
    if options.plot is not None:
        check_plot(options.plot)
    folder = Path(tempfile.mkdtemp(prefix="flightlog-bench-", dir=options.folder))
    try:
        machine = this_machine(folder)
        print(machine, file=sys.stderr, flush=True)
        loads = [(rate, mode) for rate in options.rates for mode in FlushMode]
        with Bar("measuring", len(loads) + 2) as bar:
            found: list[Lateness] = []
            for rate, mode in loads:
                found.append(measure(folder / f"{rate}-{mode.name}", rate, seconds, mode))
                bar.done += 1
            idle: list[Idle] = []
            for waiting in (0, WAITING):
                idle_s = QUICK_IDLE_SECONDS if options.quick else IDLE_SECONDS
                idle.append(measure_idle(folder / f"idle-{waiting}", waiting, idle_s))
                bar.done += 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    told = {
        "machine": asdict(machine),
        "lateness": [each.as_object() for each in found],
        "idle": [asdict(each) for each in idle],
    }
    if options.save is not None:
        save_json(options.save, told)
    if options.plot is not None:
        draw(found, machine, options.plot)
    if options.as_json:
        print(json.dumps(told, indent=2))
    else:
        show(found, idle, Output())
    return 0


def measure(folder: Path, rate: int, seconds: float, mode: FlushMode) -> Lateness:
    """Put for so many seconds, and wait until all of it is delivered."""
    settings = StoreSettings(delay_levels=LEVELS, flush_mode=mode, segment_size=256 << 20, key_index=False)
    each, count = rate // TICKS_A_SECOND, max(int(rate * seconds), 1)
    body, due_ms = bytes(BODY_SIZE - 8), np.zeros(count, np.int64)
    with open_store(folder, settings) as store:
        cpu_s, began_s, done = time.process_time(), time.perf_counter(), 0
        while done < count:
            made = [
                Message("bench", number.to_bytes(8, "big") + body, delay_level=1)
                for number in range(done, min(done + each, count))
            ]
            results = store.put_many(made)
            due_ms[done : done + len(made)] = [result.store_timestamp_ms + DELAY_MS for result in results]
            done += len(made)
            time.sleep(max(began_s + done / rate - time.perf_counter(), 0))
        put_seconds = time.perf_counter() - began_s
        await_deliveries(store)
        cpu_s = time.process_time() - cpu_s
        late_ms = np.zeros(count, np.int64)
        for place, message in enumerate(store.read("bench")):
            late_ms[place] = message.store_timestamp_ms - due_ms[int.from_bytes(message.body[:8], "big")]
        if place + 1 != count or late_ms.min() < 0:
            raise AssertionError(f"{count} messages were put, {place + 1} delivered, the first {late_ms.min()} ms late")
    return Lateness(rate, mode.name.lower(), count, put_seconds, late_ms, cpu_s)


def await_deliveries(store: MessageStore) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while pending := store.statistics().delays[0].pending:
        if time.monotonic() > deadline_s:
            raise UsageError(f"{pending} messages are not delivered after {LIMIT_S:g} s: try a lower --rate")
        time.sleep(0.02)


def measure_idle(folder: Path, waiting: int, seconds: float) -> Idle:
    """What the process takes while a store is open, and all that waits is due in two hours."""
    with open_store(folder, StoreSettings.small(delay_levels=LEVELS)) as store:
        store.put_many([Message("bench", bytes(BODY_SIZE), delay_level=2) for _ in range(waiting)])
        store.flush()
        time.sleep(2.0)  # its last rounds of flushing
        cpu_s = time.process_time()
        time.sleep(seconds)
        return Idle(waiting, seconds, time.process_time() - cpu_s)


def show(found: Sequence[Lateness], idle: Sequence[Idle], output: Output) -> None:
    columns = [Column("due a second"), Column("flush"), Column("messages", True), Column("put in s", True)]
    columns += [Column("max" if p == 100 else f"p{p:g}", True) for p in PERCENTILES] + [Column("CPU of it", True)]
    rows = []
    for one in found:
        late = [f"{np.percentile(one.late_ms, p):.0f}" for p in PERCENTILES]
        share = one.cpu_seconds / (one.put_seconds + DELAY_MS / 1000)
        rows.append([f"{one.rate:,}", one.mode, f"{one.messages:,}", f"{one.put_seconds:.1f}", *late, f"{share:.0%}"])
    output.table("Delay levels: how late messages come, ms", columns, rows)
    rows = [[f"{one.waiting:,}", figure_text(1e3 * one.cpu_seconds / one.seconds)] for one in idle]
    output.table("An idle store", [Column("messages that wait", True), Column("CPU, ms a second", True)], rows)


def draw(found: Sequence[Lateness], machine: Machine, path: Path) -> None:
    """How many messages come no later than."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context(SETTINGS):
        drawing, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
        for one in found:
            late = np.sort(one.late_ms)
            share = np.arange(1, len(late) + 1) / len(late)
            style = "-" if one.mode == FlushMode.ASYNC.name.lower() else "--"
            axes.step(late, 100 * share, style, where="post", label=f"{one.rate:,} due a second, {one.mode} flush")
        axes.set_xlabel("ms late")
        axes.set_ylabel("% of the messages")
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="lower right")
        axes.set_title("Delay levels: no later than", loc="left")
        drawing.supxlabel(str(machine), x=0.01, ha="left", fontsize=8, color="#555555")
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
        drawing.savefig(path, dpi=110, metadata=metadata)
        pyplot.close(drawing)
