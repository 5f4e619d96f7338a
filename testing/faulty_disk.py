"""A real disk that runs full, fails or blocks where a test tells it to.

    disk = FaultyDisk()
    store = flightlog.open(folder, disk=disk)
    disk.fail("allocate", "commitlog/", errno.ENOSPC, skip=2)   # the third and every later one, until heal()
    disk.fail_syncs()                                           # every sync of the commit log fails
    with disk.held_syncs():                                     # nothing becomes durable inside of the block
        ...

Operations: open, create (open of a file that does not exist yet, or has no name yet), link, read, write, resize,
allocate, sync, sync_folder, sync_all (of the file system), rename, remove, make_folder; "*" is any of them. A path
matches if it contains the given part. Stores into mapped memory are no operations: no disk fails them.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..store.disk.disk import DiskFile, MappedPart, RealDisk, RealFile
from ..store.disk.disk_errors import disk_errors
from ..store.disk.file_system import FileSystem, Unpromising
from ..store.errors import SyncFailedError


@dataclass
class Fault:
    """What happens at the operations that match."""

    operation: str
    part: str
    error: int
    """An errno; 0 for none."""
    skip: int = 0
    """How many matching operations pass before."""
    times: int | None = None
    """How many operations it hits; None: all."""
    holds: bool = False
    """Whether the operation blocks until `release`, before it fails or passes."""
    hits: int = 0
    released: threading.Event = field(default_factory=threading.Event)


class FaultyFile(RealFile):
    """A real file whose operations ask the disk first."""

    def __init__(self, disk: FaultyDisk, file: RealFile, writable: bool) -> None:
        super().__init__(file.path, os.dup(file.descriptor), writable)
        file.close()
        self._disk = disk

    def read(self, position: int, size: int) -> bytes:
        with disk_errors(self.path, f"reading {size} bytes at {position}"):
            self._disk.meet("read", self.path)
        return super().read(position, size)

    def write(self, position: int, data: bytes | memoryview) -> None:
        with disk_errors(self.path, f"writing {len(data)} bytes at {position}", len(data)):
            try:
                self._disk.meet("write", self.path)
            except OSError as e:
                if e.errno == errno.ENOSPC:  # a disk that runs full takes what it can
                    os.pwrite(self.descriptor, data[: len(data) // 2], position)
                raise
        super().write(position, data)

    def resize(self, size: int) -> None:
        with disk_errors(self.path, f"setting the length to {size} bytes", size):
            self._disk.meet("resize", self.path)
        super().resize(size)

    def allocate(self, position: int, size: int) -> None:
        with disk_errors(self.path, f"allocating {size} bytes at {position}", size):
            self._disk.meet("allocate", self.path)
        super().allocate(position, size)

    def map_for_append(self) -> mmap.mmap:
        assert not self._disk.unpromising, f"{self.path} is mapped for appends"
        return super().map_for_append()

    def sync(self, part: MappedPart | None = None) -> None:
        self._disk.meet_sync("sync", self.path)
        super().sync(part)


class FaultyFileSystem(FileSystem):
    """Syncs every file, unless the disk fails it."""

    def __init__(self, disk: FaultyDisk, found: FileSystem) -> None:
        super().__init__(found.path, os.dup(found.descriptor))
        self._disk = disk

    def sync(self) -> None:
        self._disk.meet_sync("sync_all", self.path)
        super().sync()


class FaultyDisk(RealDisk):
    """A local disk that fails on demand and counts every operation. Thread-safe."""

    unpromising = ""
    """Name of the file system that it pretends to be: one where appends through a mapping are unsafe ("btrfs")."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        """(operation, name of the file or folder) -> how often."""
        self.held = threading.Semaphore(0)
        """A semaphore that is released once for every operation that begins to block."""
        self.sync_delay_s = 0.0
        """Seconds that every sync takes longer."""
        self.faults: list[Fault] = []
        self._lock = threading.Lock()

    def fail(self, operation: str, part: str, error: int, *, skip: int = 0, times: int | None = None) -> Fault:
        """Let matching operations fail with the errno `error`: after the first `skip`, and `times` of them (None: all).

        An error of a sync reaches the store as SyncFailedError, every other one as DiskError or DiskFullError.
        """
        fault = Fault(operation, part, error, skip, times)
        self.faults.append(fault)
        return fault

    def hold(self, operation: str, part: str, *, times: int | None = None, error: int = 0) -> Fault:
        """Let matching operations block until `release`, and then fail if there is an `error`. 240 seconds at most."""
        fault = Fault(operation, part, error, times=times, holds=True)
        self.faults.append(fault)
        return fault

    def fail_syncs(self, part: str = "commitlog/", *, error: int = errno.EIO) -> Fault:
        """Let syncs of these files fail from now on: the store poisons itself at the first one."""
        return self.fail("sync", part, error)

    @contextmanager
    def held_syncs(self, part: str = "commitlog/") -> Iterator[threading.Semaphore]:
        """Block syncs of these files while the block runs, flush rounds and waiting puts with them. The value is
        `held`: `acquire()` waits until one blocks."""
        fault = self.hold("sync", part)
        try:
            yield self.held
        finally:
            fault.released.set()
            self.faults.remove(fault)

    def release(self) -> None:
        """Unblock every operation, and block no others."""
        for fault in self.faults:
            fault.released.set()
        self.faults = [fault for fault in self.faults if not fault.holds]

    def heal(self) -> None:
        """Remove every fault, and unblock what blocks."""
        self.release()
        self.faults = []

    def count(self, operation: str, part: str = "") -> int:
        """How many operations there were on paths that contain `part`."""
        with self._lock:
            return sum(n for (name, path), n in self.counts.items() if name == operation and part in path)

    def meet(self, operation: str, path: Path) -> None:
        """Called before every operation. Raises the OSError of the fault that matches."""
        with self._lock:
            self.counts[operation, str(path)] += 1
            fault = self._next_fault(operation, str(path))
        if fault is None:
            return
        if fault.holds:
            self.held.release()
            assert fault.released.wait(240), f"{operation} of {path} was held and never released"
        if fault.error:
            raise OSError(fault.error, os.strerror(fault.error))

    def _next_fault(self, operation: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.operation not in (operation, "*") or fault.part not in path:
                continue
            if fault.skip:
                fault.skip -= 1
            elif fault.times is None or fault.hits < fault.times:
                fault.hits += 1
                return fault
        return None

    def meet_sync(self, operation: str, path: Path) -> None:
        """As `meet`, for syncs: raises SyncFailedError."""
        if self.sync_delay_s:
            time.sleep(self.sync_delay_s)
        try:
            self.meet(operation, path)
        except OSError as e:
            raise SyncFailedError(path, os.strerror(e.errno or 0)) from e

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> FaultyFile:
        with disk_errors(path, "opening it"):
            self.meet("create" if create and not path.exists() else "open", path)
        return FaultyFile(self, super().open(path, writable=writable, create=create), writable)

    def open_unnamed(self, path: Path) -> FaultyFile | None:
        with disk_errors(path, "making it, without a name"):
            self.meet("create", path)
        file = super().open_unnamed(path)
        return None if file is None else FaultyFile(self, file, True)

    def link(self, file: DiskFile) -> None:
        with disk_errors(file.path, "giving it its name"):
            self.meet("link", file.path)
        super().link(file)

    def open_file_system(self, path: Path) -> FileSystem | None:
        found = super().open_file_system(path)
        return None if found is None else FaultyFileSystem(self, found)

    def find_unpromising(self, path: Path) -> Unpromising | None:
        if self.unpromising:
            return Unpromising(path, self.unpromising, "does what a test wants")
        return super().find_unpromising(path)

    def sync_folder(self, path: Path) -> None:
        self.meet_sync("sync_folder", path)
        super().sync_folder(path)

    def rename(self, old: Path, new: Path) -> None:
        with disk_errors(old, f"renaming it to {new.name}"):
            self.meet("rename", new)
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        with disk_errors(path, "removing it"):
            self.meet("remove", path)
        super().remove(path)

    def remove_folder(self, path: Path) -> None:
        with disk_errors(path, "removing the folder"):
            self.meet("remove", path)
        super().remove_folder(path)

    def make_folder(self, path: Path, *, syncs: bool = True) -> None:
        if not path.exists():
            with disk_errors(path, "making the folder"):
                self.meet("make_folder", path)
        super().make_folder(path, syncs=syncs)
