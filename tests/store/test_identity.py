"""Which file a path leads to, asked without the times of the file, and as `os.stat` where there is no statx."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from flightlog.store.disk import identity
from flightlog.store.disk.disk import RealDisk
from flightlog.store.disk.identity import identity_of
from flightlog.store.errors import SymbolicLinkError


def refused(*_: object) -> int:
    """What statx answers in a container that does not know it."""
    ctypes.set_errno(errno.EPERM)
    return -1


@pytest.fixture(params=["statx", "os.stat", "refused"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "statx":
        found = refused if request.param == "refused" else None
        monkeypatch.setattr(identity, "statx_function", lambda: found)
    return str(request.param)


def test_it_is_that_of_stat(tmp_path: Path, way: str) -> None:
    for path in (tmp_path, tmp_path / "one", Path("/proc/self/status"), Path("/dev/null")):
        if path.name == "one":
            path.write_bytes(b"1")
        status = path.stat()
        expected = ((os.major(status.st_dev), os.minor(status.st_dev)), status.st_ino), status.st_nlink
        assert identity_of(os.fsencode(path)) == expected
        if not path.is_dir():
            with path.open("rb") as file:
                assert identity_of(file.fileno()) == expected
                if path.name == "one":
                    path.unlink()
                    assert identity_of(file.fileno()) == (expected[0], 0)


def test_what_is_not_there(tmp_path: Path, way: str) -> None:
    with pytest.raises(FileNotFoundError):
        identity_of(os.fsencode(tmp_path / "none"))
    with pytest.raises(OSError):
        identity_of(1 << 30)


def test_a_file_is_in_place_until_its_path_leads_elsewhere(tmp_path: Path, way: str) -> None:
    path, moved = tmp_path / "a", tmp_path / "b"
    file = RealDisk().open(path, writable=True, create=True)
    assert file.is_in_place()
    path.rename(moved)
    assert not file.is_in_place()
    path.write_bytes(b"another")
    assert not file.is_in_place()
    moved.rename(path)
    assert file.is_in_place()
    path.unlink()
    assert not file.is_in_place()
    path.symlink_to(path)
    with pytest.raises(SymbolicLinkError):
        file.is_in_place()
    file.close()


@pytest.mark.parametrize("folder", ["absolute", "relative"])
def test_no_times_are_asked_for_beside_a_sync(tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With them, each sync of a log wrote its inode as well, and took a third longer (Linux 6.13, ext4 without a
    journal)."""
    if identity.statx_function() is None:
        pytest.skip("no statx")
    monkeypatch.chdir(tmp_path)
    file = RealDisk().open(tmp_path / "log" if folder == "absolute" else Path("log"), writable=True, create=True)
    with monkeypatch.context() as patched:
        for name in ("stat", "fstat", "lstat"):
            patched.delattr(os, name)
        assert file.is_in_place()
    file.close()
