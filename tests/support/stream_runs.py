"""Runs of stream_query.py: started, killed and started again, and what has come into the sink."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = Path(__file__).with_name("stream_query.py")
LIMIT_S = 300.0  # for a session to start, or a batch to come, on a machine that may do a lot besides


class SinkRow(NamedTuple):
    """A message as it came into the sink."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    body_sha1: str


class StreamRuns:
    """One query, in many processes one after the other."""

    def __init__(self, store: Path, folder: Path, options: Mapping[str, str]) -> None:
        self.sink = folder / "sink"
        self._told = {"store": str(store), "checkpoint": str(folder / "checkpoint"), "sink": str(self.sink)}
        self._options = dict(options)
        self.errors = folder / "stderr"
        folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def running(self, **told: Any) -> Iterator[RunningStream]:
        """A run; killed at the end, Spark's JVM and all."""
        argument = json.dumps({**self._told, "options": self._options, **told})
        with self.errors.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", str(PROGRAM), argument],
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        running = RunningStream(process, self.errors)
        try:
            yield running
        finally:
            running.kill()

    def read_to_the_end(self) -> None:
        """A run that ends by itself when it has read what there is."""
        with self.running(availableNow=True) as run:
            assert run.await_end() == 0, run.said()

    def batches(self) -> list[list[SinkRow]]:
        """What is in the sink, batch by batch."""
        return [
            [SinkRow(*json.loads(line)) for line in path.read_text().splitlines()]
            for path in sorted(self.sink.iterdir())
            if not path.suffix
        ]


class RunningStream:
    """A process with a query."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self._process, self._errors = process, errors
        self.batches = 0
        self._changed = threading.Condition()
        self._has_ended = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.batches += "batch" in json.loads(line)
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def await_batches(self, count: int) -> None:
        """Return once this run has put so many batches into the sink."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.batches >= count or self._has_ended, LIMIT_S), self.said()
        assert self.batches >= count, self.said()

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


def assert_gapless(rows: list[SinkRow], segment_size: int) -> None:
    """Every record of the log from its beginning: each begins where the one before it ends, or a segment."""
    assert rows[0].physical_offset == 0
    for before, after in itertools.pairwise(rows):
        end = before.physical_offset + before.size
        assert after.physical_offset in (end, -(-end // segment_size) * segment_size), f"between {before} and {after}"
