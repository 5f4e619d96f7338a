"""Which file a path leads to, and how many names it has, asked without its times.

From Linux 6.13 on, whoever asks for the times of a file has its next write note a finer time (multigrain timestamps),
and so write the inode. `os.stat` always asks for them: with one beside each `fdatasync`, ext4 without a journal wrote
4 KiB more and took a third longer. `statx` says what to ask for; Python has it from 3.15 on, so it is called through
ctypes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from .system_call import system_call

AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
STATX_NLINK, STATX_INO = 0x4, 0x100
STATX_SIZE = 256
"""Bytes of the struct."""
LINK_COUNT, INODE, DEVICE = struct.Struct("=I"), struct.Struct("=Q"), struct.Struct("=II")
LINK_COUNT_AT, INODE_AT, DEVICE_AT = 16, 32, 136


class Identity(NamedTuple):
    """Identity of a file, while it exists."""

    device: tuple[int, int]
    """Major and minor number."""
    inode: int


@cache
def statx_function() -> Callable[[int, bytes, int, int, object], int] | None:
    """The system call's own wrapper, or None where there is none."""
    return system_call("statx", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)


def identity_of(file: int | bytes) -> tuple[Identity, int]:
    """Return the identity of an open descriptor or of a path's target, and its number of names, which is 0 once they
    are removed. Raises OSError, such as FileNotFoundError."""
    statx = statx_function()
    if statx is not None:
        found = ctypes.create_string_buffer(STATX_SIZE)
        where = (file, b"", AT_EMPTY_PATH) if isinstance(file, int) else (AT_FDCWD, file, 0)
        while statx(*where, STATX_INO | STATX_NLINK, found):
            code = ctypes.get_errno()
            if code in (errno.ENOSYS, errno.EPERM):  # of an older kernel, or a container's filter of system calls
                break
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))
        else:
            [inode], [link_count] = INODE.unpack_from(found, INODE_AT), LINK_COUNT.unpack_from(found, LINK_COUNT_AT)
            return Identity(DEVICE.unpack_from(found, DEVICE_AT), inode), link_count
    status = os.stat(file)
    return Identity((os.major(status.st_dev), os.minor(status.st_dev)), status.st_ino), status.st_nlink
