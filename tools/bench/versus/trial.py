"""How many calls each load of a comparison may make: all that it is asked for is to come to the time that it was given.

What a round takes is told from a few small ones: so much whatever it does (to open and to close a store, to come to
rest), and so much a call (to make its messages, to put them, to dispatch them).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..cases.workloads import record_size
from ..loads.load import Load, Round

PILOT_CALLS = 8
PILOT_S = 0.02
TRIALS = 2
"""So many runs mostly do."""
PILOT_MORE_MAX = 64
"""A pilot has at most so many times the calls of the one before."""
SIZE_MAX = 400 << 20
"""Bytes of records that one round writes at most."""
CALLS_MIN, BATCHES_MIN = 20, 4
"""Calls that a thread makes at least: of one message, of many."""
ROUND_MIN_S = 0.03
"""A round with less time for its calls tells nothing: there are fewer rounds rather than shorter ones."""
CLOSE_ENOUGH = 1.1


@dataclass(frozen=True)
class Entry:
    """A load and how many calls each of its rounds makes."""

    load: Load
    calls: int
    round_s: float = 0.0
    """Seconds that such a round takes with all that belongs to it, as far as that is known."""
    first_calls: int | None = None
    """How many calls come before the clock; None: a few."""

    @property
    def count(self) -> int:
        """Messages."""
        return self.calls * self.load.batch

    @property
    def size(self) -> int:
        """Bytes of records."""
        return self.count * record_size(self.load.body_size)


@dataclass(frozen=True)
class Trial:
    """What a round of a load takes."""

    load: Load
    fixed_s: float
    """Whatever it does."""
    call_s: float
    """A call, with all that belongs to it."""
    timed_s: float
    """Of that, what the clock is told: from the first call until all is dispatched."""

    def entry(self, seconds: float) -> Entry:
        """As many calls as the clock is told so many seconds for, within limits."""
        return self._entry(seconds / self.timed_s)

    def entry_of_round(self, seconds: float) -> Entry:
        """As many calls as a round takes so many seconds for, within limits, and with ROUND_MIN_S for them at least."""
        return self._entry(max((seconds - self.fixed_s) / self.call_s, ROUND_MIN_S / self.timed_s))

    def _entry(self, wanted: float) -> Entry:
        calls = max(min(round(wanted), _calls_max(self.load)), _calls_min(self.load))
        return Entry(self.load, calls, self.fixed_s + calls * self.call_s)


class Plan(NamedTuple):
    """What is to be measured."""

    entries: list[Entry]
    rounds: int
    """Beside the one for latencies."""

    @property
    def seconds(self) -> float:
        return (self.rounds + 1) * sum(entry.round_s for entry in self.entries)

    @property
    def size(self) -> int:
        """Bytes of records."""
        return (self.rounds + 1) * sum(entry.size for entry in self.entries)


def try_out(load: Load, run: Callable[[int], Round]) -> Trial:
    """Run rounds of more and more calls, until the last takes long enough to tell what a call takes."""
    calls = first_calls = _pilot_calls(load)
    whole_s, found = _timed(run, calls)
    first_whole_s = whole_s
    while found.put_s < PILOT_S and calls < _calls_max(load):
        more = min(max(1.2 * PILOT_S / found.put_s, 2), PILOT_MORE_MAX)
        calls = min(int(calls * more), _calls_max(load))
        whole_s, found = _timed(run, calls)
    timed_s = found.drained_s / calls
    more_s = (whole_s - first_whole_s) / (calls - first_calls) if calls > first_calls else 0.0
    call_s = max(timed_s, more_s)
    return Trial(load, max(whole_s - calls * call_s, 0.0), call_s, timed_s)


def plan_within(trials: Sequence[Trial], rounds: int, seconds: float) -> Plan:
    """Rounds of loads that come to so many seconds in all, each load with its part: `rounds` of them, or fewer where
    even the shortest ones take longer, but one."""
    for count in range(rounds, 0, -1):
        plan = plan_of(trials, count, seconds)
        if plan.seconds <= seconds * CLOSE_ENOUGH:
            break
    return plan


def plan_of(trials: Sequence[Trial], rounds: int, seconds: float) -> Plan:
    """The same with as many rounds as asked for, however long the shortest ones take."""
    left_s, entries = seconds / (rounds + 1), dict[Load, Entry]()
    # Who needs more than its part comes first: the others share what is left.
    for i, trial in enumerate(sorted(trials, key=lambda trial: trial.entry_of_round(0).round_s, reverse=True)):
        entry = entries[trial.load] = trial.entry_of_round(left_s / (len(trials) - i))
        left_s -= entry.round_s
    return Plan([entries[trial.load] for trial in trials], rounds)


def _timed(run: Callable[[int], Round], calls: int) -> tuple[float, Round]:
    started_s = time.perf_counter()
    found = run(calls)
    return time.perf_counter() - started_s, found


def _pilot_calls(load: Load) -> int:
    if load.rate is None:
        return PILOT_CALLS * load.threads
    return max(int(load.rate / load.batch * PILOT_S), _calls_min(load))


def _calls_min(load: Load) -> int:
    return (CALLS_MIN if load.batch == 1 else BATCHES_MIN) * load.threads


def _calls_max(load: Load) -> int:
    return max(SIZE_MAX // (record_size(load.body_size) * load.batch), _calls_min(load))
