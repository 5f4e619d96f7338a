"""`flightlog bench serve`: the server beside RocketMQ's own broker and proxy, under the same load, in turns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from ...store.errors import UsageError
from .case import RAW_LOOP, Case, Outcome
from .harness import Options, begun, finish, measure_with_bar
from .report import say
from .served.cases import (
    BODY_SIZE,
    OWN_SERVER,
    ROCKETMQ_SERVER,
    load_cases,
    memory_case,
    start_case,
)
from .served.rocketmq_proxy import check_proxy_jars
from .served.servers import own_server, rocketmq_server
from .writers import put_case

ROUNDS, QUICK_ROUNDS = 5, 1
START_ROUNDS = 3
RAW_COUNT, QUICK_RAW_COUNT = 500, 50
NOTES = (
    "p50 to max: of one call, or from when a send was due until its message was received (end to end)",
    "RocketMQ's memory is that of its name server and its proxy with the broker inside",
)


def run(options: Options) -> int:
    """Measure and print; returns the exit code. Raises UsageError for wrong options, before anything is written."""
    options.check()
    if options.rocketmq is not None:
        check_proxy_jars(options.rocketmq)
    with begun(options) as (folder, machine):
        if machine.is_in_memory:
            raise UsageError(f"{folder.parent} is on {machine.file_system}: name a disk's folder with --folder")
        outcomes = measure(options, folder)
    return finish(options, machine, outcomes, notes=NOTES)


def measure(options: Options, folder: Path) -> list[Outcome]:
    """Starts first, then loads under async flush and the memory after them, then loads under sync flush."""
    rounds = options.rounds_of(ROUNDS, QUICK_ROUNDS)
    starts: dict[str, Callable[..., Any]] = {OWN_SERVER: own_server}
    if options.rocketmq is not None:
        starts[ROCKETMQ_SERVER] = partial(rocketmq_server, options.rocketmq.resolve())
    say("starts")
    starting = [start_case(who, partial(start, sync=False)) for who, start in starts.items()]
    outcomes = measure_with_bar(starting, min(rounds, START_ROUNDS), folder)
    for sync in (False, True):
        say("sync flush" if sync else "async flush")
        with ExitStack() as running:
            cases: list[list[Case]] = []
            memory = []
            for who, start in starts.items():
                place = folder / f"{'sync' if sync else 'async'}-{len(cases)}"
                place.mkdir()
                server = running.enter_context(start(place, sync=sync))
                cases.append(load_cases(who, server, sync=sync, quick=options.quick))
                memory.append(memory_case(who, server))
            in_turns = [case for same in zip(*cases, strict=True) for case in same]
            if sync:
                calls = QUICK_RAW_COUNT if options.quick else RAW_COUNT
                in_turns.append(put_case(RAW_LOOP, sync=True, body_size=BODY_SIZE, calls=calls))
            measure_with_bar(in_turns, 1, folder)  # warms both up
            outcomes += measure_with_bar(in_turns, rounds, folder)
            if not sync:
                outcomes += measure_with_bar(memory, 1, folder)
    return outcomes
