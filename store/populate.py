"""Pages of a mapping, made present before somebody stores into them.

A store into a page that is not there yet waits for the kernel to find one, to clear it and to ask the file system for
leave: a mebibyte of such pages takes some three times as long as one that is there. MADV_POPULATE_WRITE does the same
in one call. Python's `mmap.madvise` would hold the GIL meanwhile; a call through ctypes does not.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import sys
from collections.abc import Callable
from functools import cache

MADV_POPULATE_WRITE = 23  # Linux 5.14; not in Python's mmap module
AGAIN = (errno.EINTR, errno.EAGAIN)


@cache
def _madvise() -> Callable[[int, int, int], int] | None:
    """The system call's own wrapper, or None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "madvise", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]


def populate(mapping: mmap.mmap, position: int, size: int) -> bool:
    """Have the pages of [position, position + size) present and writable, as a store into each of them would; no byte
    changes. `position` is a multiple of the page size, and there are blocks below all of it.

    False if the system does not know how, or could not: then stores find the pages themselves, only more slowly.
    """
    assert position % mmap.PAGESIZE == 0 and size > 0 and position + size <= len(mapping)
    madvise = _madvise()
    if madvise is None:
        return False
    first = ctypes.c_char.from_buffer(mapping, position)  # keeps the mapping from being closed meanwhile
    while madvise(ctypes.addressof(first), size, MADV_POPULATE_WRITE):
        if ctypes.get_errno() not in AGAIN:
            return False
    return True
