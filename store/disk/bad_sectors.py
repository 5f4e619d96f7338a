"""Read around unreadable sectors of a disk.

A read that meets a bad sector is repeated in halves, down to single sectors; those that stay unreadable come out as
zeros, and are noted. For checks only: the caller treats these zeros as damage, not as content.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from ..errors import DiskError
from .disk import Disk, DiskFile

SECTOR_SIZE = 4096
"""Bytes that are given up at once: what disks and the page cache read at least."""
MOST_SECTORS = 4096
"""Bad sectors of one file after which a failing read is given up as a whole: each try at a dying disk may take
seconds."""
UNREADABLE = frozenset({errno.EIO, errno.EBADMSG, getattr(errno, "ENODATA", errno.EIO)})
"""What a read answers at a bad sector, or where the file system's own checksum is wrong."""


def is_bad_sector(e: DiskError) -> bool:
    """Whether a read failed because of what it was to read."""
    return isinstance(e.__cause__, OSError) and e.__cause__.errno in UNREADABLE


class BadSectors:
    """A disk whose files can be read through. For the rest it is the disk that it is made of."""

    maps_files = False
    """A mapped read of a bad sector is a signal that ends the process."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._sectors: dict[Path, set[int]] = {}

    @classmethod
    def around(cls, disk: Disk) -> Disk:
        return cast("Disk", cls(disk))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> DiskFile:
        found = self._disk.open(path, writable=writable, create=create)
        return cast("DiskFile", _ReadAround(found, self._sectors.setdefault(path, set())))

    def found(self) -> Iterator[tuple[Path, int, int]]:
        """(file, first byte, one past the last) of all that could not be read so far."""
        for path, sectors in sorted(self._sectors.items()):
            start = stop = -1
            for sector in sorted(sectors):
                if sector * SECTOR_SIZE != stop:
                    if stop > start:
                        yield path, start, stop
                    start = sector * SECTOR_SIZE
                stop = (sector + 1) * SECTOR_SIZE
            if stop > start:
                yield path, start, stop


class _ReadAround:
    """For the rest it is the file that it is made of."""

    def __init__(self, file: DiskFile, sectors: set[int]) -> None:
        self._file, self._sectors = file, sectors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, position: int, size: int) -> bytes:
        """As of any file, with zeros for what cannot be read. Raises DiskError for any other reason."""
        try:
            return self._as_before(position, self._file.read(position, size))
        except DiskError as e:
            if not is_bad_sector(e):
                raise
        size = max(0, min(size, self._file.size() - position))
        first, last = position // SECTOR_SIZE, (position + size - 1) // SECTOR_SIZE
        if first >= last or len(self._sectors) >= MOST_SECTORS:
            self._sectors.update(range(first, last + 1))
            return bytes(size)
        middle = (first + last + 1) // 2 * SECTOR_SIZE
        return self.read(position, middle - position) + self.read(middle, position + size - middle)

    def _as_before(self, position: int, data: bytes) -> bytes:
        """With zeros for sectors that could not be read once: all that look at the file must see the same."""
        if not self._sectors or not data:
            return data
        seen = bytearray(data)
        for sector in range(position // SECTOR_SIZE, (position + len(data) - 1) // SECTOR_SIZE + 1):
            if sector in self._sectors:
                start = max(sector * SECTOR_SIZE - position, 0)
                stop = min((sector + 1) * SECTOR_SIZE - position, len(data))
                seen[start:stop] = bytes(stop - start)
        return bytes(seen)
