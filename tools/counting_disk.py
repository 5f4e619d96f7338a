"""A real disk that only reads, and counts: how far a check has come is told by the one door that it goes through."""

from __future__ import annotations

import os
from pathlib import Path

from ..store.disk import RealDisk, RealFile, disk_errors


class CountingDisk(RealDisk):
    """Opens files for reading alone. Reads through mappings are not counted: `verify` makes none."""

    def __init__(self) -> None:
        self.read_size = 0
        """Bytes read so far."""

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        assert not writable and not create, "a check never writes"
        with disk_errors(path, "opening it"):
            return _CountingFile(self, path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))


class _CountingFile(RealFile):
    def __init__(self, disk: CountingDisk, path: Path, descriptor: int) -> None:
        super().__init__(path, descriptor, writable=False)
        self._disk = disk

    def read(self, position: int, size: int) -> bytes:
        data = super().read(position, size)
        self._disk.read_size += len(data)
        return data
