"""Peers on the messages of `bench_writers.py`, as many of them as are installed: `pip install 'flightlog[peers]'`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from flightlog.tools.bench.cases.plan import BODY_SIZES
from flightlog.tools.bench.loads.load import Load
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.versus.load_plan import peer_loads
from flightlog.tools.bench.versus.pedantic import run_load_pedantic
from flightlog.tools.bench.versus.versus import THREADS
from flightlog.tools.bench.writers import peers_at_hand

LOADS = [
    load
    for size in BODY_SIZES
    for peer in peers_at_hand()
    for sync in (False, True)
    for load in peer_loads(peer, sync, size, THREADS if sync else ())
]


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_write(benchmark: BenchmarkFixture, load: Load, tmp_path: Path) -> None:
    if load.sync and this_machine(tmp_path).is_in_memory:
        pytest.skip("a sync in memory syncs nothing: name a disk's folder with --basetemp")
    run_load_pedantic(benchmark, load, tmp_path)
