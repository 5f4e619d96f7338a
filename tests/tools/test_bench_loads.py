"""The harness of our own loads: which parts are measured, what is told, kept and drawn, and which calls are refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.benches import delay, readers
from flightlog.benches.loads import await_all, body_of, load, number_of, percentiles, run_loads
from flightlog.benches.messaging.flow import burst_case, latency_cases, throughput_cases
from flightlog.benches.run import message_parts
from flightlog.store.errors import UsageError
from flightlog.store.settings import FlushMode
from flightlog.tools.bench.case import Case, Sample
from flightlog.tools.bench.harness import Options

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

BENCHES = str(Path(__file__).resolve().parents[2] / "benches" / "run.py")


DRAWS = {
    "latency": latency_cases(FlushMode.ASYNC, (1,), 1, 1)[0].draw,
    "throughput": throughput_cases((1,), 1)[0].draw,
    "burst": burst_case(1).draw,
}


def made(who: str, task: str, series: list[object]) -> Case:
    sample = Sample(2, 1.0, 1.0, figures={"p50 ms": 0.25, "files": 0}, series=series)
    return load(who, f"The {task}", lambda folder: sample, DRAWS.get(task))


def test_it_is_told_kept_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = {
        "latency": [made(f"a, {n} consumers", "latency", [0.5 * n, 1.0]) for n in (1, 4)],
        "throughput": [made(f"c, {n} consumers", "throughput", [(n, 10.0 * n)]) for n in (1, 2)],
        "burst": [made("d", "burst", [(0.0, 1)])],
        "rebalance": [made("e", "rebalance", [])],
    }
    kept, drawn = tmp_path / "kept.json", tmp_path / "drawn.svg"
    assert run_loads(parts, Options(folder=tmp_path, save=kept, plot=drawn), notes=["a note"]) == 0
    told = capsys.readouterr()
    assert "6 loads" in told.err and all(f"The {name}\n" in told.out for name in parts) and "a note" in told.out
    outcomes = json.loads(kept.read_text())["outcomes"]
    assert [row["who"] for row in outcomes][:2] == ["a, 1 consumers", "a, 4 consumers"]
    assert outcomes[0]["figures"] == {"p50 ms": 0.25, "files": 0}
    text = drawn.read_text()
    assert "messages behind" in text and "The latency" in text and "The rebalance" not in text
    assert run_loads(parts, Options(only=["burst"], as_json=True)) == 0
    assert [row["who"] for row in json.loads(capsys.readouterr().out)["outcomes"]] == ["d"]
    assert set(tmp_path.iterdir()) == {kept, drawn}, "the folder is left as it was"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(only=["all"]), "--only all: expected some of latency"),
        (Options(rounds=0), "--rounds 0"),
        (Options(folder=Path("/no/such")), "no such folder"),
        (Options(save=Path("/no/such/file.json")), "--save"),
        (Options(plot=Path("drawn.txt")), "--plot"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(options: Options, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run_loads(message_parts(quick=True), options)


def test_a_full_disk_is_told_beforehand(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="free, expected"):
        run_loads({"readers": []}, Options(folder=tmp_path), room=1 << 60)


@pytest.mark.parametrize(
    "call",
    [
        ("delay", "--rate", "5"),
        ("delay", "--seconds", "0"),
        ("delay", "--seconds", "nan"),
        ("delay", "--pending", "0"),
        ("delay", "--pending", "1500"),
        ("readers", "--readers", "0"),
        ("readers", "--messages", "0"),
        ("readers", "--seconds", "0"),
    ],
)
def test_wrong_calls(cli: Cli, call: tuple[str, ...]) -> None:
    finished = cli(*call, module=BENCHES)
    assert (finished.code, finished.out) == (2, "")
    assert f"{call[1]} {call[2]}" in finished.err


def test_timers_that_wait_are_measured_on_request_alone() -> None:
    assert list(delay.cases([1000], 1, 1)) == [delay.LEVEL, delay.TIMER, "idle"]
    [*parts, pending] = delay.cases([1000, 2000], 1, 1, 2000).values()
    assert [len(cases) for cases in parts] == [4, 4, 3] and len(pending) == 3


@pytest.mark.ci
def test_runs_as_their_users_see_them(cli: Cli, tmp_path: Path) -> None:
    drawn = tmp_path / "drawn.svg"
    finished = cli("delay", "--quick", "--rate", "500", "--folder", tmp_path, "--plot", drawn, module=BENCHES)
    assert finished.code == 0, finished.err
    assert all(word in finished.out for word in ("Delay levels", "Timers", "An idle store", "500 due a second, sync"))
    assert "500 due a second, async flush" in drawn.read_text() and "Many timers" not in finished.out
    finished = cli("messaging", "--quick", "--only", "latency,rebalance", "--json", module=BENCHES)
    assert finished.code == 0 and len(json.loads(finished.out)["outcomes"]) == 8 + 6
    small = ("--readers", "2", "--seconds", "0.05", "--messages", "400", "--quick", "--folder", tmp_path)
    finished = cli("readers", *small, module=BENCHES)
    assert "2 threads" in finished.out and "2 processes" in finished.out and "writing up to" in finished.err
    finished = cli("readers", *small, "--json", module=BENCHES)
    assert [row["who"] for row in json.loads(finished.out)["outcomes"]] == [f"2 {kind}" for kind in readers.KINDS]
    assert list(tmp_path.iterdir()) == [drawn]


def test_what_loads_share() -> None:
    assert number_of(body_of(7)) == 7 and len(body_of(7)) == 100
    assert percentiles([1.0, 3.0], "ms") == {"p50 ms": 2.0, "p99 ms": pytest.approx(2.98), "max ms": 3.0}
    assert math.isclose(percentiles([1.0, 3.0], "µs a put", (50,))["p50 µs a put"], 2.0)


def test_what_does_not_come_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flightlog.benches.loads.LIMIT_S", 0.01)
    with pytest.raises(UsageError, match=r"3 are missing after 0\.01 s"):
        await_all(lambda: False, lambda: "3 are missing")
