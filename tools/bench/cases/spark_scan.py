"""How fast Spark reads a store: all columns into a sink that drops them.

Spark runs in a process of its own for the C kernel and the pure reference each, because its workers take theirs from
the environment that Spark was started in. That process is this module as a program: for each line on stdin, the path of
a store, it scans the store once and answers with a line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from ....spark import session
from ....store.errors import FlightlogError
from ...program import run_program
from .case import Case, Work
from .plan import message_count
from .references import MEMCPY
from .workloads import kept_store, record_size

NAME = "Spark scan"
MORE_MESSAGES = 5
"""A scan handles so many times the messages of the other cases: Spark alone takes tenths of a second."""
ANSWER = b"scanned\n"


class SparkEndedError(FlightlogError):
    """The process that ran Spark ended; what it said before is on stderr."""


def is_possible() -> bool:
    """Whether the extra `spark` is installed."""
    return all(find_spec(name) is not None for name in ("pyspark", "pyarrow"))


class SparkProcess:
    """Spark over the C kernel or the pure reference, in a process that lives until the context ends."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        environment = {**os.environ, "FLIGHTLOG_PURE": "1" if kernel == "pure" else "0"}
        command = [sys.executable, "-P", "-m", __name__]
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def case(self, body_size: int, *, quick: bool = False) -> Case:
        """A scan of a store with bodies of this size. Its first round compiles and starts workers: do not count it."""
        count = message_count(body_size, quick=quick) * MORE_MESSAGES
        size = record_size(body_size)
        return Case(NAME, body_size, size, count, self._prepare, self.kernel, against=MEMCPY, writes=False)

    @contextmanager
    def _prepare(self, folder: Path, body_size: int, count: int) -> Iterator[Work]:
        store = kept_store(folder, body_size, count)
        yield lambda: self._scan(store)

    def _scan(self, store: Path) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(os.fsencode(store) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer tells it
        if self._process.stdout.readline() != ANSWER:
            raise SparkEndedError(f"{store}: the process that ran Spark ended before it had scanned this, see above")

    def __enter__(self) -> SparkProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def main() -> int:
    spark = session("flightlog bench")
    for line in sys.stdin.buffer:
        store = os.fsdecode(line.rstrip(b"\n"))
        spark.read.format("flightlog").load(store).write.format("noop").mode("overwrite").save()
        sys.stdout.buffer.write(ANSWER)
        sys.stdout.buffer.flush()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(run_program(main))
