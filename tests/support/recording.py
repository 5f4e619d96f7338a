"""What is on a disk and what a power cut may take of it, noted at every change: one run, and it can be cut anywhere.

    disk = MemoryDisk(root)
    recorder = Recorder(disk, faults, Platter, mark)   # watches it from now on
    ...                                                 # a store lives on `disk`
    recorder.moments                                    # one for every operation, as of before it, and those of `note`

A moment holds, of every file, its content as of the last sync and every content that it has had since (any page of
these may have been written back), and of every folder the names that were synced and the changes since, in order. It
holds `mark()` besides, whatever that is. Contents are shared between moments, so a moment costs little.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from flightlog.store.disk.disk_errors import disk_errors
from flightlog.store.errors import SyncFailedError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import Inode as Platter
from flightlog.tests.support.memory_disk import Inode, MemoryDisk

if TYPE_CHECKING:
    from flightlog.store.disk.disk import MappedPart

CONTENTS_MAX = 8
"""How many contents of a file since its last sync are kept: more make more images of the same kind."""
SYNCS = ("sync", "sync_folder", "sync_all")
PAGE_SIZE = 4096
Mark = TypeVar("Mark")


class Entry(enum.Enum):
    GONE = enum.auto()


class Folder:
    """A folder, whatever its name is."""


Node = "Inode | Folder"
Change = Mapping[str, object]
"""Name -> the Inode or Folder that it names from now on, or Entry.GONE."""


@dataclass(frozen=True, slots=True)
class FileState:
    """What a disk may hold of a file."""

    contents: tuple[bytes, ...]
    """As of the last sync, and since; the last one is what it holds now."""

    @property
    def is_clean(self) -> bool:
        return len(self.contents) == 1

    def then(self, content: bytes) -> FileState:
        if content is self.contents[-1]:
            return self
        since = self.contents[1:][-CONTENTS_MAX + 1 :]
        return FileState((self.contents[0], *since, content))

    def with_part(self, pages: slice, synced: bytes) -> FileState:
        """With these pages as they were synced, and the others as of any time."""
        size = len(self.contents[-1])
        known = [content.ljust(size, b"\0") for content in self.contents[:-1]]
        return FileState(
            (*(content[: pages.start] + synced + content[pages.stop :] for content in known), self.contents[-1])
        )


@dataclass(frozen=True, slots=True)
class Moment(Generic[Mark]):
    """Everything that a cut or a kill could leave, just before one operation."""

    number: int
    operation: str
    path: str
    """Below the root."""
    mark: Mark
    root: Folder
    files: Mapping[Inode, FileState]
    kept: Mapping[Folder, Mapping[str, object]]
    """The names that were synced."""
    pending: Mapping[Folder, tuple[Change, ...]]
    """What has changed since, in order."""
    numbers: Mapping[object, tuple[int, str]] = field(repr=False)
    """Number of every Inode and Folder, the same in every run, and its name when it was made."""

    @property
    def is_sync(self) -> bool:
        return self.operation in SYNCS


class Recorder(Generic[Mark]):
    """Watches a MemoryDisk."""

    def __init__(
        self, disk: MemoryDisk, faults: FaultyDisk, new_platter: Callable[[bytes], Platter], mark: Callable[[], Mark]
    ) -> None:
        self._faults, self._new_platter, self.mark = faults, new_platter, mark
        self.moments: list[Moment[Mark]] = []
        self.begin(disk)

    def begin(self, disk: MemoryDisk) -> None:
        """Watch this disk from now on: everything that is there is durable."""
        self._disk = disk
        self._root = Folder()
        self._folders: dict[str, Folder] = {}
        self._files: dict[Inode, FileState] = {}
        self._platters: dict[Inode, Platter] = {}
        self._kept: dict[Folder, Mapping[str, object]] = {}
        self._pending: dict[Folder, tuple[Change, ...]] = {}
        self._numbers: dict[object, tuple[int, str]] = {}
        for folder in self._disk.folders():
            self._folders[folder] = self._root if folder == str(self._disk.root) else Folder()
            self._number(self._folders[folder], folder)
        for folder, names in self._disk.folders().items():
            known = {name: self._node(f"{folder}/{name}", inode) for name, inode in names.items()}
            self._kept[self._folders[folder]] = known
            self._pending[self._folders[folder]] = ()
        disk.watcher = self

    def note(self, operation: str, path: str = "") -> None:
        """A moment that is no operation of the disk."""
        for inode, state in self._files.items():
            self._files[inode] = state.then(inode.freeze())
        self.moments.append(
            Moment(
                len(self.moments),
                operation,
                path,
                self.mark(),
                self._root,
                dict(self._files),
                dict(self._kept),
                dict(self._pending),
                self._numbers,
            )
        )

    # -- what the disk tells

    def before(self, operation: str, path: Path, inode: Inode | None = None) -> None:
        if operation != "open":
            self.note(operation, self._below(str(path)))
        try:
            with disk_errors(path, operation):
                self._faults.meet(operation, path)
        except OSError as e:
            if operation not in SYNCS:
                raise
            if inode is not None:
                self._platters[inode].lose(inode.freeze())
            raise SyncFailedError(path, str(e)) from e

    def unnamed(self, path: Path, inode: Inode) -> None:
        self._node(str(path), inode)

    def wrote(self, inode: Inode, position: int, size: int) -> None:
        for at in range(position - position % PAGE_SIZE, position + size, PAGE_SIZE):
            self._platters[inode].lost.pop(at, None)

    def changed(self, folder: str, names: Mapping[str, Inode | None], gone: str | None) -> None:
        change: dict[str, object] = {name: self._node(f"{folder}/{name}", node) for name, node in names.items()}
        if gone is not None:
            change[gone] = Entry.GONE
            self._folders.pop(f"{folder}/{gone}", None)
        self._pending[self._folders[folder]] += (change,)

    def synced(self, inode: Inode, part: MappedPart | None) -> None:
        platter, now = self._platters[inode], inode.freeze()
        if part is None:
            platter.sync(now)
            self._files[inode] = FileState((platter.synced,)).then(now)
            return
        platter.sync(now, part.start, part.stop)
        pages = slice(part.start, -(-part.stop // PAGE_SIZE) * PAGE_SIZE)
        state = self._files[inode].then(now)
        self._files[inode] = state.with_part(pages, platter.synced[pages])

    def folder_synced(self, folder: str) -> None:
        node = self._folders[folder]
        self._kept[node] = after(self._kept[node], self._pending[node])
        self._pending[node] = ()

    def all_synced(self) -> None:
        for folder, names in self._disk.folders().items():
            self.folder_synced(folder)
            for inode in names.values():
                if inode is not None:
                    self.synced(inode, None)

    def _node(self, path: str, inode: Inode | None) -> object:
        if inode is None:
            if path not in self._folders:
                self._folders[path] = Folder()
                self._kept[self._folders[path]], self._pending[self._folders[path]] = {}, ()
                self._number(self._folders[path], path)
            return self._folders[path]
        if inode not in self._files:
            content = inode.freeze()
            self._files[inode], self._platters[inode] = FileState((content,)), self._new_platter(content)
            self._number(inode, path)
        return inode

    def _number(self, node: object, path: str) -> None:
        self._numbers[node] = len(self._numbers), self._below(path)

    def _below(self, path: str) -> str:
        return path[len(str(self._disk.root)) + 1 :]


def after(names: Mapping[str, object], changes: tuple[Change, ...]) -> dict[str, object]:
    """The names of a folder after some changes."""
    found = dict(names)
    for change in changes:
        found.update(change)
    return {name: node for name, node in found.items() if node is not Entry.GONE}
