"""Reading: every message of a store, one by one and as Arrow batches, and opening a store whose writer was killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from flightlog.tools.bench.cases.case import Case
from flightlog.tools.bench.cases.plan import make_cases
from flightlog.tools.bench.versus.pedantic import run_pedantic

CASES = [case for case in make_cases() if case.name in ("read", "read_batch", "recover")]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_read(benchmark: BenchmarkFixture, case: Case, tmp_path: Path) -> None:
    run_pedantic(benchmark, case, tmp_path)
