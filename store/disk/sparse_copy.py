"""Copies of files whose holes stay holes: a segment of 1 GiB with 3 MiB in it takes 3 MiB."""

from __future__ import annotations

from pathlib import Path

from .disk import Disk

PIECE_SIZE = 8 << 20


def copy_file(disk: Disk, source: Path, target: Path) -> int:
    """Make `target` with the content and length of `source`; durable when this returns, but for its name (sync the
    folder). Returns how many bytes were copied, holes not counted.

    Raises FileGoneError, DiskFullError, SyncFailedError, DiskError; what was copied by then is left.
    """
    copied = 0
    reading = disk.open(source)
    try:
        size = reading.size()
        writing = disk.open(target, writable=True, create=True)
        try:
            at = reading.next_data(0)
            while at is not None and at < size:
                stop = min(reading.next_hole(at), size)
                while at < stop:
                    piece = reading.read(at, min(PIECE_SIZE, stop - at))
                    if not piece:  # it was cut meanwhile
                        break
                    writing.write(at, piece)
                    at += len(piece)
                    copied += len(piece)
                at = reading.next_data(stop)
            writing.resize(size)
            writing.sync()
        finally:
            writing.close()
    finally:
        reading.close()
    return copied


def copy_folder(disk: Disk, source: Path, target: Path) -> int:
    """Copy a folder with all that is below it; durable when this returns. Returns and raises as `copy_file`."""
    disk.make_folder(target)
    copied = 0
    for entry in disk.list(source):
        copy = copy_folder if entry.is_folder else copy_file
        copied += copy(disk, source / entry.name, target / entry.name)
    disk.sync_folder(target)
    return copied
