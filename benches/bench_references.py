"""What this machine can do at best: memcpy, and raw fdatasync loops."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from flightlog.tools.bench.cases.case import Case
from flightlog.tools.bench.cases.plan import make_cases
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.versus.pedantic import run_pedantic

CASES = [case for case in make_cases() if case.kernel is None]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reference(benchmark: BenchmarkFixture, case: Case, tmp_path: Path) -> None:
    if case.needs_disk and this_machine(tmp_path).is_in_memory:
        pytest.skip("a sync in memory syncs nothing: name a disk's folder with --basetemp")
    run_pedantic(benchmark, case, tmp_path)
