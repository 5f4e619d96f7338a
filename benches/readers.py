"""Many readers of a backlog, with a concurrent writer at half of its speed.

A round has three parts of equal length: the writer alone at full speed; one reader alone; then all readers, each
reading the whole backlog repeatedly, while the writer puts at half of its full rate, evenly paced.

A reader's **solo share** is its fair share of one reader's speed: the speed alone, divided by the number of readers on
a core. Threads of one process share the GIL, so all of them share one core; processes share all cores. The share does
not account for the writer: if the writer uses half of the readers' CPU, half of the share is left. The writer kept pace
if it put all messages that were due.

    threads      in the process of the writer, on the same store object
    processes    each runs this file, with its own read-only view, at nice 10: of seventeen equally busy processes, the
                 system would give each a seventeenth of the CPU, the writer included, whatever the store does
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from flightlog.benches.loads import load
from flightlog.engine.message_store import MessageStore, open_store
from flightlog.engine.read_only import ReadOnlyStore, open_read_only
from flightlog.store.message import Message
from flightlog.store.settings import StoreSettings
from flightlog.tools.bench.case import Case, Sample
from flightlog.tools.bench.drive import in_threads, no_collection
from flightlog.tools.bench.messages import QUEUES, TOPIC, make_rows, parts, record_size

THREADS, PROCESSES = KINDS = ("threads", "processes")
WRITER_PART = 0.5
NAP_S = 0.001
"""Pause of the writer when no message is due, so that it does not hold the GIL."""
LOOK_EVERY = 256
"""Messages between two checks of the clock."""
NICE = 10
READY = "ready"
TASK = "Readers on a backlog beside a writer at half its speed, thousand messages/s"
WRITTEN_A_SECOND = 1 << 30
"""Approximate upper limit of the bytes that a writer puts."""
SHARE, PACE = "of its share", "of its pace"


def room_needed(body_size: int, messages: int, seconds: float) -> int:
    """Approximate upper limit of the log size of a round; each round has its own store."""
    return messages * record_size(body_size) + int((1 + WRITER_PART) * seconds * WRITTEN_A_SECOND)


def cases(readers: int, body_size: int, messages: int, seconds: float) -> list[Case]:
    """A case for each kind of reader."""
    return [
        load(f"{readers} {kind}", TASK, partial(measure, kind, readers, body_size, messages, seconds)) for kind in KINDS
    ]


def measure(kind: str, readers: int, body_size: int, messages: int, seconds: float, folder: Path) -> Sample:
    """Measure one round with a new backlog."""
    with backlog(folder, body_size, messages) as (store, made), ExitStack() as children:
        return Readers(store, made, kind, readers, children).measure(seconds)


@contextmanager
def backlog(folder: Path, body_size: int, count: int) -> Iterator[tuple[MessageStore, list[Message]]]:
    """A store with default settings, open for writing, and its messages, evenly spread over the queues."""
    messages = [row.message() for row in make_rows(body_size, max(count // QUEUES, 1) * QUEUES)]
    with open_store(folder / "backlog", StoreSettings()) as store:
        for batch in parts(messages):
            store.put_many(batch)
        store.flush()
        store.queues()
        yield store, messages


def figures_of(alone: float, one: float, per_core: float, found: Sequence[float], beside: float) -> dict[str, float]:
    """In thousand messages a second: the writer alone, one reader alone, all readers, and the writer beside them."""
    share = one / per_core
    return {
        "writer alone": alone,
        "one alone": one,
        "its share": share,
        "the slowest": min(found),
        SHARE: min(found) / share,
        "all": sum(found),
        "writer beside": beside,
        PACE: beside / (WRITER_PART * alone),
    }


class Readers:
    """A backlog, its writer, and readers of one kind."""

    def __init__(
        self, store: MessageStore, messages: Sequence[Message], kind: str, count: int, children: ExitStack
    ) -> None:
        self._store, self._messages, self._count = store, messages, count
        self._each = len(messages) // QUEUES
        self._children: list[subprocess.Popen[str]] = []
        if kind == PROCESSES:
            command = [sys.executable, "-P", __file__, str(store.path), str(self._each)]
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            started = [subprocess.Popen(command, **pipes) for _ in range(count)]
            self._children = [children.enter_context(child) for child in started]
            for child in self._children:
                _answer(child)
        self.per_core = max(count / (1 if kind == THREADS else len(os.sched_getaffinity(0))), 1.0)

    def measure(self, seconds: float) -> Sample:
        """Measure one round. Between its parts, everything is dispatched and flushed."""
        with no_collection():
            alone = self._write(seconds, None)
            self._rest()
            [one] = self._read(1, seconds)
            self._rest()
            beside: list[float] = []
            writer = threading.Thread(target=lambda: beside.append(self._write(seconds, alone * WRITER_PART)))
            writer.start()
            found = self._read(self._count, seconds)
            writer.join()
        self._rest()
        rates = figures_of(alone / 1e3, one / 1e3, self.per_core, [rate / 1e3 for rate in found], beside[0] / 1e3)
        return Sample(len(self._messages), 3 * seconds, 3 * seconds, figures=rates)

    def _rest(self) -> None:
        self._store.queues()
        os.sync()

    def _write(self, seconds: float, rate: float | None) -> float:
        put, messages = self._store.put, cycle(self._messages)
        started_s, passed_s, done = time.perf_counter(), 0.0, 0
        while passed_s < seconds:
            passed_s = time.perf_counter() - started_s
            due = done + LOOK_EVERY if rate is None else int(min(passed_s, seconds) * rate)
            if due == done:
                time.sleep(NAP_S)
            for message in islice(messages, due - done):
                put(message)
            done = due
        return done / (time.perf_counter() - started_s)  # longer than planned if it had to catch up

    def _read(self, count: int, seconds: float) -> list[float]:
        if not self._children:
            return in_threads([lambda: read_for(self._store, self._each, seconds)] * count)
        for child in self._children[:count]:
            assert child.stdin is not None
            child.stdin.write(f"{seconds}\n")
            child.stdin.flush()
        return [float(_answer(child)) for child in self._children[:count]]


def _answer(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise RuntimeError("a reader's process ended, see above")
    return line


def read_for(store: MessageStore | ReadOnlyStore, each: int, seconds: float) -> float:
    """Read the first `each` messages of every queue repeatedly. Returns messages a second."""
    started_s, passed_s, done = time.perf_counter(), 0.0, 0
    messages = again_and_again(store, each)
    while passed_s < seconds:
        for message in islice(messages, LOOK_EVERY):
            done += len(message.body) > 0
        passed_s = time.perf_counter() - started_s
    return done / passed_s


def again_and_again(store: MessageStore | ReadOnlyStore, each: int) -> Iterator[Any]:
    while True:
        for queue_id in range(QUEUES):
            yield from islice(store.read(TOPIC, queue_id), each)


def _read_on_command(path: Path, each: int) -> None:
    os.nice(NICE)
    with open_read_only(path) as view:
        print(READY, flush=True)
        for line in sys.stdin:
            with no_collection():
                print(read_for(view, each, float(line)), flush=True)


if __name__ == "__main__":
    _read_on_command(Path(sys.argv[1]), int(sys.argv[2]))
