"""What the tests of the log share: time that a test holds, and how every test that wrote a store ends."""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass

import pytest


@dataclass
class ManualClock:
    """A clock that moves only when a test moves it."""

    at_ms: int = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.at_ms / 1000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def fenced() -> memoryview:
    """One page between two that kill the process when touched."""
    page = mmap.PAGESIZE
    pages = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for fence in (start, start + 2 * page):
        assert protect(fence, page, 0) == 0, os.strerror(ctypes.get_errno())
    return memoryview(pages)[page : 2 * page]
