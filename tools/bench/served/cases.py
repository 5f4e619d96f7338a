"""The cases of `flightlog bench serve`: an order for the load program, to one of the two servers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..case import Case, Prepare, Sample, Work
from .servers import DRAINED, GROUPS, SENT, WATCHED, RunningServer

OWN_SERVER, ROCKETMQ_SERVER = "flightlog serve", "RocketMQ"
START, LOADED, END_TO_END = "start", "memory after the load", "end to end"
BODY_SIZE = 1024
CLIENTS = (1, 8, 64)
BATCH = 32
BATCH_CLIENTS = RECEIVERS = 8
LEFT_PART = 0.8
"""Of the messages that wait, this part is received in the clock: no client has to wait for the last ones."""
RATE, PACED_COUNT, QUICK_PACED_COUNT = 100.0, 500, 50
DRAIN_COUNT, QUICK_DRAIN_COUNT = 10_000, 640
SEND_S, QUICK_SEND_S = 2.0, 0.3
Start = Callable[[Path], AbstractContextManager[RunningServer]]


class LoadFailedError(Exception):
    """The load program ended with an error, which is on stderr."""


def run_load(address: str, what: str, **order: Any) -> Sample:
    """Run the load program, in a process of its own."""
    words = [
        sys.executable,
        "-P",
        "-m",
        "flightlog.tools.bench.served.load",
        address,
        json.dumps({"what": what, **order}),
    ]
    found = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if found.returncode:
        raise LoadFailedError(f"{what} of {address}: exit code {found.returncode}, see above")
    answer = json.loads(found.stdout)
    latencies_ns = (np.array(answer["durations"]) * 1e9).astype(np.int64)
    return Sample(answer["count"], answer["seconds"], answer["seconds"], latencies_ns)


def send_name(clients: int, batch: int, *, sync: bool) -> str:
    words = f"send, {'sync' if sync else 'async'}, {clients} client{'s' * (clients > 1)}"
    return words + (f", batches of {batch}" if batch > 1 else "")


def receive_name(clients: int) -> str:
    return f"receive {BATCH} and ack, {clients} client{'s' * (clients > 1)}"


def load_cases(who: str, server: RunningServer, *, sync: bool, quick: bool) -> list[Case]:
    """Sends in one flush mode; under async flush receives, and from end to end, too."""
    address, seconds = server.address, QUICK_SEND_S if quick else SEND_S

    def case(task: str, prepare: Prepare) -> Case:
        return Case(who, task, BODY_SIZE, sync=sync, prepare=prepare)

    def sending(clients: int, batch: int) -> Case:
        order = {"topic": SENT, "clients": clients, "batch": batch, "body_size": BODY_SIZE, "seconds": seconds}
        return case(send_name(clients, batch, sync=sync), _just(lambda: run_load(address, "send", **order)))

    cases = [sending(clients, 1) for clients in CLIENTS] + [sending(BATCH_CLIENTS, BATCH)]
    if not sync:
        count = QUICK_DRAIN_COUNT if quick else DRAIN_COUNT
        cases += [case(receive_name(clients), _draining(address, clients, count)) for clients in (1, RECEIVERS)]
        paced = {"topic": WATCHED, "group": GROUPS[WATCHED], "rate": RATE}
        paced_count = QUICK_PACED_COUNT if quick else PACED_COUNT
        cases.append(case(END_TO_END, _just(lambda: run_load(address, "end to end", count=paced_count, **paced))))
    return cases


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

    @contextmanager
    def prepare(case: Case, folder: Path) -> Iterator[Work]:
        with TemporaryDirectory(dir=folder) as place:

            def work(stamps: bool) -> Sample:
                with start(Path(place)) as server:
                    return Sample(1, server.started_s, server.started_s, figures=server.memory)

            yield work

    return Case(who, START, BODY_SIZE, prepare=prepare)


def memory_case(who: str, server: RunningServer) -> Case:
    return Case(who, LOADED, BODY_SIZE, prepare=_just(lambda: Sample(1, 1.0, 1.0, figures=server.memory)))
