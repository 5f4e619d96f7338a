"""How pytest-benchmark runs a case of this harness: every round prepared anew, and only the work is timed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from .case import Case, Work

ROUNDS = 5


class PedanticBenchmark(Protocol):
    """What is used of pytest-benchmark's fixture."""

    extra_info: dict[str, Any]
    group: str | None

    def pedantic(self, target: Any, *, setup: Any, rounds: int, warmup_rounds: int) -> Any: ...


def run_pedantic(benchmark: PedanticBenchmark, case: Case, folder: Path) -> None:
    """Measure it; messages a second and record sizes stand in the extra info."""
    benchmark.group = f"{case.name}, bodies of {case.body_size:,} bytes"
    benchmark.extra_info |= {"messages": case.count, "record_size": case.record_size, "bytes": case.size}
    with ExitStack() as this_round:

        def setup() -> tuple[tuple[Work], dict[str, Any]]:
            this_round.close()  # the round before
            return (this_round.enter_context(case.prepared(folder)),), {}

        benchmark.pedantic(lambda work: work(), setup=setup, rounds=ROUNDS, warmup_rounds=1)
