"""How many calls the loads of a comparison get, so that all of it takes as long as it was given."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flightlog.tools.bench.case import NOTHING, OWN, Case, Sample
from flightlog.tools.bench.runner import BATCHES_MIN, PILOT_S, ROUND_MIN_S, SIZE_MAX, Trial, measure, plan, try_out
from flightlog.tools.bench.writers import put_case


def trial(case: Case, fixed_s: float, call_s: float) -> Trial:
    return Trial(case, fixed_s, call_s, call_s / 2)


def test_rounds_come_to_the_time_that_they_were_given() -> None:
    fast, slow = (
        trial(put_case(OWN, sync=False, body_size=100), 0.1, 1e-5),
        trial(put_case(OWN, sync=True, body_size=100), 0.2, 1e-3),
    )
    found = plan([fast, slow], 5, 60)
    assert found.rounds == 5 and found.seconds == pytest.approx(60, rel=0.01)
    assert found.cases == [fast.case, slow.case]
    assert [t.round_s(case) for t, case in zip((fast, slow), found.cases, strict=True)] == pytest.approx(
        [5, 5], rel=0.01
    )
    assert found.cases[1].calls == round((5 - 0.2) / 1e-3)
    # There are fewer rounds, and one at least, where even the shortest ones take longer.
    assert plan([fast, slow], 5, 2).rounds == 4
    assert plan([fast, slow], 5, -1).rounds == 1
    least = plan([fast, slow], 5, 2, all_rounds=True)
    assert least.rounds == 5
    assert [case.calls for case in least.cases] == [round(ROUND_MIN_S / (t.timed_s)) for t in (fast, slow)]
    assert plan([trial(fast.case, 0, 1e-9)], 1, 600).cases[0].size <= SIZE_MAX


def test_one_that_needs_more_than_its_part_leaves_less_to_the_others() -> None:
    late = trial(put_case(OWN, sync=True, body_size=100, batch=8192, columns=True), 3.0, 0.5)
    others = [trial(put_case(OWN, sync=False, body_size=size), 0.1, 1e-5) for size in (100, 1024)]
    found = plan([others[0], late, others[1]], 1, 20)
    assert found.cases[1].calls == BATCHES_MIN
    assert found.seconds == pytest.approx(20, rel=0.01)


def test_a_trial_tells_what_is_fixed_from_what_a_call_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr("flightlog.tools.bench.runner.time.perf_counter", lambda: clock)
    asked = []

    def run(case: Case) -> Sample:
        nonlocal clock
        calls = case.calls
        asked.append(calls)
        clock += 0.25 + calls * 30e-6
        return Sample(calls, calls * 20e-6, calls * 10e-6)

    found = try_out(put_case(OWN, sync=False, body_size=100), run)
    assert found.fixed_s == pytest.approx(0.25) and found.call_s == pytest.approx(30e-6)
    assert found.timed_s == pytest.approx(20e-6)
    assert asked[-1] * 10e-6 >= PILOT_S > asked[-2] * 10e-6
    assert found.timed(1).calls == 50_000


def test_a_machine_that_slows_down_gets_fewer_rounds(tmp_path: Path) -> None:
    cases = [put_case(NOTHING, body_size=100, calls=10)]
    [found] = measure(cases, 5, tmp_path, lambda: None, stamped=True, until_s=time.monotonic())
    assert len(found.rounds) == 1 and found.stamped is not None
    [found] = measure(cases, 5, tmp_path, lambda: None)
    assert len(found.rounds) == 5
