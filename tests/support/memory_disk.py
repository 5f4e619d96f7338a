"""A disk in memory, for campaigns that open tens of thousands of stores: nothing waits for the real one.

    disk = MemoryDisk(root)                        # a new one; `root` is a folder of the real disk, for `lock` alone
    disk = MemoryDisk(root, {"config": None, "config/topics.json": b"{}"})      # one that holds this

It stands in for `RealDisk`: files are read and written, mapped, made, renamed and removed. Syncs do nothing by
themselves: a `Watcher` is told of everything, and may raise (tests/support/recording.py has one that knows what a power
cut would leave).
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from flightlog.store.disk.disk import DiskFile, DiskSpace, FolderEntry, MappedPart
from flightlog.store.disk.file_system import FileSystem, Unpromising
from flightlog.store.errors import DiskFullError, FileGoneError

Content = bytes | None
"""Content of a file; None: it is a folder."""
Tree = Mapping[str, Content]
"""Path below the root -> what is there. A folder stands in it as well as what is in the folder."""
ROOM = 1 << 40


class Inode:
    """The content of one file, whatever its name is; once it was mapped, the mapping is the content."""

    def __init__(self, content: bytes = b"") -> None:
        self._content: bytes | bytearray | mmap.mmap = content
        self._frozen: bytes | None = content

    def __len__(self) -> int:
        return len(self._content)

    def read(self, position: int, size: int) -> bytes:
        return bytes(self._content[position : position + size])

    def write(self, position: int, data: bytes | memoryview) -> None:
        if position + len(data) > len(self._content):
            self.resize(position + len(data))
        self._changing()[position : position + len(data)] = bytes(data)

    def resize(self, size: int) -> None:
        if size == len(self._content):
            return
        assert not isinstance(self._content, mmap.mmap), "a mapped file never changes its length"
        content = self._changing()
        assert isinstance(content, bytearray)
        if size < len(content):
            del content[size:]
        else:
            content.extend(bytes(size - len(content)))

    def map(self) -> mmap.mmap:
        if not isinstance(self._content, mmap.mmap):
            mapping = mmap.mmap(-1, len(self._content))
            mapping[:] = bytes(self._content)
            self._content = mapping
        return self._content

    def freeze(self) -> bytes:
        """What it holds now: the same object as before, if nothing has changed."""
        if isinstance(self._content, mmap.mmap):
            if self._frozen is None or self._content[:] != self._frozen:
                self._frozen = self._content[:]
        elif self._frozen is None:
            self._frozen = bytes(self._content)
        return self._frozen

    def _changing(self) -> bytearray | mmap.mmap:
        self._frozen = None if not isinstance(self._content, mmap.mmap) else self._frozen
        if isinstance(self._content, bytes):
            self._content = bytearray(self._content)
        return self._content


class Watcher(Protocol):
    """Who is told what happens to a disk."""

    def before(self, operation: str, path: Path, inode: Inode | None = None) -> None:
        """Called before everything but reads: write, resize, allocate, create, link, make_folder, rename, remove, sync,
        sync_folder, sync_all; and before open. What this raises is raised by the disk, and nothing has happened."""

    def unnamed(self, path: Path, inode: Inode) -> None:
        """A file was made that is to have this name."""

    def wrote(self, inode: Inode, position: int, size: int) -> None:
        """Through a call, not through a mapping."""

    def changed(self, folder: str, names: Mapping[str, Inode | None], gone: str | None) -> None:
        """Names of one folder, at once; None: it is a folder."""

    def synced(self, inode: Inode, part: MappedPart | None) -> None: ...

    def folder_synced(self, folder: str) -> None: ...

    def all_synced(self) -> None: ...


class MemoryFile:
    """An open file; it outlives its name."""

    def __init__(self, disk: MemoryDisk, path: Path, inode: Inode, writable: bool) -> None:
        self.path = path
        self._disk, self.inode, self._writable = disk, inode, writable

    def size(self) -> int:
        return len(self.inode)

    def has_name(self) -> bool:
        return self._disk.has_name(self.path, self.inode)

    def is_in_place(self) -> bool:
        return self._disk.has_name(self.path, self.inode)

    def read(self, position: int, size: int) -> bytes:
        return self.inode.read(position, size)

    def next_data(self, position: int) -> int | None:
        return position if position < len(self.inode) else None

    def next_hole(self, position: int) -> int:
        return len(self.inode)

    def will_poke(self) -> None:
        pass

    def will_read(self, position: int, size: int) -> None:
        pass

    def will_sync(self, position: int, size: int) -> None:
        pass

    def write(self, position: int, data: bytes | memoryview) -> None:
        assert self._writable
        self._disk.write(self.path, self.inode, position, data)

    def resize(self, size: int) -> None:
        self._disk.meet("resize", self.path, self.inode)
        self.inode.resize(size)

    def allocate(self, position: int, size: int) -> None:
        self._disk.meet("allocate", self.path, self.inode)
        self.inode.resize(max(len(self.inode), position + size))

    def sync(self, part: MappedPart | None = None) -> None:
        self._disk.sync(self.path, self.inode, part)

    def map_for_append(self) -> mmap.mmap:
        return self.inode.map()

    def map_for_read(self) -> mmap.mmap:
        return self.inode.map()

    def close(self) -> None:
        pass


class MemoryFileSystem(FileSystem):
    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk.root, -1)
        self._disk = disk

    def sync(self) -> None:
        self._disk.sync_all()


class MemoryDisk:
    maps_files = True

    """Files and folders below one root."""

    def __init__(self, root: Path, tree: Tree | None = None) -> None:
        self.root = root
        self.watcher: Watcher | None = None
        self.unpromising: Unpromising | None = None
        """What it says of its file system: with one, nothing is appended through a mapping."""
        self._folders: dict[str, dict[str, Inode | None]] = {str(root): {}}
        """Path of a folder -> what is in it; None: a folder."""
        for name, content in sorted((tree or {}).items()):
            folder, _, last = f"{root}/{name}".rpartition("/")
            self._folders[folder][last] = None if content is None else Inode(content)
            if content is None:
                self._folders[f"{folder}/{last}"] = {}

    def meet(self, operation: str, path: Path, inode: Inode | None = None) -> None:
        if self.watcher is not None:
            self.watcher.before(operation, path, inode)

    def folders(self) -> Mapping[str, Mapping[str, Inode | None]]:
        """Path of every folder -> what is in it."""
        return self._folders

    def tree(self) -> dict[str, Content]:
        """What is there now, for another disk."""
        start = len(str(self.root)) + 1
        return {
            f"{folder}/{name}"[start:]: None if inode is None else inode.freeze()
            for folder, names in self._folders.items()
            for name, inode in names.items()
        }

    def _find(self, path: Path) -> Inode | None:
        folder, _, name = str(path).rpartition("/")
        return self._folders.get(folder, {}).get(name)

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> MemoryFile:
        folder, _, name = str(path).rpartition("/")
        inode = self._folders.get(folder, {}).get(name)
        if inode is not None:
            self.meet("open", path)
        elif not create or folder not in self._folders:
            raise FileGoneError(f"{path}: no such file")
        else:
            self.meet("create", path)
            inode = Inode()
            self.change(folder, {name: inode})
        return MemoryFile(self, path, inode, writable)

    def open_unnamed(self, path: Path) -> MemoryFile:
        self.meet("create", path)
        inode = Inode()
        if self.watcher is not None:
            self.watcher.unnamed(path, inode)
        return MemoryFile(self, path, inode, True)

    def link(self, file: DiskFile) -> None:
        assert isinstance(file, MemoryFile) and self._find(file.path) is None
        self.meet("link", file.path)
        self.change(str(file.path.parent), {file.path.name: file.inode})

    def has_name(self, path: Path, inode: Inode) -> bool:
        return self._find(path) is inode

    def list(self, folder: Path) -> list[FolderEntry]:
        return [
            FolderEntry(name, inode is None, 0 if inode is None else len(inode))
            for name, inode in sorted(self._folders.get(str(folder), {}).items(), key=lambda item: item[0])
        ]

    def exists(self, path: Path) -> bool:
        return str(path) in self._folders or self._find(path) is not None

    def make_folder(self, path: Path, *, syncs: bool = True) -> None:
        missing = []
        while str(path) not in self._folders:
            assert path != path.parent, "outside of the root"
            missing.append(path)
            path = path.parent
        for new in reversed(missing):
            self.meet("make_folder", new)
            self._folders[str(new)] = {}
            self.change(str(new.parent), {new.name: None})
            if syncs:
                self.sync_folder(new.parent)

    def rename(self, old: Path, new: Path) -> None:
        inode = self._find(old)
        if inode is None:
            raise FileGoneError(f"{old}: no such file")
        assert old.parent == new.parent, "a rename between folders would need two of them at once"
        self.meet("rename", new)
        self.change(str(old.parent), {new.name: inode}, gone=old.name)

    def remove(self, path: Path) -> None:
        if self._find(path) is None:
            raise FileGoneError(f"{path}: no such file")
        self.meet("remove", path)
        self.change(str(path.parent), {}, gone=path.name)

    def remove_folder(self, path: Path) -> None:
        if self._folders.get(str(path)) == {}:
            self.meet("remove", path)
            del self._folders[str(path)]
            self.change(str(path.parent), {}, gone=path.name)

    def change(self, folder: str, names: dict[str, Inode | None], *, gone: str | None = None) -> None:
        """Names of one folder change at once."""
        self._folders[folder].update(names)
        if gone is not None:
            del self._folders[folder][gone]
        if self.watcher is not None:
            self.watcher.changed(folder, names, gone)

    def write(self, path: Path, inode: Inode, position: int, data: bytes | memoryview) -> None:
        try:
            self.meet("write", path, inode)
        except DiskFullError:  # a disk that runs full takes what it can
            self._write(inode, position, data[: len(data) // 2])
            raise
        self._write(inode, position, data)

    def _write(self, inode: Inode, position: int, data: bytes | memoryview) -> None:
        inode.write(position, data)
        if self.watcher is not None:
            self.watcher.wrote(inode, position, len(data))

    def sync(self, path: Path, inode: Inode, part: MappedPart | None) -> None:
        if self.watcher is not None:
            self.watcher.before("sync", path, inode)
            self.watcher.synced(inode, part)

    def sync_folder(self, path: Path) -> None:
        if self.watcher is not None and str(path) in self._folders:  # not above the root
            self.watcher.before("sync_folder", path)
            self.watcher.folder_synced(str(path))

    def sync_all(self) -> None:
        if self.watcher is not None:
            self.watcher.before("sync_all", self.root)
            self.watcher.all_synced()

    def open_file_system(self, path: Path) -> FileSystem | None:
        return MemoryFileSystem(self)

    def find_unpromising(self, path: Path) -> Unpromising | None:
        return self.unpromising

    def free_size(self, path: Path) -> int:
        return ROOM

    def space(self, path: Path) -> DiskSpace:
        return DiskSpace(ROOM, ROOM)

    def modified_ms(self, path: Path) -> int:
        return 0

    def allocated_size(self, path: Path) -> int:
        inode = self._find(path)
        return 0 if inode is None else len(inode)
