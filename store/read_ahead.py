"""Having a file's bytes fetched from the disk before they are read.

To ask for what is in memory already costs as much as to ask for what is not, and each call is a turn of the
interpreter's lock, for which a reader among many readers waits long. So the last byte is looked at first.
"""

from __future__ import annotations

import os
from typing import Final

STEP: Final = 1 << 20
"""Bytes asked for at a time: of more a device fetches the first."""


def read_ahead(descriptor: int, position: int, size: int) -> None:
    """Begin to fetch these bytes, unless the last of them is in memory. Raises OSError."""
    if not hasattr(os, "posix_fadvise") or is_in_memory(descriptor, position + size - 1):
        return
    for at in range(position, position + size, STEP):
        os.posix_fadvise(descriptor, at, min(STEP, position + size - at), os.POSIX_FADV_WILLNEED)


def is_in_memory(descriptor: int, position: int) -> bool:
    """Whether this byte can be read without waiting for a device; False also where the file system cannot tell."""
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    try:
        return os.preadv(descriptor, [bytearray(1)], position, os.RWF_NOWAIT) == 1
    except OSError:
        return False
