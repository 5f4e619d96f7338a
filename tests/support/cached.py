"""How much of a folder's files is in the page cache."""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from flightlog.tools.bench.machine.page_cache import files_of


@cache
def _mincore() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mincore
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    return function


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
