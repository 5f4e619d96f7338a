"""Where a figure was measured: without this it means nothing."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
CPU_INFO = Path("/proc/cpuinfo")
IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})


@dataclass(frozen=True)
class Machine:
    """What the report says first."""

    cpus: int
    """That this process may use."""
    cpu: str
    kernel: str
    python: str
    file_system: str
    """Type of the file system of the bench's folder, or 'unknown'."""

    @property
    def is_in_memory(self) -> bool:
        """Whether a sync in the folder syncs nothing."""
        return self.file_system in IN_MEMORY

    def __str__(self) -> str:
        return f"{self.cpus} x {self.cpu}, {self.kernel}, Python {self.python}, {self.file_system}"


def this_machine(folder: Path) -> Machine:
    """The machine as seen from `folder`."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    kernel = f"{platform.system()} {platform.release()}"
    return Machine(cpus, _cpu(), kernel, platform.python_version(), file_system(folder))


def _cpu() -> str:
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def file_system(folder: Path) -> str:
    """The type of the file system that holds `folder`, by the longest mount point above it."""
    try:
        lines = MOUNTS.read_text().splitlines()
    except OSError:
        return "unknown"
    found = "unknown"
    longest = -1
    place = os.path.realpath(folder)
    for line in lines:
        mount, _, source = line.partition(" - ")
        point = mount.split()[4].encode().decode("unicode_escape")  # a space is written \040
        if len(point) >= longest and (place + "/").startswith(point.rstrip("/") + "/"):
            found, longest = source.split()[0], len(point)
    return found
