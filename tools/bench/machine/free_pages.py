"""Free memory that is really there.

A host takes back what its virtual machines leave free, and the first store into such a page waits for it: twenty times
as long as clearing the page takes. Which writer meets how many of them is chance, so every round begins with as much
free memory as it is going to need, touched a moment ago.
"""

from __future__ import annotations

import mmap
import os

import numpy as np

MOST_OF_FREE = 0.5
"""As much of the free memory is touched at most."""
HUGE_PAGE = 2 << 20


def touch_free_pages(size: int) -> None:
    """Take `size` bytes of free memory, store into each of its pages, and give them back."""
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    size = min(size, int(free * MOST_OF_FREE)) // HUGE_PAGE * HUGE_PAGE
    if size <= 0:
        return
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE] = 1
