"""Pages of a mapping are made present, let go and synced, by kernel and reference, and no byte changes."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flightlog.store import native

PAGE_SIZE = mmap.PAGESIZE
TEXT = bytes(range(256)) * (16 * PAGE_SIZE // 256)
ATTEMPTS = 50


@pytest.fixture
def mapping(tmp_path: Path) -> Iterator[mmap.mmap]:
    path = tmp_path / "pages"
    path.write_bytes(TEXT)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        yield mapping


def present_size() -> int:
    """Bytes of the mapping whose pages are there for this process."""
    return size_of("Rss:")


def dirty_size() -> int:
    """Bytes of the mapping whose pages were stored into since they were last written."""
    return size_of("Shared_Dirty:", "Private_Dirty:")


def size_of(*names: str) -> int:
    found, is_ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            is_ours = line.endswith("/pages")
        elif is_ours and line.startswith(names):
            found += int(line.split()[1]) << 10
    return found


def test_they_are_there_and_no_byte_changes(kernel: str, mapping: mmap.mmap) -> None:
    assert present_size() == 0
    assert native.populate(mapping, PAGE_SIZE, 3 * PAGE_SIZE)
    assert present_size() >= 3 * PAGE_SIZE
    assert mapping[:] == TEXT


def test_they_are_gone_and_no_byte_changes(kernel: str, mapping: mmap.mmap) -> None:
    mapping[PAGE_SIZE] = 7
    assert native.populate(mapping, 0, len(TEXT))
    assert native.release_pages(mapping, PAGE_SIZE, 2 * PAGE_SIZE)
    assert present_size() == len(TEXT) - 2 * PAGE_SIZE
    assert mapping[:] == TEXT[:PAGE_SIZE] + b"\7" + TEXT[PAGE_SIZE + 1 :]


def test_more_than_a_piece(kernel: str) -> None:
    with mmap.mmap(-1, 5 << 20) as mapping:
        mapping[3 << 20] = 7
        assert native.populate(mapping, PAGE_SIZE, (5 << 20) - PAGE_SIZE - 1)
        assert native.release_pages(mapping, PAGE_SIZE, (5 << 20) - PAGE_SIZE - 1)
        assert mapping[3 << 20] == 7 and mapping.find(b"\7") == 3 << 20


def test_they_are_synced_and_no_others(kernel: str, tmp_path: Path) -> None:
    """What is still to be written is told by the mapping itself: its pages are dirty. They lie far apart: the kernel
    may hold neighbours together. A busy machine may write dirty pages at any time: then it is tried again."""
    places, size = (0, 8 << 20, 16 << 20), 24 << 20
    path = tmp_path / "pages"
    path.touch()
    os.truncate(path, size)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        left: list[int] = []
        while len(left) < ATTEMPTS and 2 * PAGE_SIZE not in left:
            for position in places:
                mapping[position] = 7
            assert native.sync_pages(mapping, 8 << 20, PAGE_SIZE + 1)
            left.append(dirty_size())
        assert 2 * PAGE_SIZE in left, left
        assert native.sync_pages(mapping, 0, size)
        assert dirty_size() == 0
        assert [position for position in range(0, size, PAGE_SIZE) if mapping[position]] == list(places)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((1, PAGE_SIZE), ValueError),
        ((0, 0), ValueError),
        ((0, -1), ValueError),
        ((-PAGE_SIZE, PAGE_SIZE), ValueError),
        ((0, len(TEXT) + 1), ValueError),
        ((len(TEXT), 1), ValueError),
        ((1 << 62, 1 << 62), ValueError),
        ((0, 1 << 63), OverflowError),
        ((-(1 << 63) - 1, 1), OverflowError),
        ((0.0, 1), TypeError),
    ],
)
def test_what_is_no_part_of_it_is_refused(
    kernel: str, mapping: mmap.mmap, arguments: tuple[Any, Any], error: type[Exception]
) -> None:
    for function in (native.populate, native.release_pages, native.sync_pages):
        with pytest.raises(error):
            function(mapping, *arguments)


@pytest.mark.parametrize(("buffer", "error"), [(bytes(PAGE_SIZE), BufferError), (None, TypeError)])
def test_what_cannot_be_stored_into_is_refused(kernel: str, buffer: Any, error: type[Exception]) -> None:
    for function in (native.populate, native.release_pages, native.sync_pages):
        with pytest.raises(error):
            function(buffer, 0, 1)


def test_where_the_system_cannot_it_says_so(kernel: str, tmp_path: Path) -> None:
    """Behind the end of the file there are no pages."""
    path = tmp_path / "pages"
    path.write_bytes(bytes(2 * PAGE_SIZE))
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        file.truncate(PAGE_SIZE)
        assert not native.populate(mapping, 0, 2 * PAGE_SIZE)
