"""Which file a path leads to, asked without its times.

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
import sys
from collections.abc import Callable
from functools import cache

AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
STATX_INO = 0x100
STATX_SIZE = 256
"""Bytes of the struct."""
INODE, DEVICE = struct.Struct("=Q"), struct.Struct("=II")
INODE_AT, DEVICE_AT = 32, 136

Identity = tuple[int, int, int]
"""Device, as major and minor number, and inode."""


@cache
def statx_function() -> Callable[[int, bytes, int, int, object], int] | None:
    """The system call's own wrapper, or None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]


def identity_of(file: int | bytes) -> Identity:
    """Of an open descriptor, or of what a path leads to. Raises OSError, such as FileNotFoundError."""
    statx = statx_function()
    if statx is not None:
        found = ctypes.create_string_buffer(STATX_SIZE)
        where = (file, b"", AT_EMPTY_PATH) if isinstance(file, int) else (AT_FDCWD, file, 0)
        while statx(*where, STATX_INO, found):
            code = ctypes.get_errno()
            if code in (errno.ENOSYS, errno.EPERM):  # of an older kernel, or a container's filter of system calls
                break
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))
        else:
            return (*DEVICE.unpack_from(found, DEVICE_AT), *INODE.unpack_from(found, INODE_AT))
    status = os.stat(file)
    return os.major(status.st_dev), os.minor(status.st_dev), status.st_ino
