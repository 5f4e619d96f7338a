"""Hints to the system about reads and syncs to come. No hint changes what is read or written; a system that does not
know one ignores it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from .system_call import system_call

STEP: Final = 1 << 20
"""Bytes asked for at a time: of more a device fetches the first."""
FAR: Final = 1 << 20
"""The system reads far ahead where its window is of so many bytes. Most devices have 128 KiB."""

DEVICES: Final = Path("/sys/dev/block")


def read_ahead(descriptor: int, position: int, size: int) -> None:
    """Begin to fetch these bytes from the disk. Raises OSError.

    Does nothing where the system itself reads far ahead: what it fetches lies in the page cache in large pieces, which
    cost a third of the system time of pages that are asked for. Does nothing if the last byte is in memory: a request
    for cached bytes costs as much as one for others, and each call is a turn of the GIL, for which a reader among many
    waits long.
    """
    if not hasattr(os, "posix_fadvise") or window_of(os.fstat(descriptor).st_dev) >= FAR:
        return
    if is_in_memory(descriptor, position + size - 1):
        return
    for at in range(position, position + size, STEP):
        os.posix_fadvise(descriptor, at, min(STEP, position + size - at), os.POSIX_FADV_WILLNEED)


@lru_cache(maxsize=64)
def window_of(device: int) -> int:
    """Bytes that the system reads ahead of who reads files of a device in order; 0 where it does not say."""
    place = DEVICES / f"{os.major(device)}:{os.minor(device)}"
    for queue in (place / "queue", place / ".." / "queue"):  # a partition has that of its disk
        with suppress(OSError, ValueError):
            return int((queue / "read_ahead_kb").read_text()) << 10
    return 0


def is_in_memory(descriptor: int, position: int) -> bool:
    """Whether this byte can be read without waiting for a device; False also where the file system cannot tell."""
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    try:
        return os.preadv(descriptor, [bytearray(1)], position, os.RWF_NOWAIT) == 1
    except OSError:
        return False


SYNC_FILE_RANGE_WRITE = 2


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    return system_call("sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


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
