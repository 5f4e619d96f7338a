"""Pages of a mapping that come before somebody stores into them, go once nobody does any more, and are synced.

A store into a page that is not there yet waits for the kernel to find one, to clear it and to ask the file system for
leave: a mebibyte of such pages takes some three times as long as one that is there. MADV_POPULATE_WRITE does the same
for many pages in a call. A sync takes from every page that is there the leave to be stored into, and has every CPU that
the process runs on forget it, page by page: MADV_DONTNEED lets go of many pages at once, before.

Python's `mmap.madvise` and `mmap.flush` would hold the GIL meanwhile; a call through ctypes does not. Advice goes piece
by piece, because nobody can map anything while a piece is under way.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from .arguments import integer, writable

if TYPE_CHECKING:
    from typing_extensions import Buffer

MADV_DONTNEED = 4
MS_SYNC = 4
MADV_POPULATE_WRITE = 23  # Linux 5.14; not in Python's mmap module
AGAIN = (errno.EINTR, errno.EAGAIN)
PIECE_SIZE = 1 << 20


def populate(buffer: Buffer, position: int, size: int, /) -> bool:
    """See `native.populate`."""
    return _advise(_Pages(buffer, position, size), MADV_POPULATE_WRITE)


def release_pages(buffer: Buffer, position: int, size: int, /) -> bool:
    """See `native.release_pages`."""
    return _advise(_Pages(buffer, position, size), MADV_DONTNEED)


def sync_pages(buffer: Buffer, position: int, size: int, /) -> bool:
    """See `native.sync_pages`."""
    pages = _Pages(buffer, position, size)
    msync = _system_call("msync")
    if msync is None:
        return False
    while msync(pages.at, pages.size, MS_SYNC):
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))
    return True


class _Pages:
    """Bytes of a mapping, from where a page begins; it is not closed while this is there."""

    def __init__(self, buffer: Buffer, position: int, size: int) -> None:
        position, self.size = integer(position, "position", 64), integer(size, "size", 64)
        view = writable(buffer, "buffer")
        if position < 0 or self.size <= 0 or position + self.size > len(view):
            raise ValueError(f"{self.size} bytes at position {position} are none of a buffer of {len(view)} bytes")
        self._first = ctypes.c_char.from_buffer(view, position)
        self.at = ctypes.addressof(self._first)
        if self.at % mmap.PAGESIZE:
            raise ValueError(f"no page begins at position {position}")


def _advise(pages: _Pages, advice: int) -> bool:
    madvise = _system_call("madvise")
    if madvise is None:
        return False
    at, stop = pages.at, pages.at + pages.size
    while at < stop:
        piece_size = min(PIECE_SIZE, stop - at)
        if not madvise(at, piece_size, advice):
            at += piece_size
        elif ctypes.get_errno() not in AGAIN:
            return False
    return True


@cache
def _system_call(name: str) -> Callable[[int, int, int], int] | None:
    """The system call's own wrapper, or None where it is not there, or does something else."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]
