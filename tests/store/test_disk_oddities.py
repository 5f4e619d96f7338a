"""The door to the disk where calls end early, or the operating system answers oddly."""

from __future__ import annotations

import errno
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from flightlog.store.disk.disk import FolderEntry, RealDisk
from flightlog.store.errors import DiskError


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk()


def test_reads_and_writes_that_come_in_pieces_go_on(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal, or a file system of its own mind, may end a call early."""
    read, write = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda descriptor, size, position: read(descriptor, min(size, 3), position))
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, position: write(descriptor, data[:4], position))
    file = disk.open(tmp_path / "file", writable=True, create=True)
    file.write(2, b"0123456789")
    assert file.read(0, 12) == b"\0\x000123456789"
    assert file.read(8, 100) == b"6789", "and end with the file"
    file.close()


@pytest.mark.parametrize(("code", "data", "hole"), [(errno.ENXIO, None, 4096), (errno.EINVAL, 5, 4096)])
def test_a_file_system_that_does_not_know_its_holes(
    code: int, data: int | None, hole: int, disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(tmp_path / "file", writable=True, create=True)
    file.resize(4096)
    refuse_lseek(monkeypatch, code)
    assert (file.next_data(5), file.next_hole(5)) == (data, hole)
    file.close()


def test_a_disk_that_fails_while_data_is_looked_for(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(tmp_path / "file", writable=True, create=True)
    file.resize(4096)
    refuse_lseek(monkeypatch, errno.EIO)
    with pytest.raises(DiskError, match=r"/file: looking for data at 5: Input/output error"):
        file.next_data(5)
    with pytest.raises(DiskError, match=r"/file: looking for a hole at 6: Input/output error"):
        file.next_hole(6)
    file.close()


def refuse_lseek(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def lseek(descriptor: int, position: int, how: int) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "lseek", lseek)


def test_a_file_that_goes_while_its_folder_is_listed(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("goes", "stays"):
        (tmp_path / name).write_bytes(b"12")
    scandir = os.scandir

    def removing(folder: Path) -> AbstractContextManager[list[os.DirEntry[str]]]:
        entries = list(scandir(folder))
        (tmp_path / "goes").unlink()
        return nullcontext(entries)

    monkeypatch.setattr(os, "scandir", removing)
    assert disk.list(tmp_path) == [FolderEntry("stays", False, 2)]
