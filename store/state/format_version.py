"""Which format our own folder is in: `flightlog/format.json`, `{"version": 1}`.

RocketMQ's files have versions of their own; this is that of all that lies in `flightlog/`: progress page, seals, notes.

- Opening for writing notes the version that it writes, durably, before the first append. It refuses a store with a
  newer one: a file that it does not know would be left behind its own appends.
- Views, tools and Spark read such a store, and warn: what they do not know there tells them nothing.
- A store without the note was written before there was one (0), or by RocketMQ.
- Versions: 0, before the note; 1, the same files and the note.
"""

from __future__ import annotations

import logging
from pathlib import Path

from ..disk.config_file import ConfigFile
from ..disk.disk import Disk
from ..errors import ConfigFileError, NewerFormatError
from .progress import FLIGHTLOG_FOLDER

FORMAT_FILE = "format.json"
VERSION = 1

log = logging.getLogger("flightlog.store")


class FormatVersion:
    """The note of one store while it is opened, read once."""

    def __init__(self, disk: Disk, root: Path) -> None:
        """Raises ConfigFileError for a note that makes no sense, and DiskError."""
        self._root = root
        self._file = ConfigFile(disk, root / FLIGHTLOG_FOLDER / FORMAT_FILE)
        found = self._file.read()
        version = 0 if found is None else found.get("version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 0:
            raise ConfigFileError(self._file.path, f"version {version!r}", "a whole number")
        self.noted = version
        """0 where none is noted."""

    def refuse_newer(self) -> None:
        """For writers. Raises NewerFormatError."""
        if self.noted > VERSION:
            raise NewerFormatError(self._root, self._file.path, self.noted, VERSION)

    def save(self) -> None:
        """Note ours, unless it is noted; durable when it returns. Raises DiskFullError, SyncFailedError, DiskError."""
        if self.noted != VERSION:
            self._file.write({"version": VERSION})
            self.noted = VERSION


def warn_of_newer_format(disk: Disk, root: Path) -> None:
    """For readers; a note that cannot be read tells them nothing, either. Raises DiskError."""
    try:
        FormatVersion(disk, root).refuse_newer()
    except (NewerFormatError, ConfigFileError) as e:
        log.warning("%s", e, extra={"path": str(root)})
