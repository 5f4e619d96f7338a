"""How much of a folder's files is in the page cache, and how to evict it.

On a file system in memory, nothing can be evicted.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np


@cache
def _mincore() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mincore
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    return function


def files_of(folder: Path) -> Iterator[Path]:
    """All files below a folder except a store's `lock`, which only the lock module may open."""
    return (path for path in folder.rglob("*") if path.name != "lock" and path.is_file())


def forget(folder: Path) -> None:
    """Sync every file and evict its pages, except mapped ones."""
    for path in files_of(folder):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def cached_size(folder: Path) -> int:
    """Bytes of the folder's files that are in the page cache, in whole pages."""
    return sum(_cached_size(path) for path in files_of(folder))


def _cached_size(path: Path) -> int:
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return 0
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    octets = np.frombuffer(mapping, np.uint8)
    pages = np.zeros(-(-len(octets) // mmap.PAGESIZE), np.uint8)
    if _mincore()(octets.ctypes.data, len(octets), pages.ctypes.data):
        raise OSError(ctypes.get_errno(), f"mincore of {path} failed")
    return int(np.count_nonzero(pages & 1)) * mmap.PAGESIZE
