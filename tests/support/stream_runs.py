"""Runs of stream_query.py: started, killed and started again, and what has come into the sinks."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = Path(__file__).with_name("stream_query.py")
LIMIT_S = 300.0  # for a session to start, or a batch to come, on a machine that may do a lot besides


class SinkRow(NamedTuple):
    """A message as it came into a sink."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    body_sha1: str


class StreamRuns:
    """Some queries over one store, in many processes one after the other."""

    def __init__(self, store: Path, folder: Path, queries: Mapping[str, Mapping[str, str]]) -> None:
        self._folder = folder
        self._told = {"store": str(store), "folder": str(folder), "queries": queries}
        folder.mkdir(parents=True)

    @contextmanager
    def running(self, **told: Any) -> Iterator[RunningStream]:
        """A run; killed at the end, Spark's JVM and all."""
        errors = self._folder / "stderr"
        with errors.open("ab") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-P", str(PROGRAM), json.dumps({**self._told, **told})],
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        running = RunningStream(process, errors)
        try:
            yield running
        finally:
            running.kill()

    def read_to_the_end(self) -> None:
        """A run that ends by itself when it has read what there is."""
        with self.running(availableNow=True) as run:
            assert run.await_end() == 0, run.said()

    def batches(self, query: str) -> list[list[SinkRow]]:
        """What is in a query's sink, batch by batch."""
        return [
            [SinkRow(*json.loads(line)) for line in path.read_text().splitlines()]
            for path in sorted((self._folder / query / "sink").iterdir())
            if not path.suffix
        ]

    def rows(self, query: str) -> list[SinkRow]:
        """All of it, in the order in which it came."""
        return list(itertools.chain.from_iterable(self.batches(query)))


class RunningStream:
    """A process with queries."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self._process, self._errors = process, errors
        self._changed = threading.Condition()
        self._batches: Counter[str] = Counter()
        """Batches with rows that this run has put into each sink."""
        self._has_ended = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            line = json.loads(raw)
            with self._changed:
                self._batches[line["query"]] += line["rows"] > 0
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def await_batches(self, query: str, count: int) -> None:
        """Return once this run has put so many batches of rows into the sink of that query."""
        with self._changed:
            in_time = self._changed.wait_for(lambda: self._batches[query] >= count or self._has_ended, LIMIT_S)
        assert in_time and self._batches[query] >= count, self.said()

    def has_batches(self, query: str, count: int) -> bool:
        """Whether it has by now; an error if it has come to its end."""
        assert not self._has_ended, self.said()
        return self._batches[query] >= count

    def await_end(self) -> int:
        """How the process ended."""
        code = self._process.wait(LIMIT_S)
        self._listener.join()
        return code

    def kill(self) -> None:
        """Be sure that the process is gone, and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.join()

    def said(self) -> str:
        return self._errors.read_text(errors="replace")[-6000:]


def check_log(rows: list[SinkRow], segment_size: int) -> None:
    """Every record of the log from its beginning, once and in order: each begins where the one before it ends, or the
    next segment does."""
    assert rows[0].physical_offset == 0
    for before, after in itertools.pairwise(rows):
        end = before.physical_offset + before.size
        assert after.physical_offset in (end, -(-end // segment_size) * segment_size), f"between {before} and {after}"


def check_queues(rows: list[SinkRow]) -> None:
    """Every message of some queues from their beginning, once, and each queue in order."""
    ends: Counter[tuple[str, int]] = Counter()
    for row in rows:
        assert row.queue_offset == ends[row.topic, row.queue_id], f"{row} behind {ends[row.topic, row.queue_id] - 1}"
        ends[row.topic, row.queue_id] += 1
