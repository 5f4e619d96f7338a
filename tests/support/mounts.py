"""Small real file systems, mounted from a file: root alone may do that."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from flightlog.store.state.progress import BOOT, PAGE, progress_path


def why_none() -> str | None:
    """Why nothing can be mounted here; None if it can."""
    if os.geteuid() != 0:
        return "only root may mount a file system"
    missing = [program for program in ("mkfs.ext4", "mount", "umount") if shutil.which(program) is None]
    return f"{missing[0]} is not here" if missing else None


def needs_root() -> None:
    """Skips where nothing can be mounted."""
    if reason := why_none():
        pytest.skip(reason)


class Ext4:
    """An ext4 file system of `size` bytes in a file of `folder`, mounted while this is used as a context manager."""

    def __init__(self, folder: Path, size: int, options: str = "") -> None:
        self.place = folder / "mounted"
        self._image, self._size, self._options = folder / "image", size, options

    @property
    def is_made(self) -> bool:
        return self._image.exists()

    def make(self) -> None:
        """A new, empty one."""
        self._image.unlink(missing_ok=True)
        with self._image.open("wb") as file:
            file.truncate(self._size)
        _run("mkfs.ext4", "-q", "-b", "4096", "-m", "0", str(self._image))

    def __enter__(self) -> Path:
        self.place.mkdir(parents=True, exist_ok=True)
        _run("mount", "-o", f"loop{self._options}", str(self._image), str(self.place))
        return self.place

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        # A test that failed may hold files open: let the place go all the same.
        _run("umount", *(["-l"] if kind else []), str(self.place))


def boot_anew(store: Path) -> None:
    """After a power cut that left the machine on: the progress page must be told that its boot is over."""
    page = progress_path(store)
    if page.exists() and page.stat().st_size >= PAGE.size:
        with page.open("r+b") as file:
            file.seek(BOOT * 8)
            file.write((1).to_bytes(8, "little"))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
