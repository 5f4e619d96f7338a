"""What is asked of the disk ahead of a reader: in steps, and nothing for what is in memory already."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flightlog.store.disk import disk_hints as module
from flightlog.store.disk.disk import RealDisk
from flightlog.store.disk.disk_hints import FAR, STEP, is_in_memory, window_of
from flightlog.tests.support import process


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
    monkeypatch.setattr(module, "window_of", lambda device: FAR - 1)
    file = RealDisk().open(path)
    file.will_read(100, 2 * STEP + 7)
    file.close()
    wanted = [(100, STEP), (100 + STEP, STEP), (100 + 2 * STEP, 7)]
    assert asked == ([] if in_memory else [(at, size, os.POSIX_FADV_WILLNEED) for at, size in wanted])
    assert looked == [100 + 2 * STEP + 6]


def test_nothing_is_asked_of_a_device_that_the_system_reads_far_ahead_of(
    path: Path, asked: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    devices: list[int] = []

    def far(device: int) -> int:
        devices.append(device)
        return FAR

    monkeypatch.setattr(module, "window_of", far)
    monkeypatch.setattr(module, "is_in_memory", lambda *_: False)
    file = RealDisk().open(path)
    file.will_read(0, STEP)
    file.close()
    assert not asked and devices == [path.stat().st_dev]


def test_the_window_is_that_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system shows its devices: a partition is a folder in that of its disk, and found through a link."""
    disk, numbers = tmp_path / "devices" / "disk", tmp_path / "numbers"
    (disk / "queue").mkdir(parents=True)
    (disk / "queue" / "read_ahead_kb").write_text("4096\n")
    (disk / "partition").mkdir()
    (tmp_path / "devices" / "odd" / "queue").mkdir(parents=True)
    (tmp_path / "devices" / "odd" / "queue" / "read_ahead_kb").write_text("far\n")
    numbers.mkdir()
    for name, target in (("7:1", disk), ("7:2", disk / "partition"), ("7:3", tmp_path / "devices" / "odd")):
        (numbers / name).symlink_to(target)
    monkeypatch.setattr(module, "DEVICES", numbers)
    windows = [window_of.__wrapped__(os.makedev(7, number)) for number in (1, 2, 3, 4)]
    assert windows == [4 << 20, 4 << 20, 0, 0]


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

        def can_tell() -> bool:
            assert os.pread(descriptor, 1, 5000) == b"x"
            try:
                os.preadv(descriptor, [bytearray(1)], 5000, os.RWF_NOWAIT)
                return True
            except OSError:
                return False  # overlays and network mounts

        # Between two looks the system may take the page.
        process.wait_until(lambda: is_in_memory(descriptor, 5000) == can_tell())
        monkeypatch.delattr(os, "RWF_NOWAIT")
        assert not is_in_memory(descriptor, 5000)
    finally:
        os.close(descriptor)
