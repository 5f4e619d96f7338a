"""A real disk that counts what is read through it: how far a check has come, told by the one door it goes through."""

from __future__ import annotations

from pathlib import Path

from ..store.disk import RealDisk, RealFile


class _CountingFile(RealFile):
    """A file whose reads its disk adds up."""

    disk: CountingDisk

    def read(self, position: int, size: int) -> bytes:
        data = super().read(position, size)
        self.disk.read_size += len(data)
        return data


class CountingDisk(RealDisk):
    """Reads through mappings are not counted: `verify` makes none."""

    def __init__(self) -> None:
        self.read_size = 0
        """Bytes read so far."""

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        file = super().open(path, writable=writable, create=create)
        file.__class__ = _CountingFile
        return file
