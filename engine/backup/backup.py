"""`backup` and `copy_store`: a copy of a store, made beside its writer.

A backup is a folder that opens as a store, with `flightlog/backup.json`: which store it is of, and which segments it
has. A later backup into the same folder writes only the blocks that differ, and does not even read full segments that
are there already. While it is being written a file in its `commitlog/` keeps everyone from opening it for writing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...store.arguments import check_settings, checked_folder
from ...store.disk.config_file import ConfigFile
from ...store.disk.disk import Disk, RealDisk
from ...store.disk.lock import StoreLock
from ...store.errors import InvalidArgumentError, StoreNotFoundError, UsageError
from ...store.segments.log_files import COMMIT_LOG_FOLDER, LogFolders
from ...store.settings import StoreSettings
from ...store.state.progress import FLIGHTLOG_FOLDER, read_progress
from .store_copy import BACKUP_FILE, INCOMPLETE_FILE, StoreCopy

SAVE_SIZE = 64 << 20
"""Bytes of segments after which the note is written: what an interrupted backup copied later is compared again."""
WHY_INCOMPLETE = b"The copy of a store in this folder is not complete. Make it again, or remove the folder.\n"


@dataclass(frozen=True, slots=True)
class BackupResult:
    """What `backup` or `copy_store` did."""

    path: Path
    """The folder of the copy."""
    copied_size: int
    """Bytes written; holes, and what was there already, not counted."""
    segment_count: int
    """How many segments of the commit log something was written of."""


def backup(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    settings: StoreSettings | None = None,
    *,
    disk: Disk | None = None,
) -> BackupResult:
    """Back up the store in `path` into the folder `out`: an empty or new one, or one with an earlier backup of it.

    A flightlog writer or a RocketMQ broker may have the store open, also in this process, and the store is not changed.
    The backup has every message that was durable when the call began (of a broker: every message that its consume
    queues had), every group's offsets, delays and timers. It is durable when this returns. Only blocks that differ from
    an earlier backup are written. Holes stay holes, and a log in several folders becomes one.

    To restore, copy `out` and open the copy: it opens as after a power cut, if a writer had the store open. An
    interrupted backup cannot be opened for writing; the next call completes it.

    Raises UsageError for a folder that was opened for writing since, or has a backup of another store;
    InvalidArgumentError for one that holds something else; StoreLockedError beside another backup into it;
    StoreNotFoundError, StoreChangingError, DamagedStoreError, DiskFullError, SyncFailedError, DiskError.
    """
    return _copy(path, out, settings, disk or RealDisk(), is_backup=True)


def copy_store(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    settings: StoreSettings | None = None,
    *,
    disk: Disk | None = None,
) -> BackupResult:
    """Copy the store in `path` into the empty or new folder `out`, to be opened there: as `backup`, once.

    After an error or a kill what was copied is left, and cannot be opened for writing: remove the folder. Raises as
    `backup`.
    """
    return _copy(path, out, settings, disk or RealDisk(), is_backup=False)


def _copy(path: Any, out: Any, settings: StoreSettings | None, disk: Disk, *, is_backup: bool) -> BackupResult:
    root, target = checked_folder("path", path), checked_folder("out", out)
    check_settings(settings)
    settings = settings or StoreSettings()
    if not LogFolders.of(root, settings).one_exists(disk):
        raise StoreNotFoundError(f"{root}: no {COMMIT_LOG_FOLDER}/ in it; expected the folder of a store")
    inside, outside = target.resolve(), root.resolve()
    if inside.is_relative_to(outside) or outside.is_relative_to(inside):
        raise InvalidArgumentError("out", out, f"a folder apart from {root}")
    note = _BackupNote(disk, root, target)
    if disk.list(target) and not (is_backup and note.load()):
        expected = "a folder that is empty or not there" + (", or holds a backup" if is_backup else "")
        raise InvalidArgumentError("out", out, f"{expected}: nothing else is written over")
    disk.make_folder(target)
    lock = StoreLock.acquire(target)
    try:
        note.check()
        marker = target / COMMIT_LOG_FOLDER / INCOMPLETE_FILE
        _write_marker(disk, marker)
        if is_backup:
            note.save()
        copy = StoreCopy(disk, root, target, settings)
        if is_backup:
            copy.is_unchanged, copy.segment_copied = note.has_segment, note.note_segment
        copy.run()
        if is_backup:
            note.complete()
        disk.remove(marker)
        disk.sync_folder(marker.parent)
    finally:
        lock.release()
    return BackupResult(target, copy.copied_size, copy.segment_count)


def _write_marker(disk: Disk, marker: Path) -> None:
    disk.make_folder(marker.parent)
    file = disk.open(marker, writable=True, create=True)
    try:
        file.write(0, WHY_INCOMPLETE)
        file.sync()
    finally:
        file.close()
    disk.sync_folder(marker.parent)


class _BackupNote:
    """`flightlog/backup.json` of a backup:

        version    1
        source     path of the store, absolute
        epoch      of the progress page that the backup has, once it is complete; null without one
        segments   name -> [size, when the store's file was last changed, in ms], of full segments that are in it

    Invariant: a segment is noted after its copy is durable.
    """

    def __init__(self, disk: Disk, root: Path, target: Path) -> None:
        self._disk, self._target = disk, target
        self._source = str(root.resolve())
        self._file = ConfigFile(disk, target / FLIGHTLOG_FOLDER / BACKUP_FILE)
        self._found: dict[str, Any] = {}
        self._segments: dict[str, list[int]] = {}
        self._unsaved_size = 0

    def load(self) -> bool:
        """Whether there is a note. Raises ConfigFileError."""
        self._found = self._file.read() or {}
        self._segments = dict(self._found.get("segments", {}))
        return bool(self._found)

    def check(self) -> None:
        """Raise UsageError if the folder has a backup that must not be written over."""
        source, target = self._found.get("source"), self._target
        if source is not None and source != self._source:
            raise UsageError(
                f"{target} has a backup of {source}, not of {self._source}. Name another folder; if the store was "
                f"moved, change the source in {self._file.path}"
            )
        progress = read_progress(self._disk, target)
        noted = self._found.get("epoch")
        if noted is not None and progress is not None and progress.epoch != noted:
            raise UsageError(
                f"{target} was opened for writing after its last backup, which would write over what was put there. "
                "Name another folder, or remove this one"
            )

    def save(self, epoch: int | None = None) -> None:
        self._unsaved_size = 0
        content = {"version": 1, "source": self._source, "epoch": epoch, "segments": self._segments}
        self._file.write(content)

    def complete(self) -> None:
        """Note what tells whether the backup is opened for writing, and forget segments that are gone."""
        progress = read_progress(self._disk, self._target)
        names = {entry.name for entry in self._disk.list(self._target / COMMIT_LOG_FOLDER)}
        self._segments = {name: noted for name, noted in self._segments.items() if name in names}
        self.save(None if progress is None else progress.epoch)

    def has_segment(self, path: Path, size: int) -> bool:
        noted = self._segments.get(path.name)
        return noted == [size, self._disk.modified_ms(path)] and self._disk.exists(
            self._target / COMMIT_LOG_FOLDER / path.name
        )

    def note_segment(self, path: Path, size: int) -> None:
        self._segments[path.name] = [size, self._disk.modified_ms(path)]
        self._unsaved_size += size
        if self._unsaved_size >= SAVE_SIZE:
            self.save()
