"""Peers on the messages of `bench_writers.py`, as many of them as are installed: `pip install 'flightlog[peers]'`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from flightlog.tools.bench.case import Case
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.pedantic import run_pedantic
from flightlog.tools.bench.plan import BODY_SIZES, Peers, peer_cases
from flightlog.tools.bench.writers import peers_at_hand

PEERS = Peers(peers_at_hand())
CASES = [case for size in BODY_SIZES for sync in (False, True) for case in peer_cases(PEERS, sync, size, ())]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_write(benchmark: BenchmarkFixture, case: Case, tmp_path: Path) -> None:
    if case.needs_disk and this_machine(tmp_path).is_in_memory:
        pytest.skip("a sync in memory syncs nothing: name a disk's folder with --basetemp")
    run_pedantic(benchmark, case, tmp_path)
