"""Pages of a mapping that come before somebody stores into them, and go once nobody does any more.

A store into a page that is not there yet waits for the kernel to find one, to clear it and to ask the file system for
leave: a mebibyte of such pages takes some three times as long as one that is there. MADV_POPULATE_WRITE does the same
for many pages in a call. A sync takes from every page that is there the leave to be stored into, and has every CPU that
the process runs on forget it, page by page: MADV_DONTNEED lets go of many pages at once, before.

Python's `mmap.madvise` would hold the GIL meanwhile; a call through ctypes does not. It goes piece by piece, because
nobody can map anything while a piece is under way.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from .twin_arguments import integer, writable

if TYPE_CHECKING:
    from typing_extensions import Buffer

MADV_DONTNEED = 4
MADV_POPULATE_WRITE = 23  # Linux 5.14; not in Python's mmap module
AGAIN = (errno.EINTR, errno.EAGAIN)
PIECE_SIZE = 1 << 20


def populate(buffer: Buffer, position: int, size: int, /) -> bool:
    """See `native.populate`."""
    return _advise(buffer, position, size, MADV_POPULATE_WRITE)


def release_pages(buffer: Buffer, position: int, size: int, /) -> bool:
    """See `native.release_pages`."""
    return _advise(buffer, position, size, MADV_DONTNEED)


def _advise(buffer: Buffer, position: int, size: int, advice: int) -> bool:
    position, size = integer(position, "position", 64), integer(size, "size", 64)
    view = writable(buffer, "buffer")
    if position < 0 or size <= 0 or position + size > len(view):
        raise ValueError(f"{size} bytes at position {position} are none of a buffer of {len(view)} bytes")
    first = ctypes.c_char.from_buffer(view, position)  # keeps a mapping from being closed meanwhile
    at = ctypes.addressof(first)
    if at % mmap.PAGESIZE:
        raise ValueError(f"no page begins at position {position}")
    madvise = _madvise()
    if madvise is None:
        return False
    stop = at + size
    while at < stop:
        piece_size = min(PIECE_SIZE, stop - at)
        if not madvise(at, piece_size, advice):
            at += piece_size
        elif ctypes.get_errno() not in AGAIN:
            return False
    return True


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
