"""Having a file's bytes fetched from the disk before they are read.

Where the system itself reads far ahead of a reader, it is left to that: what it fetches so lies in the page cache in
large pieces, which cost a third of the system's time that pages do which are asked for.

To ask for what is in memory already costs as much as to ask for what is not, and each call is a turn of the
interpreter's lock, for which a reader among many readers waits long. So the last byte is looked at first.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

STEP: Final = 1 << 20
"""Bytes asked for at a time: of more a device fetches the first."""
FAR: Final = 1 << 20
"""The system reads far ahead where its window is of so many bytes. Most devices have 128 KiB."""

DEVICES: Final = Path("/sys/dev/block")


def read_ahead(descriptor: int, position: int, size: int) -> None:
    """Begin to fetch these bytes, unless the system will, or the last of them is in memory. Raises OSError."""
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
