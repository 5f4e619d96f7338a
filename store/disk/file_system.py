"""Syncing everything that was written to a file system in one call: for thousands of small files at a time.

`syncfs` reports a failed write once for each open file description, of the writes since that description was opened
(Linux 5.8; before, never), and on file systems that keep the account themselves: a layered or a network one may not.
So one descriptor is opened before the first write and kept, and elsewhere there is no such sync: files are then synced
one by one.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import SyncFailedError

COPY_ON_WRITE = "copies on write, so a full disk can refuse blocks that were allocated ahead"
SHARED = "lies on another machine, which can refuse what was written, and whose other users no lock here keeps away"

REPORTS_FAILURES_SINCE = (5, 8)
EXT4, XFS, BTRFS, F2FS, TMPFS = 0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994
TRUSTED = frozenset({EXT4, XFS, BTRFS, F2FS, TMPFS})
"""By the magic number of statfs(2); that of ext4 is also ext2's and ext3's."""
UNPROMISING = {
    BTRFS: ("btrfs", COPY_ON_WRITE),
    0x2FC12FC1: ("ZFS", COPY_ON_WRITE),
    0xCA451A4E: ("bcachefs", COPY_ON_WRITE),
    0x6969: ("NFS", SHARED),
    0x517B: ("SMB", SHARED),
    0xFF534D42: ("SMB", SHARED),
    0xFE534D42: ("SMB", SHARED),
    0x00C36400: ("Ceph", SHARED),
    0x01021997: ("9p", SHARED),
    0x65735546: ("virtiofs or another FUSE file system", "is served by a program, which can refuse what was written"),
    0x794C7630: ("overlay", "is mostly a container's own layer and is removed with it"),
}
"""File systems where a store through a mapping of allocated blocks may end the process by SIGBUS, by the same numbers:
what each is called, and why."""
STATFS_SIZE = 512
"""More than any kernel's `struct statfs`, whose first word is the magic number."""


class Unpromising(NamedTuple):
    """The file system of a folder where blocks that were allocated are no promise."""

    folder: Path
    name: str
    reason: str
    """Behind its name: what it does."""


class FileSystem:
    """One open file description on a file system."""

    descriptor = -1

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor

    def sync(self) -> None:
        """Return once everything that anybody has written to this file system is on the disk, names and lengths too.

        Raises SyncFailedError if any write to it failed since this was opened or last synced, whose ever it was.
        """
        if _libc().syncfs(self.descriptor):
            raise SyncFailedError(self.path, os.strerror(ctypes.get_errno()))

    def close(self) -> None:
        """Calling it twice is fine."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


def open_file_system(path: Path) -> FileSystem | None:
    """The file system of a folder, if a sync of the whole file system reports failed writes. Raises OSError."""
    if not reports_failures():
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    found = FileSystem(path, descriptor)
    return found if magic_of(descriptor) in TRUSTED else None


def find_unpromising(path: Path) -> Unpromising | None:
    """What kind of file system holds a folder, if one should not append to its files through a mapping. None on all
    others, and where it cannot be told. Raises OSError."""
    if sys.platform != "linux":
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = UNPROMISING.get(magic_of(descriptor))
    finally:
        os.close(descriptor)
    return None if found is None else Unpromising(path, *found)


def magic_of(descriptor: int) -> int:
    """Which kind of file system it is, as statfs(2) tells; 0 where it does not."""
    buffer = ctypes.create_string_buffer(STATFS_SIZE)
    if _libc().fstatfs(descriptor, buffer):
        return 0
    return ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


@cache
def reports_failures() -> bool:
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    return (
        sys.platform == "linux"
        and version is not None
        and (int(version[1]), int(version[2])) >= REPORTS_FAILURES_SINCE
        and hasattr(_libc(), "syncfs")
    )
