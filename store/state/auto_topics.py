"""Topics that were created by a put, not by `create_topic`: `flightlog/auto-topics.json`.

    {"autoCreated": ["audit", "orders"]}

A put may add queues to these (up to the setting `max_auto_queue_count`), and to no other topic: not to one made by
`create_topic` or by a broker, nor to one that `update_topic` has changed since. Where the file does not exist, no topic
was created by a put. RocketMQ ignores the folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..disk.config_file import ConfigFile
from ..disk.disk import Disk
from ..errors import ConfigFileError
from .progress import FLIGHTLOG_FOLDER

AUTO_TOPICS_FILE = "auto-topics.json"
NAMES = "autoCreated"


class AutoTopicsFile:
    """The file of a store that is open for writing."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._file = ConfigFile(disk, root / FLIGHTLOG_FOLDER / AUTO_TOPICS_FILE)
        self._written: frozenset[str] = frozenset()

    def read(self) -> set[str]:
        """The names in the file. Raises ConfigFileError, DiskError."""
        names = (self._file.read() or {}).get(NAMES, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigFileError(self._file.path, f"{NAMES} with {str(names)[:40]!r}", "a list of topic names")
        self._written = frozenset(names)
        return set(names)

    def write(self, names: Iterable[str]) -> None:
        """Replace the names if they changed; durable when this returns. Raises DiskError."""
        new = frozenset(names)
        if new != self._written:
            self._file.write({NAMES: sorted(new)})
            self._written = new
