"""Custom loads as cases of the bench. Each reports its own figures, in a table for each task."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from flightlog.store.errors import UsageError
from flightlog.tools.bench import report
from flightlog.tools.bench.case import Case, Draw, Sample, Work
from flightlog.tools.bench.harness import Options, begun, choose, finish, measure_with_bar
from flightlog.tools.bench.machine.scratch import check_room
from flightlog.tools.words import size_text

LIMIT_S = 120.0
"""Time limit of a load; figures of a longer one would be meaningless."""
BODY_SIZE, STAMP_SIZE = 100, 8


@dataclass(frozen=True, kw_only=True)
class BenchOptions(Options):
    """The options of the project's own benchmarks beside those of `flightlog bench`. Each command takes some."""

    readers: int = 16
    rates: Sequence[int] = ()
    """Messages that become due per second."""
    pending: int | None = None
    """Timers."""
    sync_size: float | None = None
    """Size for a `make targets` run with one thread of sync puts (MB), as `size` is for its other runs."""
    full: bool = False


def load(who: str, task: str, measure: Callable[[Path], Sample], draw: Draw | None = None) -> Case:
    """A case that takes its own measurements, in an empty folder."""

    @contextmanager
    def prepare(case: Case, folder: Path) -> Iterator[Work]:
        with TemporaryDirectory(dir=folder) as place:
            yield lambda stamps: measure(Path(place))

    return Case(who, task, BODY_SIZE, has_figures=True, draw=draw, prepare=prepare)


def run_loads(
    parts: Mapping[str, Sequence[Case]], options: Options, *, room: int = 0, notes: Sequence[str] = ()
) -> int:
    """Measure the parts that the options name, and print. Returns the exit code. Raises UsageError, before anything is
    written, for wrong options and if the disk has less than `room` bytes free."""
    cases = [case for name in choose(options.only, list(parts)) for case in parts[name]]
    with begun(options) as (folder, machine):
        report.say(f"{len(cases)} loads, writing up to {size_text(room)} below {folder.parent}")
        check_room(folder, room)
        outcomes = measure_with_bar(cases, options.rounds or 1, folder)
    return finish(options, machine, outcomes, notes=notes)


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
