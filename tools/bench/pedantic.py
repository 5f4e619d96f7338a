"""How pytest-benchmark runs a case of this harness: every round prepared anew, and only the work is timed."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from .case import PUT, Case, Work
from .runner import prepared

ROUNDS = 5
COUNT, SYNC_COUNT = 20_000, 400
"""Messages of a round of puts one by one. Every writer puts as many: pytest-benchmark compares rounds."""
CALLS = 20
"""Calls of a round where a call takes many messages, each of its threads."""


class PedanticBenchmark(Protocol):
    """What is used of pytest-benchmark's fixture."""

    extra_info: dict[str, Any]
    group: str | None

    def pedantic(self, target: Any, *, setup: Any, rounds: int, warmup_rounds: int) -> Any: ...


def run_pedantic(benchmark: PedanticBenchmark, case: Case, folder: Path) -> None:
    """Measure it, puts until everything can be read; messages a round and record sizes are in the extra info."""
    if case.task == PUT:
        one_by_one = SYNC_COUNT if case.sync else COUNT
        calls = CALLS * case.threads if case.batch > 1 else max(one_by_one, CALLS * case.threads)
        case = replace(case, calls=calls)
    benchmark.group = f"{case.mode}, bodies of {case.body_size:,} bytes"
    benchmark.extra_info |= {"messages": case.count, "record_size": case.record_size, "bytes": case.size}
    with ExitStack() as this_round:

        def setup() -> tuple[tuple[Work], dict[str, Any]]:
            this_round.close()  # the round before
            return (this_round.enter_context(prepared(case, folder)),), {}

        benchmark.pedantic(lambda work: work(False), setup=setup, rounds=ROUNDS, warmup_rounds=1)
