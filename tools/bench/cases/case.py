"""One thing to measure, and how it is measured once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ....store import native

Work = Callable[[], object]
"""What is timed. Called once. What times its calls one by one returns them: ns, int64."""

Prepare = Callable[[Path, int, int], AbstractContextManager[Work]]
"""(folder, body size, count) -> the work, ready to be timed. What it leaves in `folder` can be used again."""


class Measured(NamedTuple):
    """One round."""

    seconds: float
    latencies_ns: np.ndarray | None = None
    """int64, one a call, if the work has timed its calls."""


@dataclass(frozen=True)
class Case:
    """A workload at one body size, over the C kernel or the pure reference."""

    name: str
    body_size: int
    """Bytes."""
    record_size: int
    """Bytes of one record in the log."""
    count: int
    """Messages that one round handles."""
    prepare: Prepare
    kernel: str | None = None
    """"c" or "pure"; None for what does not use it."""
    against: str | None = None
    """The name of the reference that it is compared with."""
    writes: bool = True
    """Whether it writes its bytes to the folder in every round."""
    needs_disk: bool = False
    """Whether it measures the disk, so that a file system in memory would give a figure that means nothing."""
    rival: str | None = None
    """The name of the case that does the same by RocketMQ's own store, where there is one."""

    def __str__(self) -> str:
        kernel = f", {self.kernel}" if self.kernel else ""
        return f"{self.name}, {self.body_size} B{kernel}"

    @property
    def size(self) -> int:
        """Bytes of records that one round handles."""
        return self.count * self.record_size

    @contextmanager
    def prepared(self, folder: Path) -> Iterator[Work]:
        """The work, with the case's kernel at work until the context ends."""
        before = native.NAME
        native.use(self.kernel or before)
        try:
            with self.prepare(folder, self.body_size, self.count) as work:
                yield work
        finally:
            native.use(before)

    def measure(self, folder: Path) -> Measured:
        """One round."""
        with self.prepared(folder) as work:
            started_s = time.perf_counter()
            returned = work()
            seconds = time.perf_counter() - started_s
        return Measured(seconds, returned if isinstance(returned, np.ndarray) else None)
