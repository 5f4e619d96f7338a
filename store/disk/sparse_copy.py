"""Copies of files whose holes stay holes: a segment of 1 GiB with 3 MiB in it takes 3 MiB.

A file that is there already is compared, and only the blocks that differ are written.
"""

from __future__ import annotations

from pathlib import Path

from .disk import Disk, DiskFile

PIECE_SIZE = 1 << 20
BLOCK_SIZE = 4096
"""The unit of comparison, and the least that is written."""
assert PIECE_SIZE % BLOCK_SIZE == 0


def copy_file(disk: Disk, source: Path, target: Path, *, stop: int | None = None) -> int:
    """Make `target` with the content and length of `source`; durable when this returns, but for its name (sync the
    folder). Bytes from position `stop` on are taken for zeros. Returns how many bytes were written.

    Raises FileGoneError, DiskFullError, SyncFailedError, DiskError; what was copied by then is left.
    """
    reading = disk.open(source)
    try:
        size = reading.size()
        writing = disk.open(target, writable=True, create=True)
        try:
            old_size = writing.size()
            if old_size > size:
                writing.resize(size)
            copied = _copy_blocks(reading, writing, size if stop is None else min(stop, size), min(old_size, size))
            if old_size != size:
                writing.resize(size)
            if copied or old_size != size:
                writing.sync()
        finally:
            writing.close()
    finally:
        reading.close()
    return copied


def _copy_blocks(reading: DiskFile, writing: DiskFile, end: int, old_end: int) -> int:
    """Copy what is before `end`, and write zeros from there to `old_end`, how long the target was."""
    copied, at = 0, 0
    while True:
        places = [reading.next_data(at) if at < end else None, writing.next_data(at) if at < old_end else None]
        start = min((place for place in places if place is not None), default=None)
        if start is None or start >= max(end, old_end):
            return copied
        start -= start % BLOCK_SIZE
        at = min(start + PIECE_SIZE, max(end, old_end))
        wanted = reading.read(start, min(at, end) - start) if start < end else b""
        found = writing.read(start, min(at, old_end) - start) if start < old_end else b""
        copied += _write_differing(writing, start, wanted.ljust(at - start, b"\0"), found.ljust(at - start, b"\0"))


def _write_differing(writing: DiskFile, position: int, wanted: bytes, found: bytes) -> int:
    if wanted == found:
        return 0
    written, run_start = 0, -1
    for block in range(0, len(wanted) + BLOCK_SIZE, BLOCK_SIZE):
        differs = wanted[block : block + BLOCK_SIZE] != found[block : block + BLOCK_SIZE]
        if differs and run_start < 0:
            run_start = block
        elif not differs and run_start >= 0:
            writing.write(position + run_start, wanted[run_start:block])
            written += len(wanted[run_start:block])
            run_start = -1
    return written
