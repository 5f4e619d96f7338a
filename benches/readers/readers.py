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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from flightlog.engine.message_store import MessageStore, open_store
from flightlog.engine.read.readable import ReadableStore
from flightlog.engine.read_only import open_read_only
from flightlog.store.message import Message
from flightlog.store.settings import StoreSettings
from flightlog.tools.bench.cases.workloads import BATCH, QUEUES, TOPIC, make_messages
from flightlog.tools.bench.loads.drive import no_collection

THREADS, PROCESSES = "threads", "processes"
LOOK_EVERY = 256
"""Messages between two looks at the clock."""
WRITER_PART = 0.5
NAP_S = 0.001
"""A writer that has put what was due sleeps so long: it does not keep the interpreter from the readers."""
READY = "ready"
NICE = 10


@dataclass(frozen=True)
class ReadersRound:
    """Messages a second."""

    writer_alone: float
    reader_alone: float
    solo_share: float
    readers: tuple[float, ...]
    writer: float
    """Beside the readers."""

    @property
    def slowest_share(self) -> float:
        """Of the slowest reader: how much of its solo share it got."""
        return min(self.readers) / self.solo_share

    @property
    def pace(self) -> float:
        """How much of what fell due the writer put."""
        return self.writer / (WRITER_PART * self.writer_alone)


class Readers:
    """A backlog, its writer, and readers of one kind."""

    def __init__(self, store: MessageStore, messages: Sequence[Message], kind: str, count: int) -> None:
        self._store, self._messages, self._count = store, messages, count
        self._each = len(messages) // QUEUES
        self._kind = kind
        self._children: list[Child] = []
        cores = 1 if kind == THREADS else len(os.sched_getaffinity(0))
        self._per_core = max(count / cores, 1.0)

    def start(self, children: ExitStack) -> None:
        """Start the processes, if that is what they are."""
        if self._kind == PROCESSES:
            made = [Child(self._store.path, self._each) for _ in range(self._count)]
            self._children = [children.enter_context(child) for child in made]
            for child in self._children:
                child.wait_until_ready()

    def measure(self, seconds: float) -> ReadersRound:
        """One round. Between its parts everything is drained and on the disk."""
        with no_collection():
            writer_alone = self._write(seconds, None)
            self._rest()
            [reader_alone] = self._read(1, seconds)
            self._rest()
            rate = writer_alone * WRITER_PART
            written: list[float] = []
            writer = threading.Thread(target=lambda: written.append(self._write(seconds, rate)), name="bench-writer")
            writer.start()
            found = self._read(self._count, seconds)
            writer.join()
        self._rest()
        return ReadersRound(writer_alone, reader_alone, reader_alone / self._per_core, tuple(found), *written)

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
        if self._kind == PROCESSES:
            for child in self._children[:count]:
                child.read(seconds)
            return [child.rate() for child in self._children[:count]]
        return _in_threads([lambda: read_for(self._store, self._each, seconds)] * count)


def read_for(store: ReadableStore, each: int, seconds: float) -> float:
    """Read the first `each` messages of every queue, again and again; returns messages a second."""
    started_s, passed_s, done = time.perf_counter(), 0.0, 0
    messages = _again_and_again(store, each)
    while passed_s < seconds:
        for message in islice(messages, LOOK_EVERY):
            done += len(message.body) > 0
        passed_s = time.perf_counter() - started_s
    return done / passed_s


def _again_and_again(store: ReadableStore, each: int) -> Iterator[Any]:
    while True:
        for queue_id in range(QUEUES):
            yield from islice(store.read(TOPIC, queue_id), each)


def _in_threads(works: Sequence[Callable[[], float]]) -> list[float]:
    found: list[float] = []
    errors: list[BaseException] = []
    together = threading.Barrier(len(works))

    def one(work: Callable[[], float]) -> None:
        try:
            together.wait()
            found.append(work())
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=one, args=(work,), name="bench-reader") for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


class Child:
    """A process with a view, which reads when it is told to."""

    def __init__(self, path: Path, each: int) -> None:
        command = [sys.executable, "-P", __file__, str(path), str(each)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait_until_ready(self) -> None:
        self._answer(READY)

    def read(self, seconds: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def rate(self) -> float:
        return float(self._answer())

    def _answer(self, expected: str | None = None) -> str:
        assert self._process.stdout is not None
        told = self._process.stdout.readline().strip()
        if not told or (expected is not None and told != expected):
            raise RuntimeError(f"a reader's process ended, or said {told!r}; see above")
        return told

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()


@contextmanager
def backlog(folder: Path, body_size: int, count: int) -> Iterator[tuple[MessageStore, list[Message]]]:
    """A store at its defaults, open for writing, and its messages: as many in each queue."""
    messages = make_messages(body_size, max(count // QUEUES, 1) * QUEUES)
    with open_store(folder / "backlog", StoreSettings()) as store:
        for i in range(0, len(messages), BATCH):
            store.put_many(messages[i : i + BATCH])
        store.flush()
        store.queues()
        yield store, messages


def main() -> None:
    path, each = Path(sys.argv[1]), int(sys.argv[2])
    os.nice(NICE)
    with open_read_only(path) as view:
        print(READY, flush=True)
        for line in sys.stdin:
            with no_collection():
                print(read_for(view, each, float(line)), flush=True)


if __name__ == "__main__":
    main()
