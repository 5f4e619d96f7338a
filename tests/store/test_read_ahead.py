"""What is asked of the disk ahead of a reader: in steps, and nothing for what is in memory already."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flightlog.store import read_ahead as module
from flightlog.store.disk import RealDisk
from flightlog.store.read_ahead import STEP, is_in_memory


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, at, size, advice: found.append((at, size, advice)))
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    return path


@pytest.mark.parametrize("in_memory", [False, True])
def test_every_byte_is_asked_for_once_unless_the_last_is_there(
    in_memory: bool, path: Path, asked: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    def look(_: int, position: int) -> bool:
        looked.append(position)
        return in_memory

    monkeypatch.setattr(module, "is_in_memory", look)
    file = RealDisk().open(path)
    file.will_read(100, 2 * STEP + 7)
    file.close()
    wanted = [(100, STEP), (100 + STEP, STEP), (100 + 2 * STEP, 7)]
    assert asked == ([] if in_memory else [(at, size, os.POSIX_FADV_WILLNEED) for at, size in wanted])
    assert looked == [100 + 2 * STEP + 6]


def test_what_is_no_byte_of_the_file_is_not_in_memory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert not is_in_memory(descriptor, 10_000)
    finally:
        os.close(descriptor)
    assert not is_in_memory(descriptor, 0)


def test_a_byte_that_was_just_read_is_in_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert os.pread(descriptor, 1, 5000) == b"x"
        try:
            os.preadv(descriptor, [bytearray(1)], 5000, os.RWF_NOWAIT)
            can_tell = True
        except OSError:
            can_tell = False  # overlays and network mounts
        assert is_in_memory(descriptor, 5000) == can_tell
        monkeypatch.delattr(os, "RWF_NOWAIT")
        assert not is_in_memory(descriptor, 5000)
    finally:
        os.close(descriptor)
