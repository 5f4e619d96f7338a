"""A RocketMQ that holds a store open and puts while others look on."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from flightlog.tests.interop.harness import Line, RocketMq

END_LIMIT_S = 240.0
CAUGHT_UP_LIMIT_S = 240.0


class LiveRocketMq:
    """One running store. Its `messages` grow while it puts; a line is there as soon as the put has returned. With the
    option `digest` there are none, but `digests` once it is closed: a line a queue."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self._process, self._errors = process, errors
        self.messages: list[Line] = []
        self.digests: list[Line] = []
        self.is_open = threading.Event()
        self._caught_up = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            line = json.loads(raw)
            if line["type"] == "msg":
                self.messages.append(line)
            elif line["type"] == "digest":
                self.digests.append(line)
            elif line["type"] == "caughtUp":
                self._caught_up.set()
            else:
                self.is_open.set()
        self.is_open.set()  # dead: nobody needs to wait any longer
        self._caught_up.set()

    def put(self, count: int) -> None:
        """Tell it to put so many messages; returns at once. One order at a time."""
        self._caught_up.clear()
        self._input.write(f"{count}\n".encode())
        self._input.flush()

    @property
    def is_putting(self) -> bool:
        """Whether the order is not carried out yet, or its messages are not all in their queues."""
        return not self._caught_up.is_set()

    def await_caught_up(self, limit_s: float = CAUGHT_UP_LIMIT_S) -> None:
        """Return once every message is in its queue and nothing more is put."""
        assert self._caught_up.wait(limit_s), "RocketMQ does not get on"
        assert self._process.poll() is None, self.said()

    def close(self) -> None:
        """Let it shut down cleanly."""
        self._input.close()
        code = self._process.wait(END_LIMIT_S)
        self._reader.join()
        assert code == 0, self.said()

    def end(self) -> None:
        """Be sure that it is gone."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def said(self) -> str:
        return self._errors.read_text(errors="replace")[-6_000:]


@contextmanager
def live(rocketmq: RocketMq, environment: Mapping[str, str], arguments: Mapping[str, object]) -> Iterator[LiveRocketMq]:
    """`arguments` are those of the Java program `live`."""
    with tempfile.TemporaryDirectory(prefix="flightlog-java-") as home:
        errors = Path(home) / "stderr"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                rocketmq.command(home, "live", arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=home,
                env=environment,
            )
        running = LiveRocketMq(process, errors)
        try:
            assert running.is_open.wait(CAUGHT_UP_LIMIT_S) and process.poll() is None, running.said()
            yield running
        finally:
            running.end()
