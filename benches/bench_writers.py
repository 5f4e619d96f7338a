"""This store as a writer, with the C kernel and the pure reference, beside the machine's limits; `bench_rivals.py` has
its peers on the same messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from flightlog.tools.bench.case import Case
from flightlog.tools.bench.harness import Options
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.pedantic import run_pedantic
from flightlog.tools.bench.plan import BODY_SIZES, Peers, append_cases, flush_cases

ALL = append_cases(BODY_SIZES, Peers(), None) + flush_cases(BODY_SIZES, Options.threads, Peers(), None)
CASES = list(dict.fromkeys(ALL))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_write(benchmark: BenchmarkFixture, case: Case, tmp_path: Path) -> None:
    if case.needs_disk and this_machine(tmp_path).is_in_memory:
        pytest.skip("a sync in memory syncs nothing: name a disk's folder with --basetemp")
    run_pedantic(benchmark, case, tmp_path)
