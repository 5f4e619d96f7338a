"""The folder that keeps everything that a repair changes: `flightlog/repair-TIME/`.

    aside/PATH            a file or folder that stood at PATH in the store
    bytes/NAME-POSITION   the bytes that stood at POSITION in the segment NAME
    README.txt            how to put it back

Everything is in it, and synced, before the first byte of the store changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from ...store.disk.disk import Disk
from ...store.segments.segment import Segment
from ...store.state.progress import FLIGHTLOG_FOLDER

README = """What `flightlog repair` moved out of this store, or wrote over, at {time}.

To undo the repair, close the store and, in the store's folder:
  aside/PATH           move it back to PATH, in place of what is there now
  bytes/NAME-POSITION  write it over segment NAME at byte POSITION, as by
                       dd if=bytes/NAME-POSITION of=commitlog/NAME bs=1 seek=POSITION conv=notrunc
If all is well, delete this folder.
"""


class Backup:
    """One such folder, made with the first thing that goes into it."""

    def __init__(self, disk: Disk, root: Path, now_ms: int) -> None:
        self._disk, self._root = disk, root
        self._time = datetime.fromtimestamp(now_ms // 1000, UTC)
        name = f"repair-{self._time:%Y%m%dT%H%M%SZ}"
        path, number = root / FLIGHTLOG_FOLDER / name, 0
        while disk.exists(path):
            number += 1
            path = path.with_name(f"{name}.{number}")
        self.path = path

    def keep_bytes(self, records: Iterable[tuple[Segment, int, bytes]]) -> None:
        """Keep the bytes at these positions of segments. Durable when it returns."""
        folder = self._begin("bytes")
        for segment, position, content in records:
            self._write(folder / f"{segment.path.name}-{position}", content)
        self._disk.sync_folder(folder)

    def set_aside(self, path: Path) -> None:
        """Move a file or folder of the store here. Durable when it returns."""
        target = self._begin("aside") / path.relative_to(self._root)
        self._disk.make_folder(target.parent)
        self._disk.rename(path, target)
        self._disk.sync_folder(target.parent)
        self._disk.sync_folder(path.parent)

    def _begin(self, name: str) -> Path:
        self._disk.make_folder(self.path / name)
        if not self._disk.exists(self.path / "README.txt"):
            self._write(self.path / "README.txt", README.format(time=self._time.isoformat()).encode())
            self._disk.sync_folder(self.path)
        return self.path / name

    def _write(self, path: Path, content: bytes) -> None:
        file = self._disk.open(path, writable=True, create=True)
        try:
            file.write(0, content)
            file.sync()
        finally:
            file.close()
