"""How many calls the cases of a comparison get, so that all of it takes as long as it was given."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from flightlog.tools.bench import run as bench
from flightlog.tools.bench import runner
from flightlog.tools.bench.case import NONE, NOTHING, OWN, Case, Sample
from flightlog.tools.bench.harness import Options
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.runner import BATCHES_MIN, CALLS_MIN, PILOT_S, ROUND_MIN_S, SIZE_MAX, measure, sized
from flightlog.tools.bench.writers import put_case

FIXED_S, CALL_S, TIMED_S, PUT_S = 0.25, 30e-6, 20e-6, 10e-6
"""What a round costs, and each of its calls: with their preparation, until all is dispatched, until it returns."""
MESSAGE_S = 1e-6
"""What a message costs a run whose cases differ in how many of them a call has."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], Callable[[Case], Sample]]:
    """How many calls each round had, and a run on a clock of its own."""
    clock, calls = 0.0, list[int]()
    monkeypatch.setattr("flightlog.tools.bench.runner.time.perf_counter", lambda: clock)

    def run(case: Case) -> Sample:
        nonlocal clock
        calls.append(case.calls)
        clock += FIXED_S + case.calls * CALL_S
        return Sample(case.calls, case.calls * TIMED_S, case.calls * PUT_S)

    return calls, run


Asked = tuple[list[int], Callable[[Case], Sample]]


def test_a_round_comes_to_the_time_that_it_was_given(asked: Asked) -> None:
    calls, run = asked
    case, seconds = sized(put_case(OWN, body_size=100), 5.0, run)
    assert calls[-1] * PUT_S >= PILOT_S > calls[-2] * PUT_S
    assert seconds == pytest.approx(5.0, rel=0.01)
    assert case.calls == pytest.approx((5.0 - FIXED_S) / CALL_S, rel=0.01)
    assert sized(put_case(OWN, body_size=100), 1.0, run, timed=True)[0].calls == pytest.approx(1.0 / TIMED_S)


def test_a_round_is_never_too_short_nor_too_large(asked: Asked) -> None:
    _, run = asked
    assert sized(put_case(OWN, body_size=100), 0.1, run)[0].calls == round(ROUND_MIN_S / TIMED_S)
    assert sized(put_case(OWN, body_size=1024), 600, run)[0].size <= SIZE_MAX
    single, batched = (put_case(OWN, sync=True, body_size=100, batch=batch, threads=2) for batch in (1, 8192))
    assert sized(single, 1e-9, run, timed=True)[0].calls == 2 * CALLS_MIN
    assert sized(batched, 1e-9, run, timed=True)[0].calls == 2 * BATCHES_MIN


def test_a_machine_that_slows_down_gets_fewer_rounds(tmp_path: Path) -> None:
    cases = [put_case(NOTHING, body_size=100, calls=10)]
    [found] = measure(cases, 5, tmp_path, lambda: None, stamped=True, until_s=time.monotonic())
    assert len(found.rounds) == 1 and found.stamped is not None
    [found] = measure(cases, 5, tmp_path, lambda: None)
    assert len(found.rounds) == 5


@pytest.mark.parametrize(
    ("fixed_s", "seconds", "expected"),
    [
        (0.001, 5, "2 rounds and one for latencies: about 3.8 s more, "),
        (0.001, 10, "2 rounds and one for latencies: about 7.5 s more, "),
        (1.0, 5, "5.0 s is short: 2 of even the shortest rounds take about 37.1 s more; "),
    ],
)
def test_a_run_of_so_many_seconds_announces_what_is_left_of_them(
    fixed_s: float,
    seconds: float,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`bench flush --quick --seconds 5` announced 42 s: a quarter is for trying out, and the rest is the rounds'."""
    if this_machine(tmp_path).is_in_memory:
        pytest.skip("no sync figures of a file system in memory")
    clock = 0.0
    monkeypatch.setattr("flightlog.tools.bench.runner.time.perf_counter", lambda: clock)

    def run(case: Case, folder: Path, *, stamps: bool = False) -> Sample:
        nonlocal clock
        put_s = case.count * MESSAGE_S
        clock += fixed_s + put_s
        return Sample(case.count, put_s, put_s, np.full(case.calls, 1000) if stamps else NONE)

    monkeypatch.setattr(runner, "run", run)
    assert bench.run(Options(subject="flush", quick=True, seconds=seconds, folder=tmp_path)) == 0
    said = capsys.readouterr().err
    assert expected in said, said
    assert ("short" in said) == ("short" in expected)
