"""Runs cases round by round, so that other load on the machine affects all of them alike, and sizes their rounds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

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
"""Shorter rounds measure noise."""


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


def sized(case: Case, seconds: float, run: Callable[[Case], Sample], *, timed: bool = False) -> tuple[Case, float]:
    """The case with as many calls as a round of `seconds` has, and about how long its round takes (s).

    A round has a fixed cost (opening and closing a store, coming to rest) and one per call; rounds of more and more
    calls tell both. If `timed`, the seconds are those from the first call until everything is done.
    """
    fewest = (CALLS_MIN if case.batch == 1 else BATCHES_MIN) * case.threads
    most = max(SIZE_MAX // (case.record_size * case.batch), fewest)
    first = calls = PILOT_CALLS * case.threads
    if case.rate is not None:
        first = calls = max(int(case.rate / case.batch * PILOT_S), fewest)
    first_s, found = _whole(case, calls, run)
    whole_s = first_s
    while found.put_s < PILOT_S and calls < most:
        calls = min(int(calls * min(max(1.2 * PILOT_S / found.put_s, 2), PILOT_MORE_MAX)), most)
        whole_s, found = _whole(case, calls, run)
    timed_s = found.drained_s / calls
    call_s = max(timed_s, (whole_s - first_s) / (calls - first) if calls > first else 0.0)
    fixed_s = max(whole_s - calls * call_s, 0.0)
    wanted = seconds / timed_s if timed else max((seconds - fixed_s) / call_s, ROUND_MIN_S / timed_s)
    case = replace(case, calls=max(min(round(wanted), most), fewest))
    return case, fixed_s + case.calls * call_s


def _whole(case: Case, calls: int, run: Callable[[Case], Sample]) -> tuple[float, Sample]:
    started_s = time.perf_counter()
    found = run(replace(case, calls=calls))
    return time.perf_counter() - started_s, found
