"""Measures the figures of the targets; each ratio is of two measurements in the same round."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from flightlog.benches import readers
from flightlog.benches.targets.figures import (
    AS_PLANNED,
    BY_SIZE,
    BY_SYNC_SIZE,
    BY_TIME,
    KB,
    SCAN_TARGETS,
    Contest,
    Figure,
)
from flightlog.benches.targets.lines import Line
from flightlog.tools.bench import runner
from flightlog.tools.bench import scan_run as scan
from flightlog.tools.bench.case import NOTHING, OWN, RAW_LOOP, Case, Outcome
from flightlog.tools.bench.drive import drive, no_collection
from flightlog.tools.bench.harness import Options
from flightlog.tools.bench.machine import device
from flightlog.tools.bench.messages import make_rows, record_size
from flightlog.tools.bench.plan import subject_cases
from flightlog.tools.bench.reads.reads import QUERY
from flightlog.tools.bench.writers import begin, first_calls, opened, put_case
from flightlog.tools.words import figure_text

RATE = 200_000
QUERY_COUNT = 50_000
THREADS_MORE = 4
"""Concurrent sync puts write this many times the bytes of a single thread's; they are faster by more than that."""
PACE, SHARE = 0.98, 0.5


@dataclass(frozen=True)
class Sizes:
    """The amounts to measure. Sizes in bytes."""

    size: int
    """Record bytes of one run."""
    sync_size: int
    """Record bytes of one run with a single thread of sync puts."""
    sync_fill_size: int
    """Record bytes in the store before such a run."""
    recovery_size: int
    device_step_size: int
    device_steps: int
    peer_s: float
    """Approximate duration of one run of a peer."""
    reader_s: float
    """Duration of each of the three parts of a readers round."""
    rounds: int
    scan_mib: int
    readers: int = 16

    @property
    def messages(self) -> int:
        """The number of messages whose records take `size` bytes."""
        return self.size // record_size(KB)


@dataclass
class Measures:
    """Measures in one folder, and keeps the samples in addition to the lines."""

    folder: Path
    sizes: Sizes
    done: Callable[[], None]
    """Called after each run."""
    outcomes: list[Outcome] = field(default_factory=list)

    def contest(self, contest: Contest) -> list[Line]:
        """Measure a contest. In each round, all of its cases run once."""
        with TemporaryDirectory(dir=self.folder) as place:
            found = self._measured([self._sized(contest, case) for case in contest.cases()], Path(place))
        by_case = {outcome.case: outcome for outcome in found}
        return [line_of(figure, by_case) for figure in contest.figures]

    def _measured(self, cases: Sequence[Case], folder: Path | None = None) -> list[Outcome]:
        """Samples of all rounds. A warm-up round of a twentieth of the size is not counted."""
        folder = folder or self.folder
        runner.warm(cases, folder)
        found = runner.measure(cases, self.sizes.rounds, folder, self.done)
        self.outcomes += found
        return found

    def _sized(self, contest: Contest, case: Case) -> Case:
        if contest.fill == AS_PLANNED:
            return case
        if contest.fill == BY_TIME:
            return runner.try_out(case, lambda case: runner.run(case, self.folder)).timed(self.sizes.peer_s)
        size = self.sizes.size
        if contest.fill == BY_SYNC_SIZE:
            size = self.sizes.sync_size * (THREADS_MORE if case.threads > 1 else 1)
        calls = calls_of(case, size)
        # The same amount before the clock starts: all stores are equally full, and have preallocated for this load.
        return replace(case, calls=calls, first_calls=calls if contest.fill == BY_SIZE else None)

    def paced(self) -> list[Line]:
        """Single puts at a fixed rate, compared with the same loop without a call."""
        own, nothing = (put_case(who, body_size=KB, rate=RATE) for who in (OWN, NOTHING))
        calls = calls_of(own, self.sizes.size)
        found, idle = self._measured([replace(own, calls=calls, first_calls=calls), replace(nothing, calls=calls)])
        lines = []
        for percentile, target in ((99.0, 5.0), (99.9, 100.0)):
            alone = percentiles_us([sample.calls_ns for sample in found.rounds], percentile)
            text = f"put at {RATE:,}/s, {KB:,} B"
            lines.append(Line("paced", f"{text}, the call alone, p{percentile:g}", target, alone, "µs", at_most=True))
            values = percentiles_us([sample.latencies_ns for sample in found.rounds], percentile)
            waits = median(percentiles_us([sample.waits_ns for sample in found.rounds], percentile))
            floor = median(percentiles_us([sample.latencies_ns for sample in idle.rounds], percentile))
            note = (
                f"waits for the interpreter's lock or a core before a call, by themselves, {figure_text(waits)} µs; "
                f"the same loop with nothing to call, {figure_text(floor)} µs"
            )
            due = f"{text}, from when it was due, p{percentile:g}"
            lines.append(Line("paced", due, target, values, "µs", at_most=True, note=note))
        return lines

    def device(self) -> list[Line]:
        """Fill a store and a raw file in alternating steps; each step ends with a sync."""
        cases = [put_case(who, sync=True, body_size=KB) for who in (OWN, RAW_LOOP)]
        calls, record = calls_of(cases[0], self.sizes.device_step_size), record_size(KB)
        room = (self.sizes.device_steps * calls + first_calls(cases[0])) * record
        per_byte: list[list[float]] = [[], []]
        with ExitStack() as open_ones:
            sessions = []
            for case in cases:
                place = Path(open_ones.enter_context(TemporaryDirectory(dir=self.folder)))
                sessions.append(open_ones.enter_context(opened(place, case, room)))
                begin(sessions[-1], case)
            units = [session.units(make_rows(KB, calls)) for session in sessions]
            for _ in range(self.sizes.device_steps):
                for i, session in enumerate(sessions):
                    os.sync()
                    before = device.written_size(self.folder)
                    with no_collection():
                        drive(session.puts(), units[i], calls, rate=None, stamps=False)
                    session.drain()
                    os.sync()
                    after = device.written_size(self.folder)
                    self.done()
                    if before is None or after is None:
                        return [_device_line((), "this device does not tell what it writes")]
                    per_byte[i].append((after - before) / (calls * record))
        own, raw = (" ".join(f"{value:.2f}" for value in values) for values in per_byte)
        ratios = tuple(own_ / raw_ for own_, raw_ in zip(*per_byte, strict=True))
        step = self.sizes.device_step_size / 1e6
        return [_device_line(ratios, f"by {step:g} MB of fill: this store {own}, the raw loop {raw}")]

    def query(self) -> list[Line]:
        """The latency of a query by key, from the page cache."""
        count = min(QUERY_COUNT, self.sizes.messages)
        cases = [case for case in subject_cases(QUERY, [KB], None, messages=count) if case.who == OWN]
        with TemporaryDirectory(dir=self.folder) as place:
            [found] = self._measured(cases, Path(place))
        return [
            Line(
                *("query", f"key query, warm, p{percentile:g}", target),
                *(percentiles_us(found.latencies_ns, percentile), "µs", True),
            )
            for percentile, target in ((50.0, 10.0), (99.0, 50.0))
        ]

    def readers(self) -> list[Line]:
        """Threads and processes that read a backlog while its writer runs."""
        sizes, lines = self.sizes, []
        cases = readers.cases(sizes.readers, KB, sizes.messages, sizes.reader_s)
        for outcome in runner.measure(cases, sizes.rounds, self.folder, self.done):
            text, rounds = f"{outcome.case.who} beside a writer", [sample.figures for sample in outcome.rounds]
            shares, paces = (tuple(each[name] for each in rounds) for name in (readers.SHARE, readers.PACE))
            lines.append(Line("readers", f"{text}: the slowest, of its solo share", SHARE, shares))
            lines.append(Line("readers", f"{text}: the writer, of its pace", PACE, paces))
        return lines

    def scan(self) -> list[Line]:
        """Queries with Spark, as multiples of the time of their rivals."""
        plan = scan.make_plan(Options(size=self.sizes.scan_mib, rounds=self.sizes.rounds))
        found = scan.measure(plan, self.folder)
        self.outcomes += found
        names = {query.text: query.name for _, _, queries in plan.stores for query in queries}
        lines = []
        for own, rival in zip(found[::2], found[1::2], strict=True):
            targets, size = SCAN_TARGETS[names[own.case.task]], own.case.body_size
            target = targets[scan.BODY_SIZES.index(size) if len(targets) > 1 else 0]
            ratios = tuple(ours.each_s / theirs.each_s for ours, theirs in zip(own.rounds, rival.rounds, strict=True))
            text = f"{own.case.task}, {size:,} B, against {rival.case.who}"
            lines.append(Line("scan", text, target, ratios, at_most=True))
        return lines


def calls_of(case: Case, size: int) -> int:
    return max(size // (case.record_size * case.batch), case.threads)


def line_of(figure: Figure, outcomes: dict[Case, Outcome]) -> Line:
    """The line of a figure: in each round, its ratio to the best rival."""

    def each_s(case: Case) -> list[float]:
        rounds = outcomes[case].rounds
        return [sample.put_s / sample.count if figure.returned else sample.each_s for sample in rounds]

    rivals = [each_s(case) for case in figure.rivals]
    best = [min(times) for times in zip(*rivals, strict=True)]
    values = tuple(rival_s / own_s for rival_s, own_s in zip(best, each_s(figure.own), strict=True))
    note = ""
    if len(rivals) > 1:
        fastest = min(figure.rivals, key=lambda case: median(each_s(case)))
        note = f"the fastest of {len(rivals)} is {fastest.who}"
    return Line(figure.group, figure.text, figure.target, values, note=note)


def _device_line(ratios: tuple[float, ...], note: str) -> Line:
    text = f"device bytes per byte, sync puts, {KB:,} B, against the raw loop, at any fill"
    return Line("device", text, 1.1, ratios, at_most=True, every=True, note=note)


def percentiles_us(latencies_ns: Sequence[np.ndarray], percentile: float) -> tuple[float, ...]:
    return tuple(float(np.percentile(each, percentile)) / 1e3 for each in latencies_ns)
