"""The machine on which a figure was measured; without it, the figure means nothing."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from .device import device_name

MOUNTS = Path("/proc/self/mountinfo")
CPU_INFO = Path("/proc/cpuinfo")
IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs", "fuse.glusterfs", "lustre"})
LAYERED = frozenset({"overlay", "aufs"})


@dataclass(frozen=True)
class Machine:
    """CPU, kernel, Python and file system, as the report shows them first."""

    cpus: int
    """CPUs that this process may use."""
    cpu: str
    kernel: str
    python: str
    file_system: str
    """Type of the file system of the bench's folder, or 'unknown'."""
    device: str = ""
    """The block device under it, where it has one."""

    @property
    def is_in_memory(self) -> bool:
        """Whether a sync in the folder syncs nothing."""
        return self.file_system in IN_MEMORY

    @property
    def warnings(self) -> list[str]:
        """What makes figures of this file system mean less than they seem to."""
        found = []
        if self.file_system in NETWORK:
            found.append(f"{self.file_system} is a network mount: measured is the network, and who else uses it")
        if self.file_system in LAYERED:
            found.append(f"{self.file_system} hides the file system that does the work: name a folder on a volume")
        return found

    def __str__(self) -> str:
        place = f"{self.file_system} on {self.device}" if self.device else self.file_system
        return f"{self.cpus} x {self.cpu}, {self.kernel}, Python {self.python}, {place}"


def this_machine(folder: Path) -> Machine:
    """The machine as seen from `folder`."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    kernel = f"{platform.system()} {platform.release()}"
    return Machine(cpus, _cpu(), kernel, platform.python_version(), file_system(folder), device_name(folder))


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
