"""Measures the figures of `plan`, each ratio within one round."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benches.readers import command as readers
from benches.targets.lines import Line
from benches.targets.plan import BY_SIZE, BY_SYNC_SIZE, BY_TIME, KB, RATE, CaseFigure, WriterFigure
from benches.targets.plan import Contest as Plan
from flightlog.tools.bench.cases import runner
from flightlog.tools.bench.cases.case import Case
from flightlog.tools.bench.cases.plan import make_cases
from flightlog.tools.bench.cases.rocketmq_cases import RIVALS, rocketmq_cases
from flightlog.tools.bench.cases.workloads import record_size
from flightlog.tools.bench.loads.drive import drive, no_collection
from flightlog.tools.bench.loads.load import Load, Outcome
from flightlog.tools.bench.loads.rows import make_rows
from flightlog.tools.bench.machine import device
from flightlog.tools.bench.rocketmq import RocketmqProcess
from flightlog.tools.bench.versus.contest import Contest, begin, first_calls
from flightlog.tools.bench.versus.trial import Entry
from flightlog.tools.bench.writers import NOTHING, OWN, RAW_LOOP, opened
from flightlog.tools.words import figure_text

WARM_PART = 20
"""Everybody's first round is a twentieth of the others, and not counted."""
QUERY_COUNT = 50_000
THREADS_MORE = 4
"""Puts of many threads at once fill so many times as much as those of one: they are quicker by more than that."""
PACE = 0.98
SHARE = 0.5


@dataclass(frozen=True)
class Sizes:
    """How much is measured. Sizes in bytes."""

    size: int
    """Of the records of one run."""
    sync_size: int
    """The same of one thread whose puts wait for their sync."""
    sync_fill_size: int
    """What is in the stores of these before."""
    recovery_size: int
    device_step_size: int
    device_steps: int
    peer_s: float
    """How long one run of a peer takes, about."""
    reader_s: float
    """Each of the three parts of a round of readers."""
    rounds: int
    readers: int = 16


@dataclass
class Measures:
    """Measures in one folder, and keeps what was measured beside the lines."""

    folder: Path
    rocketmq: RocketmqProcess | None
    sizes: Sizes
    done: Callable[[], None]
    """Called after every run."""
    outcomes: list[Outcome] = field(default_factory=list)

    def writers(self, plan: Plan) -> list[Line]:
        """The loads of a contest, which take turns."""
        contest = Contest(self.folder, self.rocketmq)
        entries = [self._entry(contest, plan, load) for load in plan.loads()]
        found = contest.measure(entries, self.sizes.rounds, self.done, stamped=False)
        self.outcomes += found
        by_load = {outcome.load: outcome for outcome in found}
        return [_writer_line(figure, by_load) for figure in plan.figures]

    def _entry(self, contest: Contest, plan: Plan, load: Load) -> Entry:
        if plan.fill == BY_TIME:
            return contest.try_out(load).entry(self.sizes.peer_s)
        size = self.sizes.size
        if plan.fill == BY_SYNC_SIZE:
            size = self.sizes.sync_size * (THREADS_MORE if load.threads > 1 else 1)
        calls = _calls(load, size)
        contest.run(load, max(calls // WARM_PART, load.threads))
        # As much before the clock starts: every store is as full, and knows what a burst of this load takes.
        return Entry(load, calls, first_calls=calls if plan.fill == BY_SIZE else None)

    def paced(self) -> list[Line]:
        """Single puts at a fixed rate, beside the same loop with nothing to call."""
        contest = Contest(self.folder)
        own, nothing = Load(OWN, False, KB, rate=RATE), Load(NOTHING, False, KB, rate=RATE)
        calls = _calls(own, self.sizes.size)
        contest.run(own, max(calls // WARM_PART, 1))
        entries = [Entry(own, calls, first_calls=calls), Entry(nothing, calls)]
        found, idle = contest.measure(entries, self.sizes.rounds, self.done, stamped=False)
        self.outcomes += found, idle
        lines = []
        for percentile, target in ((99.0, 5.0), (99.9, 100.0)):
            alone = _percentiles_us([round_.calls_ns for round_ in found.rounds], percentile)
            text = f"put at {RATE:,}/s, {KB:,} B, the call alone, p{percentile:g}"
            lines.append(Line("paced", text, target, alone, "µs", at_most=True))
            values = _percentiles_us([round_.latencies_ns for round_ in found.rounds], percentile)
            waits = median(_percentiles_us([round_.waits_ns for round_ in found.rounds], percentile))
            floor = median(_percentiles_us([round_.latencies_ns for round_ in idle.rounds], percentile))
            note = (
                f"waits for the interpreter's lock or a core before a call, by themselves, {figure_text(waits)} µs; "
                f"the same loop with nothing to call, {figure_text(floor)} µs"
            )
            text = f"put at {RATE:,}/s, {KB:,} B, from when it was due, p{percentile:g}"
            lines.append(Line("paced", text, target, values, "µs", at_most=True, note=note))
        return lines

    def device(self) -> list[Line]:
        """Two stores that fill up by turns, one of them a raw loop; each step is synced to its end."""
        loads = Load(OWN, True, KB), Load(RAW_LOOP, True, KB)
        calls, record = _calls(loads[0], self.sizes.device_step_size), record_size(KB)
        room = (self.sizes.device_steps * calls + first_calls(loads[0])) * record
        per_byte: list[list[float]] = [[], []]
        with self._place() as first, self._place() as second, ExitStack() as open_ones:
            own, raw = (
                open_ones.enter_context(opened(place, load, room))
                for place, load in zip((first, second), loads, strict=True)
            )
            for session, load in zip((own, raw), loads, strict=True):
                begin(session, load)
            units = [session.units(make_rows(KB, calls)) for session in (own, raw)]
            for _ in range(self.sizes.device_steps):
                for i, session in enumerate((own, raw)):
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
        told = [" ".join(f"{value:.2f}" for value in values) for values in per_byte]
        ratios = tuple(own_ / raw_ for own_, raw_ in zip(*per_byte, strict=True))
        step = self.sizes.device_step_size / 1e6
        return [_device_line(ratios, f"by {step:g} MB of fill: this store {told[0]}, the raw loop {told[1]}")]

    def cases(self, subject: str, figures: Sequence[CaseFigure]) -> list[Line]:
        """The cases of a subject, which take turns."""
        size = self.sizes.recovery_size if subject == "recover" else self.sizes.size
        names = {name for figure in figures for name in (figure.own, *figure.rivals)}
        results = self._measured(subject, names, size // record_size(KB))
        lines = []
        for figure in figures:
            own = results.get(figure.own)
            if own is None:
                note = "needs pyarrow; pip install 'flightlog[arrow]'"
                lines.append(Line(figure.group, figure.text, figure.target, note=note))
                continue
            rivals = [results[name].seconds for name in figure.rivals]
            best = [min(times) for times in zip(*rivals, strict=True)]
            values = tuple(rival_s / own_s for rival_s, own_s in zip(best, own.seconds, strict=True))
            lines.append(Line(figure.group, figure.text, figure.target, values))
        return lines

    def query(self) -> list[Line]:
        """Of one key query, from the page cache."""
        count = min(QUERY_COUNT, self.sizes.size // record_size(KB))
        latencies_ns = self._measured("query", {"query"}, count)["query"].latencies_ns
        return [
            Line(
                "query",
                f"key query, warm, p{percentile:g}",
                target,
                _percentiles_us(latencies_ns, percentile),
                "µs",
                True,
            )
            for percentile, target in ((50.0, 10.0), (99.0, 50.0))
        ]

    def _measured(self, subject: str, names: set[str], count: int) -> dict[str, runner.Result]:
        found = make_cases(body_sizes=[KB], kernels=["c"], subject=subject, messages=count)
        cases: list[Case] = [case for case in found if case.name in names]
        if self.rocketmq is not None:
            cases += [case for case in rocketmq_cases(self.rocketmq, RIVALS, KB, count) if case.name in names]
        with self._place() as place:
            runner.pilot(cases, place)
            results = runner.measure(cases, self.sizes.rounds, place, lambda count: self.done())
        return {result.case.name: result for result in results}

    def readers(self) -> list[Line]:
        """Threads and processes that read a backlog, beside its writer."""
        sizes = self.sizes
        messages = sizes.size // record_size(KB)
        found = readers.measure(self.folder, KB, messages, sizes.readers, sizes.reader_s, sizes.rounds, self.done)
        lines = []
        for kind, rounds in found.items():
            text = f"{sizes.readers} readers ({kind}) beside a writer"
            shares = tuple(each.slowest_share for each in rounds)
            lines.append(Line("readers", f"{text}: the slowest, of its solo share", SHARE, shares))
            lines.append(Line("readers", f"{text}: the writer, of its pace", PACE, tuple(each.pace for each in rounds)))
        return lines

    @contextmanager
    def _place(self) -> Iterator[Path]:
        """A folder that is gone afterwards."""
        with TemporaryDirectory(dir=self.folder) as place:
            yield Path(place)

    def runs(self, plans: Sequence[Plan], cases: Mapping[str, Sequence[CaseFigure]], groups: Sequence[str]) -> int:
        """How often `done` is called."""
        rounds = self.sizes.rounds
        count = sum(rounds * len(plan.loads()) for plan in plans)
        count += 2 * rounds * ("paced" in groups) + 2 * self.sizes.device_steps * ("device" in groups)
        for figures in cases.values():
            count += rounds * len({name for figure in figures for name in (figure.own, *figure.rivals)})
        return count + rounds * ("query" in groups) + 2 * rounds * ("readers" in groups)


def _calls(load: Load, size: int) -> int:
    return max(size // (record_size(load.body_size) * load.batch), load.threads)


def _writer_line(figure: WriterFigure, outcomes: dict[Load, Outcome]) -> Line:
    def each_s(load: Load) -> list[float]:
        rounds = outcomes[load].rounds
        return [(round_.put_s if figure.returned else round_.drained_s) / round_.count for round_ in rounds]

    rivals = [each_s(load) for load in figure.rivals]
    best = [min(times) for times in zip(*rivals, strict=True)]
    values = tuple(rival_s / own_s for rival_s, own_s in zip(best, each_s(figure.own), strict=True))
    note = ""
    if len(rivals) > 1:
        fastest = min(figure.rivals, key=lambda load: median(each_s(load)))
        note = f"the fastest of {len(rivals)} is {fastest.writer}"
    return Line(figure.group, figure.text, figure.target, values, note=note)


def _device_line(ratios: tuple[float, ...], note: str) -> Line:
    text = f"device bytes per byte, sync puts, {KB:,} B, against the raw loop, at any fill"
    return Line("device", text, 1.1, ratios, at_most=True, every=True, note=note)


def _percentiles_us(latencies_ns: Sequence[Any], percentile: float) -> tuple[float, ...]:
    return tuple(float(np.percentile(each, percentile)) / 1e3 for each in latencies_ns)
