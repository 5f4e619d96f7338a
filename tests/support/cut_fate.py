"""When and where a writer's power fails: a disk that counts the visits of its sites."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flightlog.store.disk.disk import DiskFile, MappedPart, RealDisk, RealFile
from flightlog.store.disk.file_system import FileSystem

SHUT_DOWN = 0x8004587D
"""ext4's ioctl of this name (linux/fs.h: EXT4_IOC_SHUTDOWN)."""
WITHOUT_THE_JOURNAL = (2).to_bytes(4, "little")

NAMES = {"checkpoint": "checkpoint", "abort": "abort", "progress": "progress", "timerwheel": "timers"}
STATE_FILES = {
    "topics.json": "topics",
    "deleted-topics.json": "note",
    "delayOffset.json": "levels",
    "timercheck": "timers",
}
FOLDERS = {
    "commitlog": "log",
    "batchconsumequeue": "batch queue",
    "consumequeue_ext": "extension",
    "consumequeue": "queue",
    "index": "index",
    "flightlog": "seal",
    "timerlog": "timers",
    "config": "topics",
}
"""Part of a path -> what a change there belongs to; the first one that fits."""


def cut_power(mounted: int) -> None:
    """Nothing that is not on the disk by now will ever be."""
    fcntl.ioctl(mounted, SHUT_DOWN, WITHOUT_THE_JOURNAL)


def site_of(path: Path) -> str:
    """What a change at this path is part of."""
    if path.name in NAMES:
        return NAMES[path.name]
    for name, site in STATE_FILES.items():
        if path.name.startswith(name):  # .tmp and .bak too
            return site
    if path.name.startswith("cut-"):
        return "cut tail"
    return next((site for part, site in FOLDERS.items() if part in path.parts), "other")


def birth_site_of(path: Path) -> str:
    """The same, where a file is made, or given its length."""
    return {"log": "roll", "index": "key roll"}.get(site := site_of(path), site)


class Fate:
    """Ends the writer at the n-th visit of one site."""

    def __init__(self, order: dict[str, Any], mounted: int) -> None:
        self._site, self._left, self.after = order["site"], order.get("nth", 0), order.get("after", False)
        self._kills, self._mounted = order["end"] == "kill", mounted
        self._lock = threading.Lock()
        self.phase = "boot"
        """Also a site: every change while the store is opened, or closed."""
        self._doing = threading.local()
        self.is_coming = self.has_come = False

    @contextmanager
    def visit(self, *sites: str) -> Iterator[None]:
        comes = self._comes(sites)
        if comes and not self.after:
            self.come()
        yield
        if comes and self.after:
            self.come()

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Every change that this thread now makes is a visit of `what` too."""
        self._doing.what = what
        try:
            yield
        finally:
            self._doing.what = ""

    def _comes(self, sites: tuple[str, ...]) -> bool:
        if self._site not in (*sites, self.phase, getattr(self._doing, "what", "")) or not self._site:
            return False
        if self.phase == "boot" and self._site not in ("boot", "abort"):
            return False  # else most sites would be met while the store is opened
        with self._lock:
            self._left -= 1
            return bool(self._left == 0)

    def come(self) -> None:
        self.is_coming = True
        if self._kills:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal has been sent; nothing may happen behind it
        cut_power(self._mounted)
        self.has_come = True


class FatedFile(RealFile):
    def __init__(self, fate: Fate, file: RealFile, writable: bool) -> None:
        super().__init__(file.path, os.dup(file.descriptor), writable)
        file.close()
        self._fate, self._site, self._birth = fate, site_of(file.path), birth_site_of(file.path)

    def write(self, position: int, data: bytes | memoryview) -> None:
        with self._fate.visit(self._site):
            super().write(position, data)

    def resize(self, size: int) -> None:
        with self._fate.visit(self._birth):
            super().resize(size)

    def allocate(self, position: int, size: int) -> None:
        with self._fate.visit("allocate"):
            super().allocate(position, size)

    def sync(self, part: MappedPart | None = None) -> None:
        with self._fate.visit("sync" if self._site == "log" else self._site):
            super().sync(part)


class FatedFileSystem(FileSystem):
    def __init__(self, fate: Fate, found: FileSystem) -> None:
        super().__init__(found.path, os.dup(found.descriptor))
        found.close()
        self._fate = fate

    def sync(self) -> None:
        with self._fate.visit("file system"):
            super().sync()


class FatedDisk(RealDisk):
    def __init__(self, fate: Fate) -> None:
        self._fate = fate

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        if not writable:
            return super().open(path)
        if not create or path.exists():
            return FatedFile(self._fate, super().open(path, writable=True, create=create), writable)
        with self._fate.visit(birth_site_of(path)):
            return FatedFile(self._fate, super().open(path, writable=True, create=True), writable)

    def open_unnamed(self, path: Path) -> RealFile | None:
        with self._fate.visit(birth_site_of(path)):
            file = super().open_unnamed(path)
        return None if file is None else FatedFile(self._fate, file, True)

    def link(self, file: DiskFile) -> None:
        with self._fate.visit("link", birth_site_of(file.path)):
            super().link(file)

    def make_folder(self, path: Path, *, syncs: bool = True) -> None:
        if path.exists():
            return
        with self._fate.visit("folder"):
            super().make_folder(path, syncs=syncs)

    def open_file_system(self, path: Path) -> FileSystem | None:
        found = super().open_file_system(path)
        return None if found is None else FatedFileSystem(self._fate, found)

    def sync_folder(self, path: Path) -> None:
        with self._fate.visit(birth_site_of(path)):
            super().sync_folder(path)

    def rename(self, old: Path, new: Path) -> None:
        with self._fate.visit("rename", site_of(new)):
            super().rename(old, new)

    def remove(self, path: Path) -> None:
        with self._fate.visit("remove"):
            super().remove(path)

    def remove_folder(self, path: Path) -> None:
        with self._fate.visit("remove"):
            super().remove_folder(path)
