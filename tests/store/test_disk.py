"""The door to the disk: what its words mean, and which error an operating system's refusal becomes."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from flightlog.store.disk import allocate
from flightlog.store.disk.disk import FolderEntry, RealDisk
from flightlog.store.disk.disk_errors import disk_errors
from flightlog.store.errors import DiskError, DiskFullError, SymbolicLinkError, SyncFailedError

MIB = 1 << 20


def blocks(path: Path) -> int:
    return os.stat(path).st_blocks * 512


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk()


def test_a_file_is_made_only_where_asked(disk: RealDisk, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for writable in (False, True):
        with pytest.raises(FileNotFoundError):
            disk.open(path, writable=writable)
    disk.open(path, writable=True, create=True).close()
    assert disk.exists(path) and path.stat().st_size == 0
    disk.open(path).close()


def test_reads_and_writes(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "file", writable=True, create=True)
    file.write(3, b"abc")
    assert file.size() == 6
    assert file.read(0, 100) == b"\0\0\0abc"
    assert file.read(4, 1) == b"b"
    assert file.read(6, 10) == b"" and file.read(100, 10) == b""
    file.write(4, memoryview(b"XY"))
    assert file.read(0, 6) == b"\0\0\0aXY"
    file.resize(4)
    file.resize(8)
    assert file.read(0, 8) == b"\0\0\0a\0\0\0\0"
    file.sync()
    file.close()
    file.close()


def test_mappings_outlive_the_descriptor(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "file", writable=True, create=True)
    file.resize(4096)
    writer, reader = file.map_for_append(), file.map_for_read()
    file.close()
    writer[10:13] = b"abc"
    assert reader[10:13] == b"abc"
    with pytest.raises(TypeError):
        reader[0:1] = b"x"
    assert (tmp_path / "file").read_bytes()[10:13] == b"abc"


def test_allocated_blocks_are_real_and_the_bytes_stay(disk: RealDisk, tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = disk.open(path, writable=True, create=True)
    file.resize(8 * MIB)
    file.write(MIB, b"kept")
    assert blocks(path) < MIB
    file.allocate(0, 2 * MIB)
    assert blocks(path) >= 2 * MIB and disk.allocated_size(path) == blocks(path)
    assert (file.size(), file.read(MIB, 4)) == (8 * MIB, b"kept")
    file.close()


def test_without_fallocate_zeros_are_written(disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The C library's own emulation would write into the file behind our back, one byte a block."""
    monkeypatch.setattr(allocate, "find_fallocate", lambda: None)
    monkeypatch.setattr(allocate, "ZERO_PIECE_SIZE", 1000)
    path = tmp_path / "file"
    file = disk.open(path, writable=True, create=True)
    file.resize(MIB)
    file.write(0, b"before")
    file.write(50_000, b"behind")
    file.allocate(6, 49_994)
    assert file.read(0, 6) == b"before" and file.read(50_000, 6) == b"behind"
    assert file.read(6, 49_994) == bytes(49_994)
    assert (file.size(), file.next_data(4096)) == (MIB, 4096)
    file.close()


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_that_cannot_allocate(
    code: int, disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_fallocate(monkeypatch, code)
    path = tmp_path / "file"
    file = disk.open(path, writable=True, create=True)
    file.resize(MIB)
    file.allocate(0, 64 << 10)
    assert file.next_data(0) == 0 and blocks(path) >= 64 << 10
    file.close()


def test_an_interrupted_allocation_is_tried_again(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = refuse_fallocate(monkeypatch, errno.EINTR, 0)
    file = disk.open(tmp_path / "file", writable=True, create=True)
    file.allocate(0, 4096)
    assert answers == []
    file.close()


def refuse_fallocate(monkeypatch: pytest.MonkeyPatch, *codes: int) -> list[int]:
    """Have the system call answer with these codes, one after the other."""
    left = list(codes)

    def fallocate(descriptor: int, mode: int, position: int, size: int) -> int:
        code = left.pop(0)
        ctypes.set_errno(code)
        return -1 if code else 0

    monkeypatch.setattr(allocate, "find_fallocate", lambda: fallocate)
    return left


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room(code: int, disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_fallocate(monkeypatch, code)
    file = disk.open(tmp_path / "file", writable=True, create=True)
    with pytest.raises(DiskFullError) as raised:
        file.allocate(0, 4096)
    assert (raised.value.path, raised.value.wanted) == (tmp_path / "file", 4096)
    assert os.strerror(code) in str(raised.value) and "free space" in str(raised.value)
    file.close()


def test_where_the_data_is(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(tmp_path / "file", writable=True, create=True)
    file.resize(4 * MIB)
    assert file.next_data(0) is None
    file.write(2 * MIB + 5, b"x")
    found = file.next_data(0)
    assert found is not None and 0 < found <= 2 * MIB + 5
    assert file.next_data(2 * MIB + 5) == 2 * MIB + 5
    assert file.next_data(3 * MIB) is None
    assert file.next_data(4 * MIB) is None and file.next_data(5 * MIB) is None
    file.close()


def test_folders(disk: RealDisk, tmp_path: Path) -> None:
    assert disk.list(tmp_path / "none") == []
    disk.make_folder(tmp_path / "a" / "b")
    disk.make_folder(tmp_path / "a" / "b")
    (tmp_path / "a" / "z").write_bytes(b"123")
    assert disk.list(tmp_path / "a") == [FolderEntry("b", True, 0), FolderEntry("z", False, 3)]
    (tmp_path / "a" / "c").symlink_to(tmp_path / "a" / "b")
    with pytest.raises(SymbolicLinkError, match="links are not followed"):
        disk.list(tmp_path / "a")
    (tmp_path / "a" / "c").unlink()
    disk.rename(tmp_path / "a" / "z", tmp_path / "a" / "y")
    disk.sync_folder(tmp_path / "a")
    disk.remove(tmp_path / "a" / "y")
    assert not disk.exists(tmp_path / "a" / "y")
    assert disk.free_size(tmp_path) > 0


def test_only_an_empty_folder_is_removed(disk: RealDisk, tmp_path: Path) -> None:
    """One that is not there, or not empty, is left as it is; what is no folder is told."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    disk.remove_folder(tmp_path / "a")
    assert (tmp_path / "a" / "b").exists()
    disk.remove_folder(tmp_path / "a" / "b")
    disk.remove_folder(tmp_path / "a" / "b")
    assert disk.list(tmp_path / "a") == []
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DiskError, match="removing the folder"):
        disk.remove_folder(tmp_path / "file")


def test_refusals_name_the_path_and_what_was_tried(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DiskError, match=r"file/below.*opening it") as raised:
        disk.open(tmp_path / "file" / "below", writable=True, create=True)
    assert not isinstance(raised.value, DiskFullError)
    with pytest.raises(DiskError, match="listing it"):
        disk.list(tmp_path / "file")
    with pytest.raises(DiskError, match="removing it"):
        disk.remove(tmp_path)
    with pytest.raises(DiskError, match="making the folder"):
        disk.make_folder(tmp_path / "file" / "below")
    with pytest.raises(SyncFailedError):
        disk.sync_folder(tmp_path / "none")
    file = disk.open(tmp_path / "file")
    with pytest.raises(DiskError, match="writing 1 bytes at 0"):
        file.write(0, b"x")
    with pytest.raises(DiskError, match="mapping it for reads"):
        disk.open(tmp_path).map_for_read()
    file.close()


def test_a_missing_file_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), disk_errors(tmp_path, "trying"):
        raise FileNotFoundError(errno.ENOENT, "gone")
    with pytest.raises(ZeroDivisionError), disk_errors(tmp_path, "trying"):
        raise ZeroDivisionError


def test_a_sync_that_the_system_refuses_is_told_by_name(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other error may come out of it: this one alone poisons the store."""
    file = disk.open(tmp_path / "file", writable=True, create=True)

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", refuse)
    with pytest.raises(SyncFailedError, match=r"file.*Input/output error"):
        file.sync()
    file.close()
