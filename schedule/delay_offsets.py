"""`config/delayOffset.json`: the delivery offset of each delay level, in RocketMQ's JSON format.

    {"dataVersion": {"counter": 7, "stateVersion": 0, "timestamp": ms}, "offsetTable": {"1": 0, "2": 15}}

A key is a delay level, its value the queue offset of the first message that was not delivered. Levels that the settings
do not have keep their offsets. store/disk/config_file.py describes how the file is written and what replaces a damaged
one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ..store.disk.clock import Clock
from ..store.disk.config_file import CONFIG_FOLDER, Config, ConfigFile, next_data_version
from ..store.disk.disk import Disk
from ..store.errors import ConfigFileError
from ..store.format.record import INT64_MAX

DELAY_OFFSETS_FILE = "delayOffset.json"
LEVEL = re.compile(r"-?[0-9]{1,10}")


class DelayOffsets:
    """The file. Not thread-safe."""

    def __init__(self, disk: Disk, root: Path, clock: Clock) -> None:
        self._file = ConfigFile(disk, root / CONFIG_FOLDER / DELAY_OFFSETS_FILE)
        self._clock = clock
        self._document: Config = {}
        self._saved: dict[int, int] = {}

    def load(self) -> dict[int, int]:
        """Read the offsets by level; empty without a file. Raises ConfigFileError, DiskError."""
        self._document = self._file.read() or {}
        self._saved = offsets_in(self._document, self._file.path)
        return dict(self._saved)

    def save(self, offsets: Mapping[int, int]) -> None:
        """Write the offsets if they have changed; durable on return. Raises DiskError: then the file has the old
        content or the new."""
        wanted = {**self._saved, **offsets}
        if wanted == self._saved:
            return
        version = next_data_version(self._document, self._clock.now_ms())
        table = {str(level): wanted[level] for level in sorted(wanted)}
        document = self._document | {"dataVersion": version, "offsetTable": table}
        self._file.write(document)
        self._document, self._saved = document, wanted


def offsets_in(document: Config, path: Path) -> dict[int, int]:
    """The offsets by level from the content of the file. Raises ConfigFileError."""
    table = document.get("offsetTable", {})
    if not isinstance(table, dict):
        raise ConfigFileError(path, f"an offsetTable that is a {type(table).__name__}", "an object")
    found: dict[int, int] = {}
    for level, offset in table.items():
        if not LEVEL.fullmatch(level):
            raise ConfigFileError(path, f"an offset of the delay level {level[:40]!r}", "a whole number")
        if not isinstance(offset, int) or isinstance(offset, bool) or not ~INT64_MAX <= offset <= INT64_MAX:
            raise ConfigFileError(path, f"delay level {level} at {str(offset)[:40]!r}", "a queue offset")
        found[int(level)] = offset
    return found
