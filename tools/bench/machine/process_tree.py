"""CPU time and bytes read by all descendants of this process, from Linux's /proc.

A process's counts include its children that ended and were waited for, so little is lost as Spark's workers come and
go. If a daemon ends, the counts of its orphaned workers are lost; and while a process loses a child, /proc may omit
another one, whose old counts would then appear in the next sample. Such intervals give no figures (NaN).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
JAVA = "java"


@dataclass(frozen=True)
class Usage:
    """Sums over processes; NaN where they cannot be told."""

    cpu_s: float
    """CPU time of all of them."""
    read_size: float
    """Bytes that read calls returned to those that are not Java: files for the most part, and a task's few orders."""
    daemons: frozenset[int] = frozenset()
    """Children of a Java."""
    newest_start_s: float = 0.0
    """When the last of them was started, since the machine was."""
    at_s: float = 0.0
    """When this was looked at."""

    def __sub__(self, before: Usage) -> Usage:
        cpu_s, read_size = self.cpu_s - before.cpu_s, self.read_size - before.read_size
        # Less than before: somebody ended just between the looks at it and at its parent.
        has_lost = bool(before.daemons - self.daemons)
        has_found = bool(self.daemons - before.daemons) and self.newest_start_s < before.at_s
        if has_lost or has_found or cpu_s < 0 or read_size < 0:
            return Usage(math.nan, math.nan)
        return Usage(cpu_s, read_size)


def usage_below(pid: int) -> Usage:
    """The usage of all descendants of this process, without itself."""
    at_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    ticks = read_size = 0
    daemons, starts = set(), {}
    for child in below(pid):
        try:
            name, _, text = (PROC / str(child) / "stat").read_text().partition("(")[2].rpartition(")")
            fields = text.split()
            # utime, stime, cutime and cstime: the 14th to 17th field of all, two of which stand before these.
            ticks += sum(map(int, fields[11:15]))
            starts[child] = int(fields[19]) / TICKS_A_SECOND
            if name == JAVA:
                daemons |= set(children(child))
            else:
                read_size += int((PROC / str(child) / "io").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended: its parent counts it from now on
    newest_start_s = max((starts.get(daemon, 0.0) for daemon in daemons), default=0.0)
    return Usage(ticks / TICKS_A_SECOND, read_size, frozenset(daemons), newest_start_s, at_s)


def below(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from below(child)


def children(pid: int) -> list[int]:
    try:
        return [
            int(child)
            for thread in (PROC / str(pid) / "task").iterdir()
            for child in (thread / "children").read_text().split()
        ]
    except (FileNotFoundError, ProcessLookupError):
        return []
