"""Queue files and folders that are written and not yet synced, and their sync."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...store.disk.disk import Disk, DiskFile
from ...store.disk.file_system import FileSystem
from ...store.errors import DiskError

MANY_FILES = 64
"""From this number of files on the whole file system is synced at once, because each sync waits for the disk."""


@dataclass
class Unsynced:
    """The unsynced files of all queues of a store. Only the holder of the dispatch lock changes it."""

    files: set[Path] = field(default_factory=set)
    folders: set[Path] = field(default_factory=set)
    """Those in which a name is new: of a file, or of a folder."""

    def note(self, path: Path, *, is_new: bool = False) -> None:
        """A queue file was written; `is_new`: and it, or a folder on the way to it, may have been made."""
        self.files.add(path)
        if is_new:
            self.folders.update(path.parents[:4])  # of the queue, its topic, consumequeue/, the store

    def take(self) -> Unsynced:
        """Return everything, for the caller to sync, and clear it."""
        taken = Unsynced(set(self.files), set(self.folders))
        self.files.clear()
        self.folders.clear()
        return taken

    def take_back(self, taken: Unsynced) -> None:
        """It could not be synced, and nothing is lost: it is still to be synced."""
        self.files |= taken.files
        self.folders |= taken.folders

    def forget(self, folder: Path) -> None:
        """This folder is about to be removed with its files."""
        self.files = {path for path in self.files if path.parent != folder}
        self.folders.discard(folder)

    def sync(self, disk: Disk, file_system: FileSystem | None) -> None:
        """Make it durable. Raises SyncFailedError, or DiskError for a file that is gone."""
        if file_system is not None and len(self.files) >= MANY_FILES:
            for path in self.files:
                if not disk.exists(path):
                    raise queue_file_gone(path)
            file_system.sync()
            return
        for path in sorted(self.files):  # one order in every run: tests repeat failures at the n-th operation
            file = open_writable(disk, path)
            try:
                file.sync()
            finally:
                file.close()
        for folder in sorted(self.folders):  # a folder's own name before the names in it
            disk.sync_folder(folder)


def open_writable(disk: Disk, path: Path, *, create: bool = False) -> DiskFile:
    """Open a queue file of an open store. Raises DiskError if it should be there and is not."""
    try:
        return disk.open(path, writable=True, create=create)
    except FileNotFoundError as e:
        raise queue_file_gone(path) from e


def queue_file_gone(path: Path) -> DiskError:
    """A queue file of an open store is not there any more."""
    return DiskError(
        f"{path}: this queue file is gone although its store is open; a RocketMQ that tries to start here deletes "
        "queue files before it looks at the lock. No message is lost: close the store and open it again, which "
        "rebuilds its queues from the log"
    )
