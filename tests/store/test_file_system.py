"""Syncing all of a file system at once: only where a failed write would be told."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from flightlog.store.disk import file_system
from flightlog.store.disk.disk import RealDisk
from flightlog.store.disk.file_system import FileSystem, open_file_system
from flightlog.store.errors import SyncFailedError


def test_it_syncs_and_closes(tmp_path: Path) -> None:
    found = RealDisk().open_file_system(tmp_path)
    if found is None:
        assert not file_system.reports_failures() or platform.system() != "Linux" or not is_trusted(tmp_path)
        return
    (tmp_path / "file").write_bytes(b"x")
    found.sync()
    found.close()
    found.close()


def is_trusted(path: Path) -> bool:
    """As the mount table says."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    _, kind = max((len(place), kind) for _, place, kind, *_ in mounts if path.is_relative_to(place))
    return kind in ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs")


@pytest.mark.parametrize("release", ["5.7.19-generic", "4.18.0", "2.6.32", "unknown"])
def test_not_on_a_kernel_that_would_not_tell(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    file_system.reports_failures.cache_clear()
    try:
        assert open_file_system(tmp_path) is None
    finally:
        monkeypatch.undo()
        file_system.reports_failures.cache_clear()


def test_not_on_a_file_system_that_would_not_tell() -> None:
    if Path("/proc/self").exists():
        assert open_file_system(Path("/proc")) is None


def test_a_failure_is_named(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.close(descriptor)
    with pytest.raises(SyncFailedError, match="Bad file descriptor"):
        FileSystem(tmp_path, -1).sync()
