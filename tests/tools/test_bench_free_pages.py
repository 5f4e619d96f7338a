"""Free memory is touched and given back, never more than half of it."""

import mmap
import os

import pytest

from flightlog.tools.bench.machine import free_pages

MEBIBYTE = 1 << 20


def resident_size() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * mmap.PAGESIZE


def test_it_is_given_back() -> None:
    before = resident_size()
    free_pages.touch_free_pages(64 * MEBIBYTE)
    assert resident_size() - before < 32 * MEBIBYTE


@pytest.mark.parametrize("size", [0, 1, free_pages.HUGE_PAGE])
def test_small_sizes_are_fine(size: int) -> None:
    free_pages.touch_free_pages(size)


def test_more_than_there_is_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", lambda name: 16 * MEBIBYTE // mmap.PAGESIZE)
    asked: list[int] = []
    real = mmap.mmap

    def noted(descriptor: int, size: int, **options: int) -> mmap.mmap:
        asked.append(size)
        return real(descriptor, size, **options)

    monkeypatch.setattr(mmap, "mmap", noted)
    free_pages.touch_free_pages(1 << 50)
    assert asked == [8 * MEBIBYTE]
