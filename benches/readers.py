"""Many readers on a backlog, beside a writer at half its speed.

A round has three parts of the same length: the writer alone, as fast as it goes; one reader alone; then all readers,
each over the whole backlog again and again, beside the writer, which puts half as many a second as it did alone, as
they fall due.

A reader's **solo share** is what a fair split of one reader's speed comes to: its speed alone, divided by the number of
readers that share a core. Threads of one process share its interpreter, so all of them share one core; processes share
the machine's. What the writer takes is not left out of it: beside a writer that uses half of what readers have, half of
the share is what is left. The writer kept pace if it put what fell due.

    threads      in the writer's process, reading the store that it writes
    processes    each with a read-only view of its own, and nice 10: of seventeen busy processes that are all alike the
                 system gives each a seventeenth, the writer too, whatever the store does
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

from flightlog.benches.loads import load
from flightlog.benches.reader import LOOK_EVERY, READY, read_for
from flightlog.engine.message_store import MessageStore, open_store
from flightlog.store.message import Message
from flightlog.store.settings import StoreSettings
from flightlog.tools.bench.case import Case, Sample
from flightlog.tools.bench.drive import in_threads, no_collection
from flightlog.tools.bench.messages import QUEUES, make_rows, parts, record_size

THREADS, PROCESSES = KINDS = ("threads", "processes")
PARTS = 3
"""Of a round, of the same length."""
WRITER_PART = 0.5
NAP_S = 0.001
"""A writer that has put what was due sleeps so long: it does not keep the interpreter from the readers."""
PROGRAM = Path(__file__).with_name("reader.py")
TASK = "Readers on a backlog beside a writer at half its speed, thousand messages/s"
WRITTEN_A_SECOND = 1 << 30
"""Bytes that a writer puts at most, about."""
SHARE, PACE = "of its share", "of its pace"


def room_needed(body_size: int, messages: int, seconds: float) -> int:
    """Bytes that the log of a round grows to at most, about: each has a store of its own."""
    return messages * record_size(body_size) + int((1 + WRITER_PART) * seconds * WRITTEN_A_SECOND)


def cases(readers: int, body_size: int, messages: int, seconds: float) -> list[Case]:
    """One of each kind of reader."""
    return [
        load(f"{readers} {kind}", TASK, partial(measure, kind, readers, body_size, messages, seconds)) for kind in KINDS
    ]


def measure(kind: str, readers: int, body_size: int, messages: int, seconds: float, folder: Path) -> Sample:
    """One round, over a backlog of its own."""
    with backlog(folder, body_size, messages) as (store, made), ExitStack() as children:
        return Readers(store, made, kind, readers, children).measure(seconds)


def figures_of(alone: float, one: float, per_core: float, found: Sequence[float], beside: float) -> dict[str, float]:
    """All in thousand messages a second: the writer alone, one reader alone, all readers, the writer beside them."""
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
    """A backlog, its writer, and readers of one kind; processes end with `children`."""

    def __init__(
        self, store: MessageStore, messages: Sequence[Message], kind: str, count: int, children: ExitStack
    ) -> None:
        self._store, self._messages, self._count = store, messages, count
        self._each = len(messages) // QUEUES
        self._children: list[Child] = []
        if kind == PROCESSES:
            made = [Child(store.path, self._each) for _ in range(count)]
            self._children = [children.enter_context(child) for child in made]
            for child in self._children:
                child.answer(READY)
        self.per_core = max(count / (1 if kind == THREADS else len(os.sched_getaffinity(0))), 1.0)

    def measure(self, seconds: float) -> Sample:
        """One round. Between its parts everything is drained and on the disk."""
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
        return Sample(len(self._messages), PARTS * seconds, PARTS * seconds, figures=rates)

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
        return done / (time.perf_counter() - started_s)  # late, if it had to catch up

    def _read(self, count: int, seconds: float) -> list[float]:
        for child in self._children[:count]:
            child.read(seconds)
        if self._children:
            return [float(child.answer()) for child in self._children[:count]]
        return in_threads([lambda: read_for(self._store, self._each, seconds)] * count)


class Child:
    """A process with a view, which reads when it is told to."""

    def __init__(self, path: Path, each: int) -> None:
        command = [sys.executable, "-P", str(PROGRAM), str(path), str(each)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self, seconds: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def answer(self, expected: str | None = None) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line or (expected is not None and line != expected):
            raise RuntimeError(f"a reader's process ended, or said {line!r}; see above")
        return line

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()


@contextmanager
def backlog(folder: Path, body_size: int, count: int) -> Iterator[tuple[MessageStore, list[Message]]]:
    """A store at its defaults, open for writing, and its messages: as many in each queue."""
    messages = [row.message() for row in make_rows(body_size, max(count // QUEUES, 1) * QUEUES)]
    with open_store(folder / "backlog", StoreSettings()) as store:
        for batch in parts(messages):
            store.put_many(batch)
        store.flush()
        store.queues()
        yield store, messages
