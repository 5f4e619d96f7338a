"""How many calls the loads of a comparison get, so that all of it takes as long as it was given."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from flightlog.tools.bench.loads.load import Load, Round
from flightlog.tools.bench.versus.contest import Contest
from flightlog.tools.bench.versus.trial import (
    BATCHES_MIN,
    PILOT_S,
    ROUND_MIN_S,
    SIZE_MAX,
    Entry,
    Trial,
    plan_of,
    plan_within,
    try_out,
)
from flightlog.tools.bench.writers import NOTHING, OWN


def trial(load: Load, fixed_s: float, call_s: float) -> Trial:
    return Trial(load, fixed_s, call_s, call_s / 2)


def test_rounds_come_to_the_time_that_they_were_given() -> None:
    fast, slow = trial(Load(OWN, False, 100), 0.1, 1e-5), trial(Load(OWN, True, 100), 0.2, 1e-3)
    plan = plan_within([fast, slow], 5, 60)
    assert plan.rounds == 5 and plan.seconds == pytest.approx(60, rel=0.01)
    assert [entry.load for entry in plan.entries] == [fast.load, slow.load]
    assert [entry.round_s for entry in plan.entries] == pytest.approx([5, 5], rel=0.01)
    assert plan.entries[1].calls == round((5 - 0.2) / 1e-3)
    # There are fewer rounds, and one at least, where even the shortest ones take longer.
    assert plan_within([fast, slow], 5, 2).rounds == 4
    assert plan_within([fast, slow], 5, -1).rounds == 1
    least = plan_of([fast, slow], 5, 2)
    assert least.rounds == 5
    assert [entry.calls for entry in least.entries] == [round(ROUND_MIN_S / (t.timed_s)) for t in (fast, slow)]
    assert plan_within([trial(fast.load, 0, 1e-9)], 1, 600).entries[0].size <= SIZE_MAX


def test_one_that_needs_more_than_its_part_leaves_less_to_the_others() -> None:
    late = trial(Load(OWN, True, 100, 8192, columns=True), 3.0, 0.5)
    others = [trial(Load(OWN, False, size), 0.1, 1e-5) for size in (100, 1024)]
    plan = plan_of([others[0], late, others[1]], 1, 20)
    assert plan.entries[1].calls == BATCHES_MIN
    assert plan.seconds == pytest.approx(20, rel=0.01)


def test_a_trial_tells_what_is_fixed_from_what_a_call_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr("flightlog.tools.bench.versus.trial.time.perf_counter", lambda: clock)
    asked = []

    def run(calls: int) -> Round:
        nonlocal clock
        asked.append(calls)
        clock += 0.25 + calls * 30e-6
        return Round(calls, calls * 20e-6, calls * 10e-6, np.empty(0, np.int64))

    found = try_out(Load(OWN, False, 100), run)
    assert found.fixed_s == pytest.approx(0.25) and found.call_s == pytest.approx(30e-6)
    assert found.timed_s == pytest.approx(20e-6)
    assert asked[-1] * 10e-6 >= PILOT_S > asked[-2] * 10e-6
    assert found.entry(1).calls == 50_000


def test_a_machine_that_slows_down_gets_fewer_rounds(tmp_path: Path) -> None:
    entries = [Entry(Load(NOTHING, False, 100), 10)]
    [found] = Contest(tmp_path).measure(entries, 5, lambda: None, until_s=time.monotonic())
    assert len(found.rounds) == 1 and found.stamped is not None
    [found] = Contest(tmp_path).measure(entries, 5, lambda: None)
    assert len(found.rounds) == 5
