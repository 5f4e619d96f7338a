"""The disk of the state machine: a PowerDisk that can run full, and that says what time it is.

disk = MachineDisk(root)
disk.full_after = 3                        # three more operations that need room, then none has any
disk.written_ms["00000000000000004096"]    # when the segment of this name was last written to
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from flightlog.store.disk.disk import DiskSpace, RealFile
from flightlog.store.disk.disk_errors import disk_errors
from flightlog.testing.power_disk import Inode, PowerDisk, PowerFile

HAS_ITS_BLOCKS = ("progress", "checkpoint", "abort")
"""Files that are written over and over in their first page."""


class MachineFile(PowerFile):
    """Needs room for what it has no blocks for yet."""

    def __init__(self, disk: MachineDisk, file: RealFile, writable: bool, inode: Inode | None) -> None:
        super().__init__(disk, file, writable, inode)
        self._room = disk

    def write(self, position: int, data: bytes | memoryview) -> None:
        if "commitlog" not in self.path.parts and self.path.name not in HAS_ITS_BLOCKS:
            with disk_errors(self.path, f"writing {len(data)} bytes at {position}", len(data)):
                self._room.take_room()
        super().write(position, data)

    def allocate(self, position: int, size: int) -> None:
        with disk_errors(self.path, f"allocating {size} bytes at {position}", size):
            self._room.take_room()
        super().allocate(position, size)


class MachineDisk(PowerDisk):
    """Nothing of what it answers depends on the machine that it runs on."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.full_after: int | None = None
        self.written_ms: dict[str, int] = {}

    @property
    def is_dead(self) -> bool:
        """Whether an operation was the last one."""
        return self.left is not None

    def take_room(self) -> None:
        """Called before whatever needs blocks. Raises OSError if there are none."""
        if self.full_after == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.full_after is not None:
            self.full_after -= 1

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        if create and not path.exists():
            with disk_errors(path, "creating it"):
                self.take_room()
        file = super().open(path, writable=writable, create=create)
        return MachineFile(self, file, writable, file.inode) if isinstance(file, PowerFile) else file

    def open_unnamed(self, path: Path) -> PowerFile | None:
        with disk_errors(path, "creating it"):
            self.take_room()
        file = super().open_unnamed(path)
        return None if file is None else MachineFile(self, file, True, file.inode)

    def modified_ms(self, path: Path) -> int:
        return self.written_ms.get(path.name, 0)

    def space(self, path: Path) -> DiskSpace:
        return DiskSpace(50, 50)

    def free_size(self, path: Path) -> int:
        return 1 << 40
