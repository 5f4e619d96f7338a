"""Opening a cleanly closed store with a cold page cache: time and bytes read.

The store is small enough for a benchmark round. Tests with `--full` open stores of realistic size, and count the bytes
that recovery reads after 1, 4 and 16 segments of history.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import flightlog
from flightlog.benches.opening import build, open_cold, settings_of
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.machine.page_cache import forget

MESSAGES, QUEUES = 200_000, 200
SETTINGS = settings_of(64 << 20)
ROUNDS = 5


@pytest.mark.parametrize("for_writing", [False, True], ids=["read-only", "for writing"])
def test_open(benchmark: BenchmarkFixture, for_writing: bool, tmp_path: Path) -> None:
    if this_machine(tmp_path).is_in_memory:
        pytest.skip("files in memory are never cold: name a disk's folder with --basetemp")
    build(tmp_path, MESSAGES, QUEUES, SETTINGS)

    store, cost = open_cold(tmp_path, SETTINGS, for_writing=for_writing)
    benchmark.extra_info |= asdict(cost)

    def close_and_forget() -> None:
        store.close()
        forget(tmp_path)

    def open_again() -> None:
        nonlocal store
        store = flightlog.open(tmp_path, SETTINGS) if for_writing else flightlog.open_read_only(tmp_path, SETTINGS)

    again = {"setup": close_and_forget, "rounds": ROUNDS, "warmup_rounds": 0}
    benchmark.pedantic(open_again, **again)  # type: ignore[no-untyped-call]
    store.close()
