"""The bench harness: every case does what it is named after, and a run reports all of them beside their limits."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from flightlog.store import native
from flightlog.tools.bench.cases.case import Case
from flightlog.tools.bench.cases.plan import BODY_SIZES, MEMORY_CASES, SYNC_PUT, make_cases
from flightlog.tools.bench.cases.references import FALLOCATED, MEMCPY, ZEROED
from flightlog.tools.bench.cases.runner import Result
from flightlog.tools.bench.machine.machine import MOUNTS, file_system, this_machine
from flightlog.tools.bench.telling.report import COLUMNS, find_reference

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

MESSAGES = 40
CASES = make_cases(body_sizes=BODY_SIZES[:1])
FILE_SUBJECTS = [case for name in ("read", "verify") for case in make_cases(body_sizes=BODY_SIZES[:1], subject=name)]


@pytest.mark.parametrize("case", list(dict.fromkeys([*CASES, *FILE_SUBJECTS])), ids=str)
def test_a_case_runs_and_leaves_what_can_be_used_again(case: Case, tmp_path: Path) -> None:
    small = dataclasses.replace(case, count=MESSAGES)
    before = native.NAME
    for _ in range(2):
        assert small.measure(tmp_path).seconds > 0
    assert before == native.NAME, "the kernel that was at work is at work again"
    assert {path.name.split("-")[0] for path in tmp_path.iterdir()} <= {"read", "killed", "sealed"}


def test_every_workload_has_a_limit_of_its_own_size() -> None:
    results = [Result(case, [1.0]) for case in make_cases()]
    kernels = native.available()
    for result in results:
        reference = find_reference(result, results)
        assert (reference is None) == (result.case.kernel is None)
        if reference is not None:
            assert reference.case.body_size == result.case.body_size
            assert reference.case.count == result.case.count, "the same bytes"
    found = {(result.case.name, result.case.kernel, result.case.body_size) for result in results}
    expected: set[tuple[str, str | None]] = {(name, kernel) for name in (*MEMORY_CASES, SYNC_PUT) for kernel in kernels}
    expected |= {(name, None) for name in (MEMCPY, FALLOCATED, ZEROED)}
    assert found == {(name, kernel, body_size) for name, kernel in expected for body_size in BODY_SIZES}


def test_the_ratio_is_message_for_message() -> None:
    case, other = CASES[0], dataclasses.replace(CASES[1], count=2 * CASES[0].count)
    assert Result(other, [4.0, 1.0, 8.0]).part_of(Result(case, [1.0])) == pytest.approx(0.5)


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
    assert {result["name"] for result in found["results"]} == {MEMCPY, *MEMORY_CASES}
    for result in found["results"]:
        assert result["messages_per_s"] == pytest.approx(result["messages"] / result["median_s"])
        assert (result["part_of_reference"] is None) == (result["name"] == MEMCPY)
    assert not list(in_memory.iterdir()), "nothing is left behind"


def test_the_table(tmp_path: Path) -> None:
    program = f"""
import dataclasses
from pathlib import Path
from flightlog.tools.bench.cases.plan import make_cases
from flightlog.tools.bench.telling.report import show
from flightlog.tools.bench.cases.runner import measure
from flightlog.tools.output import Output

cases = [dataclasses.replace(case, count={MESSAGES}) for case in make_cases(body_sizes=[100])]
show(measure(cases, 1, Path({str(tmp_path)!r}), lambda done: None), Output())
"""
    out = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True).stdout
    rows = [line for line in out.splitlines() if line.startswith(SYNC_PUT)]
    assert [line.split()[2] for line in rows[:-1]] == ["C" if name == "c" else name for name in native.available()]
    assert all(line.endswith(" %") for line in rows[:-1])
    assert rows[-1].startswith(f"{SYNC_PUT}: one thread")


def test_wrong_calls(cli: Cli, tmp_path: Path) -> None:
    calls: tuple[tuple[object, ...], ...] = (
        ("--rounds", "0"),
        ("--folder", tmp_path / "missing"),
        ("--messages", "0", "read"),
        ("--csv", "/no/folder/query.csv", "query"),
        ("--versus", "sqlite3", "query"),
        ("--versus", "rocketmq", "recover"),
        ("--versus", f"rocketmq={tmp_path}", "recover"),
    )
    for option, value, *subject in calls:
        finished = cli("bench", *subject, option, value)
        assert (finished.code, finished.out) == (2, "")
        [line] = finished.err.splitlines()
        assert line.startswith(f"flightlog: {option}")


def test_a_subject_is_kept_in_files(cli: Cli, tmp_path: Path) -> None:
    kept, table = tmp_path / "query.json", tmp_path / "query.csv"
    small = ("--quick", "--rounds", "1", "--messages", "40", "--folder", tmp_path)
    finished = cli("bench", "query", *small, "--save", kept, "--csv", table)
    assert finished.code == 0, finished.err
    found = json.loads(kept.read_text())["results"]
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [row["name"] for row in rows] == [row["name"] for row in found]
    assert {row["name"] for row in rows if row["p99_us"]} == {"query"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["query.csv", "query.json"]


def test_calls_that_are_timed_one_by_one_have_percentiles(tmp_path: Path) -> None:
    [case] = [case for case in CASES if (case.name, case.kernel) == ("query", "pure")]
    measured = dataclasses.replace(case, count=MESSAGES).measure(tmp_path)
    assert measured.latencies_ns is not None and measured.latencies_ns.shape == (MESSAGES,)
    assert 0 < measured.latencies_ns.sum() / 1e9 <= measured.seconds
    result = Result(case, [1.0, 1.0], [np.array([1000, 3000]), np.array([5000, 7000])])
    assert result.latency_us(50) == pytest.approx((2 + 6) / 2)


def test_the_machine_is_named(tmp_path: Path) -> None:
    machine = this_machine(tmp_path)
    assert machine.cpus == len(os.sched_getaffinity(0))
    mounts = [line.split(" ")[4] for line in MOUNTS.read_text().splitlines()]
    has_mount = any(tmp_path.is_relative_to(mount) for mount in mounts)  # in a chroot not even `/` need be one
    assert machine.file_system == file_system(tmp_path) and (machine.file_system != "unknown") == has_mount
    assert file_system(Path("/proc/self")) == "proc"
