"""The cases of `flightlog bench` under pytest-benchmark: this store, the machine's limits, installed peers, and reads.

Each round starts from a fresh setup. Only the work is timed: from the first put until everything can be read.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from flightlog.tools.bench.case import PUT, Case, Work
from flightlog.tools.bench.harness import Options
from flightlog.tools.bench.machine.machine import this_machine
from flightlog.tools.bench.plan import BODY_SIZES, SUBJECTS, Peers, append_cases, flush_cases, subject_cases
from flightlog.tools.bench.runner import prepared
from flightlog.tools.bench.writers import peers_at_hand

ROUNDS = 5
COUNT, SYNC_COUNT = 20_000, 400
"""Messages in a round of single puts. Equal for all writers, because pytest-benchmark compares rounds."""
CALLS = 20
"""Calls of each thread in a round of batch puts."""
PEERS = Peers(peers_at_hand())
PUTS = append_cases(BODY_SIZES, PEERS, None) + flush_cases(BODY_SIZES, Options.threads, PEERS, None)
READS = [case for subject in SUBJECTS for case in subject_cases(subject, BODY_SIZES, None)]


def sized(case: Case) -> Case:
    """The case with the number of calls of a round."""
    if case.task != PUT:
        return case
    one_by_one = SYNC_COUNT if case.sync else COUNT
    return replace(case, calls=CALLS * case.threads if case.batch > 1 else max(one_by_one, CALLS * case.threads))


@pytest.mark.parametrize("case", map(sized, dict.fromkeys((*PUTS, *READS))), ids=str)
def test_case(benchmark: BenchmarkFixture, case: Case, tmp_path: Path) -> None:
    """One case. The extra info has the messages of a round and the record sizes."""
    if case.needs_disk and this_machine(tmp_path).is_in_memory:
        pytest.skip("a sync in memory syncs nothing: name a disk's folder with --basetemp")
    benchmark.group = f"{case.mode}, bodies of {case.body_size:,} bytes"
    benchmark.extra_info |= {"messages": case.count, "record_size": case.record_size, "bytes": case.size}
    with ExitStack() as this_round:

        def setup() -> tuple[tuple[Work], dict[str, Any]]:
            this_round.close()  # of the previous round
            return (this_round.enter_context(prepared(case, tmp_path)),), {}

        benchmark.pedantic(lambda work: work(False), setup=setup, rounds=ROUNDS, warmup_rounds=1)  # type: ignore[no-untyped-call]
