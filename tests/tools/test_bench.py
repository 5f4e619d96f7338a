"""The bench harness: every case does what it is named after, and a run reports all of them beside their limits."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from flightlog.store import native
from flightlog.tools.bench.case import (
    MEMCPY,
    OWN,
    PLAIN,
    PLAIN_COLD,
    PURE,
    PUT,
    RAW_LOOP,
    REFERENCES,
    Case,
    Outcome,
    Sample,
)
from flightlog.tools.bench.machine.machine import MOUNTS, file_system, this_machine
from flightlog.tools.bench.plan import (
    BODY_SIZES,
    SUBJECTS,
    Peers,
    append_cases,
    flush_cases,
    subject_cases,
    whole_cases,
)
from flightlog.tools.bench.report import as_object, reference_of, show
from flightlog.tools.bench.runner import measure, prepared, run
from flightlog.tools.output import Output

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

MESSAGES = 40
CASES = [case for subject in SUBJECTS for case in subject_cases(subject, BODY_SIZES[:1], None, messages=MESSAGES)]


@pytest.mark.parametrize("case", list(dict.fromkeys(CASES)), ids=str)
def test_a_case_runs_and_leaves_what_can_be_used_again(case: Case, tmp_path: Path) -> None:
    before = native.NAME
    for _ in range(2):
        assert run(case, tmp_path).drained_s > 0
    assert before == native.NAME, "the kernel that was at work is at work again"
    assert {path.name.split("-")[0] for path in tmp_path.iterdir()} <= {"read", "killed", "sealed"}


def test_a_case_has_its_kernel(tmp_path: Path) -> None:
    [case] = [case for case in CASES if (case.who, case.task) == (PURE, "read")]
    with prepared(case, tmp_path):
        assert native.NAME == "pure"


def test_without_the_c_kernel_the_reference_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "available", lambda: ("pure",))
    for cases in (flush_cases(BODY_SIZES, (1, 8), Peers(), None), append_cases(BODY_SIZES, Peers(), None)):
        assert {case.kernel for case in cases} == {"pure", None}


def test_every_task_has_a_limit_of_its_own_size() -> None:
    outcomes = [Outcome(case, [Sample(case.count, 1.0, 1.0)]) for case in whole_cases()]
    for subject in SUBJECTS:
        outcomes += [Outcome(case, [Sample(case.count, 1.0, 1.0)]) for case in subject_cases(subject, BODY_SIZES, None)]
    kernels = native.available()
    for outcome in outcomes:
        reference = reference_of(outcome, outcomes)
        assert (reference is None) == (outcome.case.who in REFERENCES), outcome.case
        if reference is not None:
            assert reference.case.body_size == outcome.case.body_size
            assert reference.case.who == (PLAIN_COLD if outcome.case.task == "read, cold" else outcome.case.against)
    found = {(o.case.task, o.case.who, o.case.body_size) for o in outcomes if o.case.who in (OWN, PURE)}
    own = [who for who, kernel in ((OWN, "c"), (PURE, "pure")) if kernel in kernels]
    tasks = [PUT, *(task for tasks in SUBJECTS.values() for task in tasks)]
    assert found == {(task, who, size) for task in tasks for who in own for size in BODY_SIZES}
    assert {(o.case.who, o.case.sync) for o in outcomes if o.case.who in (MEMCPY, RAW_LOOP, PLAIN)} == {
        *((MEMCPY, False), (RAW_LOOP, True), (PLAIN, False)),
    }


def test_the_ratio_is_message_for_message_within_each_round() -> None:
    case = CASES[0]
    own = Outcome(case, [Sample(20, 4.0, 4.0), Sample(20, 1.0, 1.0), Sample(20, 8.0, 8.0)])
    other = Outcome(case, [Sample(10, 1.0, 1.0), Sample(10, 1.0, 1.0), Sample(10, 2.0, 2.0)])
    assert own.part_of(other) == pytest.approx(0.5)


@pytest.mark.ci
@pytest.mark.timeout(1800)
def test_a_run_in_memory_has_no_sync_figures(cli: Cli, in_memory: Path) -> None:
    assert file_system(in_memory) == "tmpfs"
    arguments = ("--quick", "--rounds", "1", "--no-spark", "--json", "--folder", in_memory)
    finished = cli("bench", *arguments)
    assert finished.code == 0
    assert "no sync figures" in finished.err and "writing" in finished.err
    found = json.loads(finished.out)
    assert found["machine"]["file_system"] == "tmpfs"
    outcomes = found["outcomes"]
    assert {row["task"] for row in outcomes} >= {PUT, "read", "query", "recover"} and not any(
        r["sync"] for r in outcomes
    )
    for row in outcomes:
        assert row["messages_per_s"] == pytest.approx(1 / row["per_message_s"])
        assert (row["part_of_reference"] is None) == (row["who"] in REFERENCES)
    assert not list(in_memory.iterdir()), "nothing is left behind"


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [case for case in CASES if case.task in (PUT, "query")]
    outcomes = measure(list(dict.fromkeys(cases)), 1, tmp_path, lambda: None)
    show(outcomes, Output())
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if " query " in line]
    assert [row.split("  ")[0] for row in rows] == [who for who in (OWN, PURE) if who in {o.case.who for o in outcomes}]
    assert all(row.endswith(" %") for row in rows)
    assert "query: a message by its key" in out and "device B/B" not in out.splitlines()[2]


@pytest.mark.parametrize(
    ("subject", "option", "value"),
    [
        ((), "--rounds", "0"),
        ((), "--folder", "/no/folder"),
        (("read",), "--messages", "0"),
        (("query",), "--save", "/no/folder/query.json"),
        (("query",), "--plot", "/no/folder/query.png"),
        (("query",), "--versus", "sqlite3"),
        (("recover",), "--versus", "rocketmq"),
        (("recover",), "--versus", "rocketmq=/proc"),
    ],
)
def test_wrong_calls(cli: Cli, subject: tuple[str, ...], option: str, value: str) -> None:
    finished = cli("bench", *subject, option, value)
    assert (finished.code, finished.out) == (2, "")
    [line] = finished.err.splitlines()
    assert line.startswith(f"flightlog: {option}")


def test_a_subject_is_kept_and_drawn_and_compared(cli: Cli, tmp_path: Path) -> None:
    kept, drawn = tmp_path / "query.json", tmp_path / "query.svg"
    small = ("--quick", "--rounds", "1", "--messages", "40", "--folder", tmp_path)
    finished = cli("bench", "query", *small, "--save", kept, "--plot", drawn)
    assert finished.code == 0, finished.err
    found = json.loads(kept.read_text())["outcomes"]
    assert {row["task"] for row in found if row["p99_ns"]} == {"query"}
    assert "Time of one call" in drawn.read_text()
    again = cli("bench", "query", *small, "--compare", kept)
    assert again.code == 0 and "Beside the earlier run" in again.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["query.json", "query.svg"]


def test_calls_that_are_timed_one_by_one_have_percentiles(tmp_path: Path) -> None:
    [case] = [case for case in CASES if (case.task, case.kernel) == ("query", "pure")]
    sample = run(case, tmp_path)
    assert sample.latencies_ns.shape == (MESSAGES,)
    assert 0 < sample.latencies_ns.sum() / 1e9 <= sample.drained_s
    latencies = [np.array([1000, 3000]), np.array([5000, 7000])]
    outcome = Outcome(case, [Sample(2, 1.0, 1.0, each) for each in latencies])
    assert outcome.latency_ns(50) == pytest.approx((2000 + 6000) / 2)


def test_what_was_measured_besides_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = dataclasses.replace(CASES[0], task="a task")
    outcome = Outcome(case, [Sample(1, 1.0, 1.0, figures={"ms": value}) for value in (1.0, 5.0, 2.0)])
    assert outcome.figure("ms") == 2.0 and math.isnan(outcome.figure("other"))
    assert as_object([outcome], this_machine(tmp_path))["outcomes"][0]["figures"] == {"ms": 2.0}
    show([outcome], Output())
    heads, row = capsys.readouterr().out.splitlines()[2:4]
    assert heads.endswith("ms") and row.endswith(" 2")


def test_the_machine_is_named(tmp_path: Path) -> None:
    machine = this_machine(tmp_path)
    assert machine.cpus == len(os.sched_getaffinity(0))
    mounts = [line.split(" ")[4] for line in MOUNTS.read_text().splitlines()]
    has_mount = any(tmp_path.is_relative_to(mount) for mount in mounts)  # in a chroot not even `/` need be one
    assert machine.file_system == file_system(tmp_path) and (machine.file_system != "unknown") == has_mount
    assert file_system(Path("/proc/self")) == "proc"
