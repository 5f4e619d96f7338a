"""What this machine can do at best, for the same bytes in the same rounds.

    memcpy                       into a file mapping whose pages are all there already, 256 KiB at a time out of a
                                 buffer that stays in the cache
    fdatasync loop, fallocated   pwrite of one record, fdatasync; the file has its blocks by fallocate, as a segment
                                 has, and the first sync of each block must also note that it is written now
    fdatasync loop, zeroed       the same on a file that was written full of zeros and synced before: the best case

Positions start at 0 in every round, as the store's do.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ....store.disk.allocate import allocate_blocks
from .case import Work
from .workloads import record_size

MEMCPY = "memcpy"
FALLOCATED = "fdatasync loop, fallocated"
ZEROED = "fdatasync loop, zeroed"
CHUNK_SIZE = 256 << 10


@contextmanager
def memcpy(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    size = record_size(body_size) * count
    path = folder / "memcpy"
    source = np.full(min(CHUNK_SIZE, size), 0x5A, np.uint8)
    with open(path, "wb+") as file:
        file.truncate(size)
        target = np.frombuffer(mmap.mmap(file.fileno(), size), np.uint8)
    target.fill(1)  # warm: every page is there and dirty

    def work() -> None:
        for start in range(0, size, CHUNK_SIZE):
            piece = target[start : start + CHUNK_SIZE]
            np.copyto(piece, source[: len(piece)])

    try:
        yield work
    finally:
        path.unlink()


@contextmanager
def fdatasync_fallocated(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    with _loop(folder, body_size, count, allocate_blocks) as work:
        yield work


@contextmanager
def fdatasync_zeroed(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    with _loop(folder, body_size, count, _write_zeros) as work:
        yield work


def _write_zeros(descriptor: int, position: int, size: int) -> None:
    os.pwrite(descriptor, bytes(size), position)


@contextmanager
def _loop(folder: Path, body_size: int, count: int, fill: Callable[[int, int, int], None]) -> Iterator[Work]:
    record = bytes(record_size(body_size))
    path = folder / "fdatasync"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(descriptor, len(record) * count)
        fill(descriptor, 0, len(record) * count)
        os.fsync(descriptor)

        def work() -> None:
            for i in range(count):
                os.pwrite(descriptor, record, i * len(record))
                os.fdatasync(descriptor)

        yield work
    finally:
        os.close(descriptor)
        path.unlink()
