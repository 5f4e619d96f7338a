"""What a file is told of reads and syncs to come. No hint changes what is read or written; a system that does not know
one does without."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache

from .read_ahead import read_ahead

SYNC_FILE_RANGE_WRITE = 2


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """The system call's own wrapper, or None where there is none. It does not hold the GIL."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]


class HintedFile:
    """The hints of a file on a local file system; see DiskFile."""

    descriptor = -1

    def will_poke(self) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_RANDOM)

    def will_read(self, position: int, size: int) -> None:
        read_ahead(self.descriptor, position, size)

    def will_sync(self, position: int, size: int) -> None:
        call = _sync_file_range()
        if call is not None and size > 0:
            call(self.descriptor, position, size, SYNC_FILE_RANGE_WRITE)
