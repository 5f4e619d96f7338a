"""Which format our own folder is in: `flightlog/format.json`, `{"version": 2}`.

RocketMQ's files have versions of their own; this is that of all that lies in `flightlog/`: progress page, seals, notes.

- Opening for writing notes the version that it writes, durably, before the first append. It refuses a store with a
  newer one: a file that it does not know would be left behind its own appends.
- Views, tools and Spark read such a store, and warn: what they do not know there tells them nothing.
- A store without the note was written before there was one (0), or by RocketMQ.
- A version adds to the one before it, and changes nothing: to raise a store converts nothing, and every file is read
  where it is, whatever the version. The note is a bound for writers, not a list of what is there: builds between the
  two wrote files of version 2 under version 1.

    0   before the note: progress, log-start, geometry.json, seals/, open-seal, held, cut-OFFSET, deleted-topics.json,
        auto-topics.json, spark-queries.json, staging/
    1   format.json
    2   starts: groups' messages in process, positions, failed attempts. redriven.json. rebuild: the next open reads the
        whole log. A writer of version 1 would pass all three over, and append behind them. And what no writer has to
        know: repair-TIME/, backup.json, tls/

The table of the folder in docs/format.md says of each file since which version it is; tests hold every store that they
write, and the golden ones, to it. A slot, field or word that older writers would get wrong counts VERSION up, too.
"""

from __future__ import annotations

import logging
from pathlib import Path

from ..disk.config_file import ConfigFile
from ..disk.disk import Disk
from ..errors import ConfigFileError, NewerFormatError
from .progress import FLIGHTLOG_FOLDER

FORMAT_FILE = "format.json"
VERSION = 2

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
