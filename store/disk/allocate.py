"""Disk blocks for a range of a file, for real.

Storing into a hole of a mapped file on a full disk kills the process with SIGBUS. `os.posix_fallocate` is no way out:
where a file system has no fallocate, glibc's emulation writes into the file behind our back, one byte a block.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from functools import cache

from .system_call import system_call

ZERO_PIECE_SIZE = 1 << 20


@cache
def find_fallocate() -> Callable[[int, int, int, int], int] | None:
    return system_call("fallocate64", ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def allocate_blocks(descriptor: int, position: int, size: int) -> None:
    """Allocate [position, position + size). What is there stays; the length of the file does not shrink.

    Raises OSError, with ENOSPC where there is no room. On a file system without fallocate, zeros are written into the
    range instead, so it must not hold data there: flightlog asks for ranges that it has not written yet.
    """
    fallocate = find_fallocate()
    while fallocate is not None:
        if fallocate(descriptor, 0, position, size) == 0:
            return
        code = ctypes.get_errno()
        if code in (errno.EOPNOTSUPP, errno.ENOSYS):
            break
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))
    _write_zeros(descriptor, position, size)


def _write_zeros(descriptor: int, position: int, size: int) -> None:
    zeros = memoryview(bytes(min(size, ZERO_PIECE_SIZE)))
    end = position + size
    while position < end:
        position += os.pwrite(descriptor, zeros[: end - position], position)
