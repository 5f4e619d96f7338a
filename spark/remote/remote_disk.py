"""A disk over a remote storage (storages.py): read-only, by ranges, without mappings.

A view of a store makes many small reads, and every request takes milliseconds. So

- folders are listed once, each folder of the store's root together with all folders below it;
- small files are fetched whole, and with the first one of a folder all other small ones in it, in parallel;
- a read of a few bytes of a large file (a queue entry, the head of a record) fetches the block around them and caches
  it.

Listings and cached files are kept for the life of the disk, which is one view: a remote store is assumed not to change.
Large reads fetch exactly their range.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from ...index.key.index_file import INDEX_FOLDER
from ...index.queue.queue_table import CONSUME_QUEUE_FOLDER
from ...store.disk.disk import DiskFile, DiskSpace, FolderEntry
from ...store.disk.file_system import FileSystem, Unpromising
from ...store.disk.parallel import AT_ONCE
from ...store.errors import DiskError, FileGoneError
from ...store.segments.log_files import COMMIT_LOG_FOLDER
from .storages import Storage, StorageFile, storage_errors

BLOCK_SIZE = 16 << 10
BLOCKS_MAX = 4096
SMALL_SIZE = 256 << 10
SMALL_TOTAL_MAX = 64 << 20
"""Bytes of small files that are fetched together."""
AHEAD_SIZE = 16 << 20
"""Ranges of 8 to 64 MiB make the most of a connection; a range read holds at most three of them."""
NEVER_WHOLE = (COMMIT_LOG_FOLDER, INDEX_FOLDER)
"""Files in these folders are read in parts, or not at all."""


Entries = list[FolderEntry]
Names = list[str]
Chunks = list[bytes]


class RemoteDisk:
    """A store's files, for one view or one task."""

    maps_files = False

    def __init__(self, storage: Storage, root: str, store: Path | None) -> None:
        """`root` is the address without its path; every path of this disk begins with `Path(root)`. `store` is the
        path of the store's folder; None while a pattern is matched."""
        self._storage, self._root, self._store = storage, root, store
        self._folders: dict[Path, Entries] = {}
        """Listed folders, with the entries of each."""
        self._sizes: dict[Path, int] = {}
        """Sizes of the files in them."""
        self._wholes: dict[Path, bytes] = {}
        self._blocks: dict[tuple[Path, int], bytes] = {}
        self._lock = threading.RLock()
        """Held to change any of these, and while folders are listed and small files are fetched, so that no other
        thread requests the same."""

    def uri(self, path: Path) -> str:
        """The name of this path in errors."""
        return self._root + self.key(path)

    def key(self, path: Path) -> str:
        """The path in the storage."""
        below = path.relative_to(Path(self._root)).as_posix()
        return "/" if below == "." else f"/{below}"

    def list(self, folder: Path) -> Entries:
        top = self._top(folder)
        with self._lock:
            if top not in self._folders:
                self._look(top, deep=self._store is not None and self._store == top.parent)
        return list(self._folders.get(folder, ()))

    def _top(self, path: Path) -> Path:
        """The folder that is listed with this one: the folder of the store's root that contains it."""
        if self._store is None or self._store not in path.parents:
            return path
        return self._store / path.relative_to(self._store).parts[0]

    def _look(self, top: Path, *, deep: bool) -> None:
        with storage_errors(self.uri(top), "listing it"):
            found = self._storage.find(self.key(top), deep=deep)
        folders: dict[Path, dict[str, FolderEntry]] = {top: {}}
        for each in found:
            *between, name = each.path.split("/")
            folder = top
            for part in between:  # an object store has no folders, only common prefixes of names
                folders[folder].setdefault(part, FolderEntry(part, True, 0))
                folder = folder / part
                folders.setdefault(folder, {})
            folders[folder][name] = FolderEntry(name, each.is_folder, each.size)
            if each.is_folder:
                folders.setdefault(folder / name, {})
            else:
                self._sizes[folder / name] = each.size
        for folder, entries in folders.items():
            if deep or folder == top:
                self._folders[folder] = sorted(entries.values())

    def exists(self, path: Path) -> bool:
        beside = self._folders.get(path.parent)
        if beside is not None:
            return any(entry.name == path.name for entry in beside)
        with storage_errors(self.uri(path), "looking for it"):
            return self._storage.exists(self.key(path))

    def folder_names(self, folder: Path) -> Names:
        """The folders in this folder, for patterns."""
        return [entry.name for entry in self.list(folder) if entry.is_folder]

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> DiskFile:
        if writable or create:
            self.refuse(path)
        if path.parent in self._folders and path not in self._sizes:
            raise FileGoneError(f"{self.uri(path)}: there is no such file. If it should exist, check what was copied")
        if self._sizes.get(path, SMALL_SIZE + 1) <= SMALL_SIZE and self._top(path).name not in NEVER_WHOLE:
            return RemoteFile(self, path, self._whole(path))
        return RemoteFile(self, path)

    def _whole(self, path: Path) -> bytes:
        with self._lock:
            if path not in self._wholes:
                wanted, total = [path], 0
                for each in self._beside(path):
                    total += self._sizes[each]
                    if each not in self._wholes and each != path and total <= SMALL_TOTAL_MAX:
                        wanted.append(each)
                with ThreadPoolExecutor(min(AT_ONCE, len(wanted))) as pool:
                    self._wholes.update(zip(wanted, pool.map(self._fetch_whole, wanted), strict=True))
            return self._wholes[path]

    def _beside(self, path: Path) -> Iterator[Path]:
        """Small files to fetch with this one: those of its folder; for a queue, those of all queues."""
        top = self._top(path)
        folder = top if top.name == CONSUME_QUEUE_FOLDER else path.parent
        return (
            each
            for each, size in self._sizes.items()
            if folder in each.parents and size <= SMALL_SIZE and (folder is top or each.parent == folder)
        )

    def _fetch_whole(self, path: Path) -> bytes:
        return self.fetch(self.handle(path), path, 0, self._sizes[path])

    def handle(self, path: Path) -> StorageFile:
        """Open the file. Raises FileGoneError."""
        with storage_errors(self.uri(path), "opening it"):
            return self._storage.open(self.key(path))

    def size(self, path: Path) -> int | None:
        """The size of a listed file, in bytes."""
        return self._sizes.get(path)

    def fetch(self, handle: StorageFile, path: Path, position: int, size: int) -> bytes:
        """Exactly `size` bytes of a file. Raises DiskError if fewer arrive."""
        what = f"reading {size} bytes at {position}"
        with storage_errors(self.uri(path), what):
            data = handle.read(position, size) if size else b""
            if len(data) != size:
                raise OSError(f"got {len(data)} of them: the connection was cut, or the file was replaced")
        return data

    def block(self, handle: StorageFile, path: Path, number: int, file_size: int) -> bytes:
        """Block `number` of a file, cached."""
        block = self._blocks.get((path, number))
        if block is None:
            at = number * BLOCK_SIZE
            block = self.fetch(handle, path, at, min(BLOCK_SIZE, file_size - at))
            with self._lock:
                while len(self._blocks) >= BLOCKS_MAX:
                    del self._blocks[next(iter(self._blocks))]
                self._blocks[path, number] = block
        return block

    def allocated_size(self, path: Path) -> int:
        return RemoteFile(self, path).size()

    def free_size(self, path: Path) -> int:
        return 0

    def space(self, path: Path) -> DiskSpace:
        return DiskSpace(0, 0)

    def open_file_system(self, path: Path) -> FileSystem | None:
        return None

    def find_unpromising(self, path: Path) -> Unpromising | None:
        return None  # nothing is ever written here

    def refuse(self, path: Path, *_: Any, **__: Any) -> NoReturn:
        """Every operation that writes."""
        raise DiskError(f"{self.uri(path)}: a remote store is only read. To change it, copy it to a disk first")

    modified_ms = open_unnamed = make_folder = sync_folder = remove = remove_folder = refuse

    def rename(self, old: Path, new: Path) -> None:
        self.refuse(old)

    def link(self, file: DiskFile) -> None:
        self.refuse(file.path)


class RemoteFile:
    """An open file."""

    def __init__(self, disk: RemoteDisk, path: Path, whole: bytes | None = None) -> None:
        self.path = path
        self._disk, self._whole = disk, whole
        self._opened: StorageFile | None = None
        self._size: int | None = disk.size(path) if whole is None else len(whole)

    @property
    def _handle(self) -> StorageFile:
        if self._opened is None:
            self._opened = self._disk.handle(self.path)
        return self._opened

    def size(self) -> int:
        if self._size is None:
            handle = self._handle
            with storage_errors(self._disk.uri(self.path), "asking for its length"):
                self._size = handle.size()
        return self._size

    def has_name(self) -> bool:
        return True

    def is_in_place(self) -> bool:
        return True

    def read(self, position: int, size: int) -> bytes:
        size = max(min(size, self.size() - position), 0)
        if self._whole is not None:
            return self._whole[position : position + size]
        if size >= BLOCK_SIZE:
            return self._disk.fetch(self._handle, self.path, position, size)
        if not size:
            return b""
        first, last = position // BLOCK_SIZE, (position + size - 1) // BLOCK_SIZE
        blocks = [self._disk.block(self._handle, self.path, number, self.size()) for number in range(first, last + 1)]
        at = position - first * BLOCK_SIZE
        return b"".join(blocks)[at : at + size]

    def read_places(self, places: Sequence[tuple[int, int]]) -> Chunks:
        """The bytes at each (position, size), by parallel requests."""
        file_size, handle = self.size(), self._handle

        def fetch(place: tuple[int, int]) -> bytes:
            position, size = place
            return self._disk.fetch(handle, self.path, position, max(min(size, file_size - position), 0))

        with ThreadPoolExecutor(min(AT_ONCE, len(places))) as pool:
            return list(pool.map(fetch, places))

    def next_data(self, position: int) -> int | None:
        return position if position < self.size() else None

    def next_hole(self, position: int) -> int:
        return self.size()

    def will_poke(self) -> None: ...

    def will_read(self, position: int, size: int) -> None: ...

    def will_sync(self, position: int, size: int) -> None: ...

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        self._disk.refuse(self.path)

    write = resize = allocate = sync = map_for_append = _refuse

    def map_for_read(self) -> mmap.mmap:
        raise DiskError(f"{self._disk.uri(self.path)}: a remote file cannot be mapped. Copy the store to a disk first")

    def close(self) -> None:
        self._opened = None


def read_places(file: DiskFile, places: Sequence[tuple[int, int]]) -> Chunks:
    """The bytes at each (position, size) of a local or remote file; fewer at its end."""
    if isinstance(file, RemoteFile) and places:
        return file.read_places(places)
    return [file.read(*place) for place in places]


class AheadReads:
    """Reads a range of a remote file from its start to its end: each block is fetched while the one before it is
    decoded. No byte is fetched twice, and none behind the range.

    Invariants: what is held begins at or before the position of the last read; the block behind what is held is being
    fetched, unless the range ends there.
    """

    def __init__(self, read: Callable[[int, int], bytes], stop: int, block_size: int = AHEAD_SIZE) -> None:
        self._read, self._stop, self._block_size = read, stop, block_size
        self._start, self._held = 0, b""
        self._ahead: Future[bytes] | None = None
        self._pool = ThreadPoolExecutor(1, "flightlog-read-ahead")

    def read(self, position: int, size: int) -> memoryview:
        """The bytes there; fewer where the range ends."""
        stop = min(position + size, self._stop)
        if not self._start <= position <= self._start + len(self._held):
            self._drop_ahead()
            self._start, self._held = position, b""
        if stop > self._start + len(self._held):
            parts = [self._held[position - self._start :]]
            at = self._start + len(self._held)
            self._start = position
            while at < stop:
                part = self._next(at)
                if not part:
                    break  # the file is shorter than the range
                parts.append(part)
                at += len(part)
                self._fetch(at)
            self._held = b"".join(parts)
        return memoryview(self._held)[position - self._start : stop - self._start]

    def _next(self, at: int) -> bytes:
        if self._ahead is None:
            self._fetch(at)
        assert self._ahead is not None
        ahead, self._ahead = self._ahead, None
        return ahead.result()

    def _fetch(self, at: int) -> None:
        if at < self._stop:
            self._ahead = self._pool.submit(self._read, at, min(self._block_size, self._stop - at))

    def _drop_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None

    def close(self) -> None:
        """Fetch nothing more. The block that is being fetched is dropped when it arrives."""
        self._drop_ahead()
        self._pool.shutdown(wait=False, cancel_futures=True)
