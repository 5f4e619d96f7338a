"""The cases of `flightlog bench serve`: an order for the load program, to one of the two servers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..case import Case, Prepare, Sample, Work
from .servers import DRAINED, GROUPS, SENT, WATCHED, RunningServer

OWN_SERVER, ROCKETMQ_SERVER = "flightlog serve", "RocketMQ's broker and proxy"
AT_REST = "Start, and memory then and after the load"
BODY_SIZE = 1024
CLIENTS = (1, 8, 64)
BATCH = 32
BATCH_CLIENTS = RECEIVERS = 8
LEFT_PART = 0.8
"""Part of the waiting messages that is received while the clock runs: no client has to wait for the last ones."""
RATE, PACED_COUNT, QUICK_PACED_COUNT = 100.0, 500, 50
DRAIN_COUNT, QUICK_DRAIN_COUNT = 10_000, 640
SEND_S, QUICK_SEND_S = 2.0, 0.3
Start = Callable[[Path], AbstractContextManager[RunningServer]]


class LoadFailedError(Exception):
    """The load program ended with an error, which is on stderr."""


def run_load(address: str, what: str, **order: Any) -> Sample:
    """Run the load program, in a process of its own."""
    words = [sys.executable, "-P", "-m", f"{__package__}.load", address, json.dumps({"what": what, **order})]
    found = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if found.returncode:
        raise LoadFailedError(f"{what} of {address}: exit code {found.returncode}, see above")
    answer = json.loads(found.stdout)
    latencies_ns = (np.array(answer["durations"]) * 1e9).astype(np.int64)
    return Sample(answer["count"], answer["seconds"], answer["seconds"], latencies_ns)


def load_cases(who: str, server: RunningServer, *, sync: bool, quick: bool) -> list[Case]:
    """Sends in one flush mode; under async flush receives, and from end to end, too."""
    load = partial(run_load, server.address)

    def case(task: str, prepare: Prepare) -> Case:
        return Case(who, task, BODY_SIZE, sync=sync, rival=(ROCKETMQ_SERVER, task), prepare=prepare)

    def sending(clients: int, batch: int) -> Case:
        order = {"topic": SENT, "clients": clients, "batch": batch, "body_size": BODY_SIZE}
        task = f"send, {'sync' if sync else 'async'}, {_clients(clients)}"
        work = partial(load, "send", seconds=QUICK_SEND_S if quick else SEND_S, **order)
        return case(task + (f", batches of {batch}" if batch > 1 else ""), _just(work))

    cases = [sending(clients, 1) for clients in CLIENTS] + [sending(BATCH_CLIENTS, BATCH)]
    if not sync:
        count = QUICK_DRAIN_COUNT if quick else DRAIN_COUNT
        for clients in (1, RECEIVERS):
            task = f"receive {BATCH} and ack, {_clients(clients)}"
            cases.append(case(task, _draining(server.address, clients, count)))
        paced = {"topic": WATCHED, "group": GROUPS[WATCHED], "rate": RATE}
        paced["count"] = QUICK_PACED_COUNT if quick else PACED_COUNT
        cases.append(case("end to end", _just(partial(load, "end to end", **paced))))
    return cases


def _clients(count: int) -> str:
    return f"{count} client{'s' * (count > 1)}"


def _just(work: Callable[[], Sample]) -> Prepare:
    @contextmanager
    def prepare(case: Case, folder: Path) -> Iterator[Work]:
        yield lambda stamps: work()

    return prepare


def _draining(address: str, clients: int, count: int) -> Prepare:
    """Messages wait before the clock starts."""

    @contextmanager
    def prepare(case: Case, folder: Path) -> Iterator[Work]:
        body = {"topic": DRAINED, "body_size": BODY_SIZE}
        waiting = 0
        while waiting < count:
            waiting += run_load(address, "send", clients=4, batch=BATCH, seconds=0.2, **body).count
        order = {"topic": DRAINED, "group": GROUPS[DRAINED], "clients": clients, "batch": BATCH}
        yield lambda stamps: run_load(address, "receive", count=int(count * LEFT_PART), **order)

    return prepare


def start_case(who: str, start: Start) -> Case:
    """From the first process until a client has a route, and the memory then."""

    def work(folder: Path) -> Sample:
        with TemporaryDirectory(dir=folder) as place, start(Path(place)) as server:
            return _at_rest(server, {"start, s": server.started_s})

    @contextmanager
    def prepare(case: Case, folder: Path) -> Iterator[Work]:
        yield lambda stamps: work(folder)

    return Case(f"{who}, started", AT_REST, BODY_SIZE, has_figures=True, prepare=prepare)


def memory_case(who: str, server: RunningServer) -> Case:
    prepare = _just(lambda: _at_rest(server, {}))
    return Case(f"{who}, after the load", AT_REST, BODY_SIZE, has_figures=True, prepare=prepare)


def _at_rest(server: RunningServer, figures: dict[str, float]) -> Sample:
    return Sample(1, server.started_s, server.started_s, figures=figures | server.memory)
