"""The one door to the disk.

Every byte that flightlog reads or writes, every sync and every rename goes through a `Disk` that is handed in. Tests
hand in disks that lose unsynced pages, run full, or fail; readers of remote stores hand in one that fetches ranges.

Errors come out as DiskFullError (no room), TooManyFilesError (no descriptor), SyncFailedError (a sync failed) and
DiskError (everything else).
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from pathlib import Path
from typing import NamedTuple, Protocol

from .. import native
from ..errors import DiskError, FileGoneError, SymbolicLinkError, SyncFailedError, TooManyFilesError
from .allocate import allocate_blocks
from .disk_errors import NO_DESCRIPTOR, disk_errors, raise_disk_error
from .disk_hints import HintedFile
from .file_system import FileSystem, Unpromising, find_unpromising, open_file_system
from .identity import Identity, identity_of

FILE_MODE = 0o644
"""Mode of every new file, before the umask; folders are created with 0o777, before the umask."""
MAX_FILE_SIZE = (1 << 31) - 1
"""Bytes of a segment or a queue file: RocketMQ maps each as one. It limits what a file's length can make us allocate,
for that length says how many entries a file has."""
NEVER_ELSEWHERE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK
"""How everything is opened: a symbolic link is an error, and a pipe in place of a file does not block."""
NOT_KNOWN = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EACCES})
"""What a file system answers that has no files without a name, or a sandbox that allows none."""


class FolderEntry(NamedTuple):
    """A name in a folder."""

    name: str
    is_folder: bool
    size: int
    """Bytes of a file; 0 for a folder."""


class DiskSpace(NamedTuple):
    """How full a file system is, in bytes."""

    used: int
    available: int
    """What an ordinary user may still write: less than what is free where some is kept for the administrator."""

    @property
    def used_ratio(self) -> int:
        """Per cent in use, rounded up, of what this user could use at most
        (`UtilAll#getDiskPartitionSpaceUsedPercent`)."""
        entire = self.used + self.available
        return -(-self.used * 100 // entire) if entire else 0


class MappedPart(NamedTuple):
    """Bytes [start, stop) of a mapping of all of a file; a page begins at `start`."""

    mapping: mmap.mmap
    start: int
    stop: int


class DiskFile(Protocol):
    """An open file."""

    path: Path

    def size(self) -> int:
        """Length in bytes."""

    def has_name(self) -> bool:
        """Whether it has a name yet: not once it was removed, or another file put in its place."""

    def is_in_place(self) -> bool:
        """Whether its path still leads to it: not once it was removed or moved away, nor another file put there."""

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def next_data(self, position: int) -> int | None:
        """The first position at or after `position` that may hold anything but zeros; None if only holes follow."""

    def next_hole(self, position: int) -> int:
        """The first position at or after `position` from which on nothing was written for a while; at most the end."""

    def will_poke(self) -> None:
        """Reads will be few and scattered: read nothing ahead."""

    def will_read(self, position: int, size: int) -> None:
        """These bytes will be read soon: begin to fetch them, unless the last of them is in memory."""

    def will_sync(self, position: int, size: int) -> None:
        """These bytes are written, and will be synced soon: have the disk begin to take them."""

    def write(self, position: int, data: bytes | memoryview) -> None:
        """All of `data`, or an error. Durable only after `sync`."""

    def resize(self, size: int) -> None:
        """Cut, or lengthen by a hole."""

    def allocate(self, position: int, size: int) -> None:
        """Give [position, position + size) blocks of disk, so that a store into a mapping of it cannot fail."""

    def sync(self, part: MappedPart | None = None) -> None:
        """Return once everything written or stored through a mapping so far is on the disk; with a `part`, at least
        what was stored into that. Raises SyncFailedError."""

    def map_for_append(self) -> mmap.mmap:
        """A writable mapping for small, scattered stores: advised random, see SPEED in docs."""

    def map_for_read(self) -> mmap.mmap:
        """A read-only mapping of the file's present length."""

    def close(self) -> None:
        """Close the descriptor; mappings stay alive while they are referenced."""


class Disk(Protocol):
    """Files and folders."""

    @property
    def maps_files(self) -> bool:
        """Whether files can be mapped. Where they cannot be, everything is read by read calls."""

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> DiskFile:
        """Raises FileGoneError if it is missing and `create` is not set, or if its folder is."""

    def open_unnamed(self, path: Path) -> DiskFile | None:
        """A new file that will be `path` once `link` gives it that name, and is gone without that. None if the file
        system has no such files."""

    def link(self, file: DiskFile) -> None:
        """Give an unnamed file its name, which nothing has yet. Durable only after `sync_folder`."""

    def list(self, folder: Path) -> list[FolderEntry]:
        """The entries sorted by name; empty if the folder does not exist. Raises SymbolicLinkError if one is a link."""

    def exists(self, path: Path) -> bool: ...

    def make_folder(self, path: Path, *, syncs: bool = True) -> None:
        """With its parents; what was made is synced into its parent, unless the caller does that."""

    def open_file_system(self, path: Path) -> FileSystem | None:
        """What syncs all files of the file system of a folder at once; None if it would not tell of a failure."""

    def find_unpromising(self, path: Path) -> Unpromising | None:
        """The file system of a folder, if one should not append to its files through a mapping: see file_system.py."""

    def sync_folder(self, path: Path) -> None:
        """Make creations, renames and removals in this folder durable."""

    def rename(self, old: Path, new: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder; one that is not there, or not empty, is left as it is."""

    def free_size(self, path: Path) -> int:
        """Bytes that an ordinary user may still write on the file system of `path`."""

    def space(self, path: Path) -> DiskSpace:
        """How full the file system of `path` is."""

    def modified_ms(self, path: Path) -> int:
        """When the file's content was last changed, in ms. Raises FileNotFoundError."""

    def allocated_size(self, path: Path) -> int:
        """Bytes of disk that the file really occupies."""


class RealFile(HintedFile):
    """A file on a local file system."""

    def __init__(self, path: Path, descriptor: int, writable: bool) -> None:
        self.path = path
        self.descriptor = descriptor
        self._writable = writable
        self._identity: Identity | None = None
        """Identity of the open file, once it has been read."""

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def has_name(self) -> bool:
        try:
            return os.fstat(self.descriptor).st_nlink > 0
        except OSError:  # a network's file system has lost sight of it
            return False

    def is_in_place(self) -> bool:
        """Looked at beside every sync, so without asking for times: see identity.py."""
        try:
            if not self.path.is_absolute():  # after a change of the working folder it leads elsewhere
                return identity_of(self.descriptor)[1] > 0
            if self._identity is None:
                self._identity = identity_of(self.descriptor)[0]
            return identity_of(os.fsencode(self.path))[0] == self._identity
        except FileNotFoundError:
            return False
        except OSError as e:
            raise_disk_error(e, self.path, "looking whether it is still there")

    def read(self, position: int, size: int) -> bytes:
        try:
            data = os.pread(self.descriptor, size, position)
            if len(data) in (0, size):
                return data
            parts = [data]
            got = len(data)
            while got < size and (data := os.pread(self.descriptor, size - got, position + got)):
                parts.append(data)
                got += len(data)
            return b"".join(parts)
        except OSError as e:
            raise_disk_error(e, self.path, f"reading {size} bytes at {position}")

    def next_data(self, position: int) -> int | None:
        if not hasattr(os, "SEEK_DATA"):
            return position if position < self.size() else None
        try:
            return os.lseek(self.descriptor, position, os.SEEK_DATA)
        except OSError as e:
            if e.errno == errno.ENXIO:
                return None
            if e.errno == errno.EINVAL:
                return position  # the file system does not know its holes
            raise DiskError(f"{self.path}: looking for data at {position}: {e.strerror}") from e

    def next_hole(self, position: int) -> int:
        size = self.size()
        if position >= size or not hasattr(os, "SEEK_HOLE"):
            return size
        try:
            return os.lseek(self.descriptor, position, os.SEEK_HOLE)
        except OSError as e:
            if e.errno in (errno.ENXIO, errno.EINVAL):
                return size
            raise DiskError(f"{self.path}: looking for a hole at {position}: {e.strerror}") from e

    def write(self, position: int, data: bytes | memoryview) -> None:
        try:
            written = os.pwrite(self.descriptor, data, position)
            while written < len(data):
                written += os.pwrite(self.descriptor, memoryview(data)[written:], position + written)
        except OSError as e:
            raise_disk_error(e, self.path, f"writing {len(data)} bytes at {position}", len(data))

    def resize(self, size: int) -> None:
        with disk_errors(self.path, f"setting the length to {size} bytes", size):
            os.ftruncate(self.descriptor, size)

    def allocate(self, position: int, size: int) -> None:
        with disk_errors(self.path, f"allocating {size} bytes at {position}", size):
            allocate_blocks(self.descriptor, position, size)

    def sync(self, part: MappedPart | None = None) -> None:
        try:
            if part is not None and native.sync_pages(part.mapping, part.start, part.stop - part.start):
                return
            if sys.platform == "darwin":  # fsync alone leaves the data in the drive's cache there
                import fcntl

                fcntl.fcntl(self.descriptor, fcntl.F_FULLFSYNC)
            else:
                os.fdatasync(self.descriptor)
        except OSError as e:
            raise SyncFailedError(self.path, os.strerror(e.errno) if e.errno else str(e)) from e

    def map_for_append(self) -> mmap.mmap:
        with disk_errors(self.path, "mapping it for appends"):
            mapping = mmap.mmap(self.descriptor, 0)
            if hasattr(mmap, "MADV_RANDOM"):
                # Else page-cache folios grow along the appends, and a sync of one record writes up to a mebibyte.
                mapping.madvise(mmap.MADV_RANDOM)
            return mapping

    def map_for_read(self) -> mmap.mmap:
        with disk_errors(self.path, "mapping it for reads"):
            return mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ)

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # A refreshed view drops its segments while an iterator may still be reading them: the last user closes. And
        # an interrupt may come between an open and the close.
        self.close()


class RealDisk:
    """Local file systems."""

    maps_files = True

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        flags = os.O_RDWR if writable else os.O_RDONLY
        with disk_errors(path, "opening it"):
            return RealFile(
                path, os.open(path, flags | NEVER_ELSEWHERE | (os.O_CREAT if create else 0), FILE_MODE), writable
            )

    def open_unnamed(self, path: Path) -> RealFile | None:
        flag = getattr(os, "O_TMPFILE", None)
        if flag is None:
            return None
        try:
            with disk_errors(path, "making it, without a name"):
                return RealFile(path, os.open(path.parent, os.O_RDWR | flag | os.O_CLOEXEC, FILE_MODE), True)
        except FileGoneError:
            raise
        except DiskError as e:
            if isinstance(e.__cause__, OSError) and e.__cause__.errno in NOT_KNOWN:
                return None
            raise

    def link(self, file: DiskFile) -> None:
        assert isinstance(file, RealFile)
        descriptor = file.descriptor
        with disk_errors(file.path, "giving it its name"):
            # With a folder's descriptor, which an absolute path does without, or else the link's own name is meant.
            os.link(f"/proc/self/fd/{descriptor}", file.path, src_dir_fd=descriptor, follow_symlinks=True)

    def list(self, folder: Path) -> list[FolderEntry]:
        found = []
        try:
            with disk_errors(folder, "listing it"), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        raise SymbolicLinkError(folder / entry.name)
                    try:
                        is_folder = entry.is_dir()
                        found.append(FolderEntry(entry.name, is_folder, 0 if is_folder else entry.stat().st_size))
                    except FileNotFoundError:
                        pass  # removed or renamed by a writer since its name was read
        except FileNotFoundError:
            return []
        return sorted(found)

    def exists(self, path: Path) -> bool:
        with disk_errors(path, "looking for it"):
            return path.exists()

    def make_folder(self, path: Path, *, syncs: bool = True) -> None:
        missing = []
        while not self.exists(path):
            missing.append(path)
            path = path.parent
        for folder in reversed(missing):
            with disk_errors(folder, "making the folder"):
                folder.mkdir(exist_ok=True)
            if syncs:
                self.sync_folder(folder.parent)

    def open_file_system(self, path: Path) -> FileSystem | None:
        with disk_errors(path, "opening its file system"):
            return open_file_system(path)

    def find_unpromising(self, path: Path) -> Unpromising | None:
        with disk_errors(path, "asking for its file system"):
            return find_unpromising(path)

    def sync_folder(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as e:
            if e.errno in NO_DESCRIPTOR:
                raise TooManyFilesError(path, f"syncing it: {e.strerror}") from e
            raise SyncFailedError(path, os.strerror(e.errno) if e.errno else str(e)) from e

    def rename(self, old: Path, new: Path) -> None:
        with disk_errors(old, f"renaming it to {new.name}"):
            os.rename(old, new)

    def remove(self, path: Path) -> None:
        with disk_errors(path, "removing it"):
            os.unlink(path)

    def remove_folder(self, path: Path) -> None:
        with disk_errors(path, "removing the folder"):
            try:
                os.rmdir(path)
            except FileNotFoundError:
                pass
            except OSError as e:
                if e.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise

    def free_size(self, path: Path) -> int:
        with disk_errors(path, "asking for free space"):
            figures = os.statvfs(path)
            return figures.f_bavail * figures.f_frsize

    def space(self, path: Path) -> DiskSpace:
        with disk_errors(path, "asking how full its disk is"):
            figures = os.statvfs(path)
            used = figures.f_blocks - figures.f_bfree
            return DiskSpace(used * figures.f_frsize, figures.f_bavail * figures.f_frsize)

    def modified_ms(self, path: Path) -> int:
        with disk_errors(path, "asking when it was changed"):
            return os.stat(path).st_mtime_ns // 1_000_000

    def allocated_size(self, path: Path) -> int:
        with disk_errors(path, "asking for its blocks"):
            return os.stat(path).st_blocks * 512
