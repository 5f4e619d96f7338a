"""Custom loads as cases of the bench. Each returns its own figures; they are printed as a table for each task."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from flightlog.store.errors import UsageError
from flightlog.tools.bench import plot, report
from flightlog.tools.bench.case import Case, Outcome, Sample, Work
from flightlog.tools.bench.harness import Options, begun, choose, finish, measure_with_bar
from flightlog.tools.bench.machine.machine import Machine
from flightlog.tools.bench.machine.scratch import check_room
from flightlog.tools.output import Output
from flightlog.tools.words import size_text

LIMIT_S = 120.0
"""Time limit of a load; figures of a longer one would be meaningless."""
BODY_SIZE, STAMP_SIZE = 100, 8
PANEL_SIZE = 6.0, 5.2
"""The size of a plot in inches."""
DrawPart = Callable[[Any, Mapping[str, Sequence[Any]]], None]
"""(axes, series by who) -> drawn."""


def load(who: str, task: str, measure: Callable[[Path], Sample], **fields: Any) -> Case:
    """A case that takes its own measurements, in an empty folder; `fields` are fields of Case."""

    @contextmanager
    def prepare(case: Case, folder: Path) -> Iterator[Work]:
        with TemporaryDirectory(dir=folder) as place:
            yield lambda stamps: measure(Path(place))

    return Case(who, task, BODY_SIZE, prepare=prepare, **fields)


def run_loads(
    parts: Mapping[str, Sequence[Case]],
    options: Options,
    draws: Mapping[str, DrawPart],
    *,
    room: int = 0,
    notes: Sequence[str] = (),
) -> int:
    """Measure the parts that the options name, and print. Returns the exit code. Raises UsageError, before anything is
    written, for wrong options and if the disk has less than `room` bytes free."""
    wanted = choose(options.only, list(parts))
    cases = [case for name in wanted for case in parts[name]]
    with begun(options) as (folder, machine):
        report.say(f"{len(cases)} loads, writing up to {size_text(room)} below {folder.parent}")
        check_room(folder, room)
        outcomes = measure_with_bar(cases, options.rounds or 1, folder)

    def draw(outcomes: Sequence[Outcome], machine: Machine, path: Path) -> None:
        drawn = [name for name in wanted if name in draws]
        width, height = PANEL_SIZE
        with plot.drawing(path, machine, 1, len(drawn) or 1, figsize=(width * len(drawn) or width, height)) as axes:
            for place, name in zip(axes[0], drawn, strict=False):
                here = [o for o in outcomes if o.case in parts[name]]
                draws[name](place, {o.case.who: o.rounds[0].series for o in here})
                place.set_title(here[0].case.task, loc="left", fontsize=9)

    def show(output: Output) -> None:
        show_loads(outcomes, output)
        for note in notes:
            output.line(note)

    return finish(options, machine, outcomes, show, draw)


def show_loads(outcomes: Sequence[Outcome], output: Output) -> None:
    """Print a table for each task, with the medians of all rounds."""
    for task in dict.fromkeys(outcome.case.task for outcome in outcomes):
        here = [outcome for outcome in outcomes if outcome.case.task == task]
        report.show_rows(task, {"": lambda o: o.case.who}, here, report.figure_columns(here), output)


def percentiles(
    values: Sequence[float] | np.ndarray, unit: str, which: Sequence[float] = (50, 99, 100)
) -> dict[str, float]:
    """Percentiles by name and unit, such as `p99 ms` and `max ms`."""
    found = np.percentile(values, which).tolist()
    return {f"p{p:g} {unit}" if p < 100 else f"max {unit}": value for p, value in zip(which, found, strict=True)}


def body_of(number: int) -> bytes:
    """A body that contains this number."""
    return number.to_bytes(STAMP_SIZE, "big") + bytes(BODY_SIZE - STAMP_SIZE)


def number_of(body: bytes) -> int:
    return int.from_bytes(body[:STAMP_SIZE], "big")


def stamped() -> bytes:
    """A body that contains the current time."""
    return body_of(time.perf_counter_ns())


def pace(count: int, rate: float, work: Callable[[], object]) -> None:
    """Call a function at a fixed rate; a late call does not delay the schedule of the next ones."""
    began_s = time.perf_counter()
    for number in range(count):
        time.sleep(max(began_s + number / rate - time.perf_counter(), 0))
        work()


def await_all(is_done: Callable[[], bool] | threading.Event, what: Callable[[], str]) -> None:
    """Wait until a condition holds. Raises UsageError after LIMIT_S."""
    deadline_s = time.monotonic() + LIMIT_S
    while not (is_done.wait(0.02) if isinstance(is_done, threading.Event) else is_done()):
        if time.monotonic() > deadline_s:
            raise UsageError(f"{what()} after {LIMIT_S:g} s: this machine is too slow or too busy to measure it")
        if not isinstance(is_done, threading.Event):
            time.sleep(0.02)
