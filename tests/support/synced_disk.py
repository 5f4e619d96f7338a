"""A disk that says when a segment of the log was synced."""

from __future__ import annotations

import os
from pathlib import Path

from flightlog.store.disk.disk import MappedPart, RealDisk, RealFile


class _SyncedFile(RealFile):
    disk: SyncedDisk

    def sync(self, part: MappedPart | None = None) -> None:
        super().sync(part)
        self.disk.synced(self.path, part)


class SyncedDisk(RealDisk):
    """Calls `synced` behind each sync of a segment, in the thread that syncs; None as the part means all of it."""

    def synced(self, path: Path, part: MappedPart | None) -> None:
        raise NotImplementedError

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        file = super().open(path, writable=writable, create=create)
        return self._watched(file, writable) if path.parent.name == "commitlog" else file

    def open_unnamed(self, path: Path) -> RealFile | None:
        file = super().open_unnamed(path)
        return None if file is None else self._watched(file, True)

    def _watched(self, file: RealFile, writable: bool) -> RealFile:
        watched = _SyncedFile(file.path, os.dup(file.descriptor), writable)
        file.close()
        watched.disk = self
        return watched
