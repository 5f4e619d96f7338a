"""`make load-test` with `--stops`: how often, how long and how many at a time; and that all go on in the end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from flightlog.tests.load import stops as stops_module
from flightlog.tests.load.run import ROOT
from flightlog.tests.load.stops import LONGEST_S, SHORTEST_S, Stops

STEP_S = 0.01
STEPS = 20_000
ROUNDING_S = 1e-6


class Signals:
    """In place of `os.kill`."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.since_s: dict[int, float] = {}
        self.stops_s: list[float] = []
        self.rests_s: dict[int, float] = {}

    def kill(self, pid: int, number: int) -> None:
        if number == signal.SIGSTOP:
            assert pid not in self.since_s and self.rests_s.get(pid, 0) <= self.now_s + ROUNDING_S
            self.since_s[pid] = self.now_s
        else:
            assert number == signal.SIGCONT
            stop_s = self.now_s - self.since_s.pop(pid)
            self.stops_s.append(stop_s)
            self.rests_s[pid] = self.now_s + stop_s


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> Signals:
    found = Signals()
    monkeypatch.setattr(stops_module, "os", SimpleNamespace(kill=found.kill))
    return found


@pytest.mark.parametrize("at_a_time", [0, 1, 2])
def test_so_many_at_a_time_for_seconds_and_then_they_run_as_long(signals: Signals, at_a_time: int) -> None:
    stops, most = Stops(at_a_time, seed=7), 0
    for number in range(STEPS):
        signals.now_s = number * STEP_S
        stops.step(range(1, 7), signals.now_s)
        most = max(most, len(signals.since_s))
    assert most == at_a_time
    for stop_s in signals.stops_s:
        assert SHORTEST_S - ROUNDING_S <= stop_s <= LONGEST_S + STEP_S + ROUNDING_S
    assert stops.count == len(signals.stops_s) + len(signals.since_s)
    if at_a_time:
        assert min(signals.stops_s) < 1 and max(signals.stops_s) > 5 and set(signals.rests_s) == set(range(1, 7))
    stops.end(range(1, 7))
    assert not signals.since_s


def test_what_has_ended_gets_no_signal(signals: Signals) -> None:
    stops = Stops(1, seed=7)
    stops.step([1], 1.0)
    assert list(signals.since_s) == [1]
    stops.step([], 1.1)
    stops.step([2], 100.0)
    stops.end([])
    assert list(signals.since_s) == [1, 2]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def test_a_process_stops_and_goes_on(child: subprocess.Popen[bytes]) -> None:
    stops = Stops(1, seed=7)
    stops.step([child.pid], 1.0)
    assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
    stops.step([child.pid], 1.0 + LONGEST_S)
    assert os.WIFCONTINUED(os.waitpid(child.pid, os.WCONTINUED)[1])
    stops.step([child.pid], 1.0 + 3 * LONGEST_S)
    assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
    stops.end([child.pid])
    assert os.WIFCONTINUED(os.waitpid(child.pid, os.WCONTINUED)[1]) and stops.count == 2


def test_a_run_counts_its_stops_and_gives_tests_more_time(tmp_path: Path) -> None:
    load = ROOT / "tests" / "load"
    options = "--rounds 1 --stops 2 --seed 180"  # four stops within two seconds
    words = [*options.split(), "--work", str(tmp_path), str(load / "waits_for_stop.py")]
    ran = subprocess.run([sys.executable, str(load / "run.py"), *words], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.fullmatch(r"1 files ran: 2 tests passed, 0 skipped, 0 failed, [1-9]\d* stops", ran.stdout.strip())
