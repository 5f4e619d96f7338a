"""Appending: put, put_many, append_columns and dispatch, and puts that wait for their sync."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from flightlog.tools.bench.cases.case import Case
from flightlog.tools.bench.cases.plan import SYNC_PUT, make_cases
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.versus.pedantic import run_pedantic

APPENDS = ("put", "put_many(256)", "append_columns", "dispatch", SYNC_PUT)
CASES = [case for case in make_cases() if case.name in APPENDS]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_append(benchmark: BenchmarkFixture, case: Case, tmp_path: Path) -> None:
    if case.needs_disk and this_machine(tmp_path).is_in_memory:
        pytest.skip("a sync in memory syncs nothing: name a disk's folder with --basetemp")
    run_pedantic(benchmark, case, tmp_path)
