"""Stores that are there: each message read, singly and in Arrow batches, and asked for by its key; checked; and opening
one whose writer was killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from flightlog.tools.bench.case import Case
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.pedantic import run_pedantic
from flightlog.tools.bench.plan import BODY_SIZES, SUBJECTS, subject_cases

CASES = [case for subject in SUBJECTS for case in subject_cases(subject, BODY_SIZES, None)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_read(benchmark: BenchmarkFixture, case: Case, tmp_path: Path) -> None:
    if case.needs_disk and this_machine(tmp_path).is_in_memory:
        pytest.skip("a sync in memory syncs nothing: name a disk's folder with --basetemp")
    run_pedantic(benchmark, case, tmp_path)
