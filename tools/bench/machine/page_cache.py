"""Evicts a folder's files from the page cache. On a file system in memory, nothing can be evicted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


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
