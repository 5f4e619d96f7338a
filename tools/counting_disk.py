"""A real disk that counts the bytes read, which is the progress of a check."""

from __future__ import annotations

import os
from pathlib import Path

from ..store.disk.disk import RealDisk, RealFile


class CountingDisk(RealDisk):
    """Opens files read-only, unless it `may_write`. Reads through mappings are not counted: `verify` makes none."""

    def __init__(self, *, may_write: bool = False) -> None:
        self._may_write = may_write
        self.read_size = 0
        """Bytes read so far."""

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        assert self._may_write or (not writable and not create), "a check never writes"
        return _CountingFile(self, super().open(path, writable=writable, create=create), writable)


class _CountingFile(RealFile):
    def __init__(self, disk: CountingDisk, file: RealFile, writable: bool) -> None:
        super().__init__(file.path, os.dup(file.descriptor), writable)
        file.close()
        self._disk = disk

    def read(self, position: int, size: int) -> bytes:
        data = super().read(position, size)
        self._disk.read_size += len(data)
        return data
