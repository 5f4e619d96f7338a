"""How pytest-benchmark runs a case of this harness: every round prepared anew, and only the work is timed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from ..cases.case import Case, Work
from ..cases.workloads import record_size
from ..loads.drive import drive, no_collection
from ..loads.load import Load
from ..loads.rows import make_rows
from ..writers import opened
from .contest import begin, first_calls

ROUNDS = 5
COUNT, SYNC_COUNT = 20_000, 400
"""Messages of a round one by one. Everybody puts as many: pytest-benchmark compares rounds."""
CALLS = 20
"""Calls of a round where a call takes many messages, each of its threads."""


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


def run_load_pedantic(benchmark: PedanticBenchmark, load: Load, folder: Path) -> None:
    """The same for a writer: every round into an empty folder, until everything that was put can be read."""
    one_by_one = SYNC_COUNT if load.sync else COUNT
    calls = CALLS * load.threads if load.batch > 1 else max(one_by_one, CALLS * load.threads)
    count, size = calls * load.batch, record_size(load.body_size)
    benchmark.group = f"{load.mode}, bodies of {load.body_size:,} bytes"
    benchmark.extra_info |= {"messages": count, "record_size": size, "bytes": count * size}
    with ExitStack() as this_round:

        def setup() -> tuple[tuple[Work], dict[str, Any]]:
            this_round.close()
            place = this_round.enter_context(TemporaryDirectory(dir=folder))
            room = (first_calls(load) * load.batch + count) * size
            session = this_round.enter_context(opened(Path(place), load, room))
            begin(session, load)
            units = session.units(make_rows(load.body_size, count))
            this_round.enter_context(no_collection())

            def work() -> None:
                drive(session.puts(), units, calls, rate=None, stamps=False)
                session.drain()

            return (work,), {}

        benchmark.pedantic(lambda work: work(), setup=setup, rounds=ROUNDS, warmup_rounds=1)
