"""Free memory that the host has already backed with pages.

A host reclaims memory that its virtual machines leave free. The first store into such a page then waits for the host,
twenty times as long as clearing a page takes. Which writer hits how many such pages is chance, so every round first
touches as much free memory as it will need.
"""

from __future__ import annotations

import mmap
import os

import numpy as np

MOST_OF_FREE = 0.5
"""The largest share of the free memory that is touched."""
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
