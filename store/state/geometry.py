"""What sizes a store was made with, for files that do not exist yet: `flightlog/geometry.json`.

    {"segmentSize": 65536, "queueFileEntries": 50, "indexSlots": 1000, "indexEntries": 4000}

`queueExtensionFileSize` is there too where the queues of the store have extensions; the two of the index are not where
it was made without one. An empty store has no file whose length could tell all this, and no index file is made before
the first key, no queue file before the first message of its queue.

Invariants:
- Files win: a size that they show is adopted whatever the note says, for another program may have written since.
- The note is written, durably, before the first segment is made, and never changed once there is one. While the store
  is empty, a setting that contradicts it replaces it; later it raises GeometryMismatchError.
- A store with segments and without a note opens as before: what its files do not show is set or has its default. None
  is written then, for what such a store was made with is not known.
- A damaged note is an error, as of every small state file: it may hold what nothing else tells.
"""

from __future__ import annotations

from pathlib import Path

from ..disk.config_file import ConfigFile
from ..disk.disk import Disk
from ..errors import ConfigFileError, GeometryMismatchError, InvalidSettingsError
from ..settings import StoreSettings
from .progress import FLIGHTLOG_FOLDER

GEOMETRY_FILE = "geometry.json"
KEYS = {
    "segment_size": "segmentSize",
    "queue_file_entries": "queueFileEntries",
    "index_slots": "indexSlots",
    "index_entries": "indexEntries",
    "queue_extension_file_size": "queueExtensionFileSize",
}
"""Name of each setting in the file."""


class Geometry:
    """The sizes of one store while it is opened: from its files, else its note, else settings or defaults."""

    def __init__(self, disk: Disk, root: Path, *, is_empty: bool) -> None:
        """`is_empty`: whether there is no segment. Raises ConfigFileError for a damaged note, and DiskError."""
        self._root, self._is_empty = root, is_empty
        self._file = ConfigFile(disk, root / FLIGHTLOG_FOLDER / GEOMETRY_FILE)
        found = self._file.read() or {}
        self.noted: dict[str, int] = {name: found[key] for name, key in KEYS.items() if found.get(key) is not None}
        """Settings as the note has them."""
        try:
            _check(self.noted)
        except InvalidSettingsError as e:
            raise ConfigFileError(self._file.path, str(e), "sizes that a store can have") from e
        self._adopted = dict(self.noted)

    def adopt(self, setting: str, wanted: int | None, found: int | None, default: int) -> int:
        """The size that holds: `found` is what files show, `wanted` what the setting says. Raises
        GeometryMismatchError."""
        noted = self.noted.get(setting)
        known = noted if found is None else found
        if known is not None and wanted is not None and wanted != known:
            if found is not None:
                raise GeometryMismatchError(self._root, setting, wanted, found)
            if not self._is_empty:
                raise GeometryMismatchError(self._root, setting, wanted, known, self._file.path)
            known = wanted
        self._adopted[setting] = known or wanted or default
        return self._adopted[setting]

    def save(self) -> None:
        """Note what was adopted, if the store is empty; durable when this returns. Raises DiskFullError,
        SyncFailedError, DiskError, and InvalidSettingsError if settings and note make no sense together."""
        if self._is_empty and self._adopted != self.noted:
            _check(self._adopted)
            self._file.write({key: self._adopted[name] for name, key in KEYS.items() if name in self._adopted})
            self.noted = dict(self._adopted)


def _check(sizes: dict[str, int]) -> None:
    StoreSettings(**sizes)  # type: ignore[arg-type]
