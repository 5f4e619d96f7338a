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
from typing import Any

from .errors import SyncFailedError

REPORTS_FAILURES_SINCE = (5, 8)
EXT4, XFS, BTRFS, F2FS, TMPFS = 0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994
TRUSTED = frozenset({EXT4, XFS, BTRFS, F2FS, TMPFS})
"""By the magic number of statfs(2); that of ext4 is also ext2's and ext3's."""
STATFS_SIZE = 512
"""More than any kernel's `struct statfs`, whose first word is the magic number."""


class FileSystem:
    """One open file description on a file system."""

    _descriptor = -1

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor

    def sync(self) -> None:
        """Return once everything that anybody has written to this file system is on the disk, names and lengths too.

        Raises SyncFailedError if any write to it failed since this was opened or last synced, whose ever it was.
        """
        if _libc().syncfs(self._descriptor):
            raise SyncFailedError(self.path, os.strerror(ctypes.get_errno()))

    def close(self) -> None:
        """Calling it twice is fine."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


def open_file_system(path: Path) -> FileSystem | None:
    """The file system of a folder, if it reports failed writes to whoever syncs all of it. Raises OSError."""
    if not _reports_failures():
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    found = FileSystem(path, descriptor)
    buffer = ctypes.create_string_buffer(STATFS_SIZE)
    if _libc().fstatfs(descriptor, buffer):
        return None
    magic = ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF
    return found if magic in TRUSTED else None


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _reports_failures() -> bool:
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    return (
        sys.platform == "linux"
        and version is not None
        and (int(version[1]), int(version[2])) >= REPORTS_FAILURES_SINCE
        and hasattr(_libc(), "syncfs")
    )
