"""Runs cases round by round, so that other load on the machine affects all of them alike, and sizes their rounds.

A comparison of writers fits a time budget. A few small rounds give the two costs of a round: a fixed one (opening and
closing a store, coming to rest), and one per call.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...store import native
from .case import NONE, PUT, Case, Outcome, Sample, Work

WARM_PART = 20
PILOT_CALLS, PILOT_S = 8, 0.02
PILOT_MORE_MAX = 64
"""A pilot makes at most this many times the calls of the pilot before it."""
SIZE_MAX = 400 << 20
"""Most bytes of records that one round writes."""
CALLS_MIN, BATCHES_MIN = 20, 4
"""Fewest calls per thread: of single messages, of batches."""
ROUND_MIN_S = 0.03
"""Shorter rounds measure noise: the plan drops rounds instead of shortening them further."""
CLOSE_ENOUGH = 1.1


@contextmanager
def prepared(case: Case, folder: Path) -> Iterator[Work]:
    """The work, with the case's kernel in use until the context ends."""
    before = native.NAME
    native.use(case.kernel or before)
    try:
        with case.prepare(case, folder) as work:
            yield work
    finally:
        native.use(before)


def run(case: Case, folder: Path, *, stamps: bool = False) -> Sample:
    """One round; `stamps`: time each call."""
    with prepared(case, folder) as work:
        started_s = time.perf_counter()
        found = work(stamps)
        seconds = time.perf_counter() - started_s
    if isinstance(found, Sample):
        return found
    return Sample(case.count, seconds, seconds, found if isinstance(found, np.ndarray) else NONE)


def warm(cases: Sequence[Case], folder: Path) -> float:
    """Run every case once with a twentieth of its calls. Returns about how long a round takes (s)."""
    total_s = 0.0
    for case in cases:
        small = replace(case, calls=max(case.calls // WARM_PART, case.threads))
        total_s += run(small, folder).drained_s * case.calls / small.calls
    return total_s


def measure(
    cases: Sequence[Case],
    rounds: int,
    folder: Path,
    done: Callable[[], None],
    *,
    stamped: bool = False,
    until_s: float = math.inf,
) -> list[Outcome]:
    """`rounds` rounds of all cases in turn, fewer where the clock (`monotonic`) would be past `until_s` by the end, and
    if `stamped` one more of the puts in which every call is timed on its own; `done` is called after each run."""
    outcomes = [Outcome(case) for case in cases]
    for _ in range(rounds):
        started_s = time.monotonic()
        for outcome in outcomes:
            outcome.rounds.append(run(outcome.case, folder))
            done()
        now_s = time.monotonic()
        if now_s + (1 + stamped) * (now_s - started_s) > until_s:
            break
    for outcome in outcomes if stamped else ():
        if outcome.case.task == PUT:
            outcome.stamped = run(outcome.case, folder, stamps=True)
        done()
    return outcomes


@dataclass(frozen=True)
class Trial:
    """The measured costs of a round of a case (s)."""

    case: Case
    fixed_s: float
    """Per round, independent of its calls."""
    call_s: float
    """Per call, preparation included."""
    timed_s: float
    """Per call, the timed part only: from the first call until everything is dispatched."""

    def timed(self, seconds: float) -> Case:
        """The case, sized so that its timed part takes about `seconds`, within limits."""
        return replace(
            self.case, calls=max(min(round(seconds / self.timed_s), calls_max(self.case)), calls_min(self.case))
        )

    def within(self, seconds: float) -> Case:
        """The case, sized so that a whole round takes about `seconds`, its timed part at least ROUND_MIN_S."""
        return self.timed(max((seconds - self.fixed_s) / self.call_s * self.timed_s, ROUND_MIN_S))

    def round_s(self, case: Case) -> float:
        return self.fixed_s + case.calls * self.call_s


class Plan(NamedTuple):
    """Sized cases, and how often they run."""

    cases: list[Case]
    rounds: int
    """Without the round that times each call."""
    seconds: float
    """Of all rounds, the one that times each call included."""

    @property
    def size(self) -> int:
        """Bytes of records."""
        return (self.rounds + 1) * sum(case.size for case in self.cases)


def try_out(case: Case, run: Callable[[Case], Sample]) -> Trial:
    """Run rounds of more and more calls, until one takes long enough to estimate the cost of a call."""
    calls = first_calls = (
        PILOT_CALLS * case.threads if case.rate is None else max(int(case.rate / case.batch * PILOT_S), calls_min(case))
    )
    whole_s, found = _timed(run, case, calls)
    first_whole_s = whole_s
    while found.put_s < PILOT_S and calls < calls_max(case):
        more = min(max(1.2 * PILOT_S / found.put_s, 2), PILOT_MORE_MAX)
        calls = min(int(calls * more), calls_max(case))
        whole_s, found = _timed(run, case, calls)
    timed_s = found.drained_s / calls
    more_s = (whole_s - first_whole_s) / (calls - first_calls) if calls > first_calls else 0.0
    call_s = max(timed_s, more_s)
    return Trial(case, max(whole_s - calls * call_s, 0.0), call_s, timed_s)


def _timed(run: Callable[[Case], Sample], case: Case, calls: int) -> tuple[float, Sample]:
    started_s = time.perf_counter()
    found = run(replace(case, calls=calls))
    return time.perf_counter() - started_s, found


def plan(trials: Sequence[Trial], rounds: int, seconds: float, *, all_rounds: bool = False) -> Plan:
    """Size the cases so that all rounds take about `seconds`, in equal shares. Plans fewer than `rounds` rounds, but at
    least one, if even the shortest ones take longer, unless `all_rounds` is set."""
    for count in range(rounds, 0, -1):
        found = _plan(trials, count, seconds)
        if all_rounds or found.seconds <= seconds * CLOSE_ENOUGH:
            break
    return found


def _plan(trials: Sequence[Trial], rounds: int, seconds: float) -> Plan:
    left_s, sized = seconds / (rounds + 1), dict[Case, Case]()
    # Cases that need more than an equal share come first; the others divide the rest.
    for i, trial in enumerate(sorted(trials, key=lambda trial: trial.round_s(trial.within(0)), reverse=True)):
        case = sized[trial.case] = trial.within(left_s / (len(trials) - i))
        left_s -= trial.round_s(case)
    total_s = sum(trial.round_s(sized[trial.case]) for trial in trials)
    return Plan([sized[trial.case] for trial in trials], rounds, (rounds + 1) * total_s)


def calls_min(case: Case) -> int:
    return (CALLS_MIN if case.batch == 1 else BATCHES_MIN) * case.threads


def calls_max(case: Case) -> int:
    return max(SIZE_MAX // (case.record_size * case.batch), calls_min(case))
