"""Child programs that are told what to do line by line, and tell line by line what they did."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from flightlog.tests.soak.ledger import Finding

RUN = Path(__file__).with_name("run.py")
HUNG_S = 400
Line = dict[str, Any]


class EndedError(Exception):
    """The program is no more."""


class Program:
    """run.py in a process of its own, as a writer or as a view."""

    def __init__(self, errors: BinaryIO, *arguments: str) -> None:
        command = [sys.executable, "-P", str(RUN), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()  # nobody who talks may have to wait

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def tell(self, order: Line) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # what it said last is heard all the same
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def next_line(self, deadline_s: float) -> Line:
        """What it says next. Raises EndedError, and TimeoutError behind a deadline by the monotonic clock."""
        try:
            line = self._lines.get(timeout=max(deadline_s - time.monotonic(), 0))
        except queue.Empty:
            raise TimeoutError from None
        if not line.endswith(b"\n"):
            raise EndedError(f"a program of the soak ended with {self._process.wait()}")
        said: Line = json.loads(line)
        return said

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class View:
    """A reader of its own process that follows the store; started anew where it died with a disk without power."""

    def __init__(self, errors: BinaryIO, seed: str) -> None:
        self._errors, self._seed = errors, seed
        self._program = Program(errors, "reader", seed)
        self.said: list[Line] = []
        """What was heard since somebody took it."""
        self.deaths = 0

    def do(self, order: Line) -> None:
        """Return once it is done. A view that died is another one afterwards."""
        self._program.tell(order)
        deadline_s = time.monotonic() + HUNG_S
        try:
            while (line := self._program.next_line(deadline_s)) != {"did": order}:
                self.said.append(line)
        except EndedError as e:
            self.said.append({"trouble": str(e), "at": time.monotonic()})
            self.deaths += 1
            self._program = Program(self._errors, "reader", self._seed)
            if "open" in order:
                self.do(order)
        except TimeoutError:
            raise Finding(f"a view did not answer {order} for {HUNG_S} s") from None

    def stop(self) -> None:
        self._program.stop()


def kill_if_alive(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
