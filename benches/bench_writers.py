"""This store as a writer, with the C kernel and the pure reference, beside the machine's limits; `bench_rivals.py` has
its peers on the same messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from flightlog.tools.bench.cases.plan import BODY_SIZES
from flightlog.tools.bench.loads.load import Load
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.versus.load_plan import append_loads, flush_loads
from flightlog.tools.bench.versus.pedantic import run_load_pedantic
from flightlog.tools.bench.versus.versus import THREADS

LOADS = list(dict.fromkeys(append_loads(BODY_SIZES, (), None) + flush_loads(BODY_SIZES, THREADS, (), None)))


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_write(benchmark: BenchmarkFixture, load: Load, tmp_path: Path) -> None:
    if load.sync and this_machine(tmp_path).is_in_memory:
        pytest.skip("a sync in memory syncs nothing: name a disk's folder with --basetemp")
    run_load_pedantic(benchmark, load, tmp_path)
