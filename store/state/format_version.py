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


def read_format_version(disk: Disk, root: Path) -> int:
    """0 where none is noted. Raises ConfigFileError, DiskError."""
    return _noted(_file(disk, root))


def refuse_newer_format(disk: Disk, root: Path) -> None:
    """For writers. Raises NewerFormatError, ConfigFileError, DiskError."""
    found = read_format_version(disk, root)
    if found > VERSION:
        raise NewerFormatError(root, _file(disk, root).path, found, VERSION)


def warn_of_newer_format(disk: Disk, root: Path) -> None:
    """For readers; a note that cannot be read tells them nothing, either."""
    try:
        refuse_newer_format(disk, root)
    except (NewerFormatError, ConfigFileError) as e:
        log.warning("%s", e, extra={"path": str(root)})


def write_format_version(disk: Disk, root: Path) -> None:
    """Note ours, unless it is noted; durable when this returns. Raises DiskFullError, SyncFailedError, DiskError."""
    file = _file(disk, root)
    if _noted(file) != VERSION:
        file.write({"version": VERSION})


def _file(disk: Disk, root: Path) -> ConfigFile:
    return ConfigFile(disk, root / FLIGHTLOG_FOLDER / FORMAT_FILE)


def _noted(file: ConfigFile) -> int:
    found = file.read()
    version = 0 if found is None else found.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise ConfigFileError(file.path, f"version {version!r}", "a whole number")
    return version
