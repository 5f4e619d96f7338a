"""A real disk that says when somebody reads too much or too often: how a hang shows without a clock.

Nothing is synced: these stores are thrown away. What is read through a mapping is not counted.
"""

from __future__ import annotations

import os
from pathlib import Path

from flightlog.store.disk.disk import FILE_MODE, MappedPart, RealDisk, RealFile
from flightlog.store.disk.disk_errors import disk_errors
from flightlog.store.disk.file_system import FileSystem


class ReadTooMuchError(AssertionError):
    """More was read than anything that ends would read. No error of flightlog's, so nothing there catches it."""


class LimitedFile(RealFile):
    """A file whose reads are counted."""

    def __init__(self, disk: LimitedDisk, path: Path, descriptor: int, writable: bool) -> None:
        super().__init__(path, descriptor, writable)
        self._disk = disk

    def read(self, position: int, size: int) -> bytes:
        self._disk.count(self.path, min(size, max(self.size() - position, 0)))
        return super().read(position, size)

    def next_data(self, position: int) -> int | None:
        self._disk.count(self.path, 0)
        return super().next_data(position)

    def sync(self, part: MappedPart | None = None) -> None:
        """Not worth the time."""


class LimitedDisk(RealDisk):
    """See above. The limits hold from one `begin` to the next."""

    def __init__(self, max_reads: int, max_read_size: int, max_file_size: int) -> None:
        self._limits = max_reads, max_read_size
        self.max_file_size = max_file_size
        """Bytes that one read may ask for."""
        self.reads = self.read_size = 0

    def begin(self) -> None:
        self.reads = self.read_size = 0

    def count(self, path: Path, size: int) -> None:
        self.reads += 1
        self.read_size += size
        if self.reads > self._limits[0] or self.read_size > self._limits[1] or size > self.max_file_size:
            raise ReadTooMuchError(f"{path}: {self.reads} reads of {self.read_size} bytes, the last one of {size}")

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> LimitedFile:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with disk_errors(path, "opening it"):
            return LimitedFile(self, path, os.open(path, flags, FILE_MODE), writable)

    def open_file_system(self, path: Path) -> FileSystem | None:
        return None

    def sync_folder(self, path: Path) -> None:
        """Not worth the time."""
