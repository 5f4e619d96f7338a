"""Topics that were deleted: `flightlog/deleted-topics.json`.

A commit log is only ever appended to: what a deleted topic had lies in it until retention takes it. So queues that are
rebuilt, views, queries and scans must be told up to where records of a name are those of a deleted topic:

    {"deletedBelow": {"orders": 81920}, "pending": [], "othersDeletedBelow": 4096, "known": ["orders", "payments"]}

`deletedBelow` is by topic, a physical offset: a topic of the same name that is made later has its records from there
on, and its queues begin at 0 again. `pending` are topics whose deletion has begun and that `config/topics.json` may
still have. The other two are how a deletion by RocketMQ is kept, which leaves no note: below that offset, what is not
`known` was deleted, RocketMQ's own topics and light queues excepted.

Where the file is not there, nothing was deleted. RocketMQ ignores the folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..disk.config_file import Config, ConfigFile
from ..disk.disk import Disk
from ..errors import ConfigFileError
from ..format.record import INT64_MAX, is_safe_topic
from ..topic import is_system_topic
from .progress import FLIGHTLOG_FOLDER

DELETED_FILE = "deleted-topics.json"


class DeletedTopics:
    """The content of the file, in memory. Changed by deletions under the append lock; read by all threads."""

    def __init__(self) -> None:
        self._below: dict[str, int] = {}
        self.pending: list[str] = []
        self._others_below = 0
        self._known: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self._below) or self._others_below > 0

    def below(self, topic: str) -> int:
        """Physical offset below which records of this name are those of a deleted topic; 0 where there are none."""
        below = self._below.get(topic, 0)
        if self._others_below > below and topic not in self._known and not is_system_topic(topic):
            return self._others_below
        return below

    @property
    def highest(self) -> int:
        """Physical offset below which something may be deleted."""
        return max(self._others_below, *self._below.values(), 0)

    def marked(self) -> list[str]:
        """The topics that were deleted by name."""
        return list(self._below)

    def mark(self, topic: str, below: int) -> None:
        self._below[topic] = below

    def only_known(self, known: Iterable[str]) -> None:
        """Whatever is in the log now and is not known was deleted. `settle` then says what "now" was."""
        self._known = frozenset(known)
        self._others_below = INT64_MAX

    def settle(self, min_offset: int, end: int) -> None:
        """Forget topics below the log's start, and offsets behind the `end` of a log that lost its tail: other records
        are about to be written there."""
        self._below = {topic: min(below, end) for topic, below in self._below.items() if min(below, end) > min_offset}
        self._others_below = min(self._others_below, end)
        if self._others_below <= min_offset:
            self._others_below, self._known = 0, frozenset()

    def to_json(self) -> Config:
        return {
            "deletedBelow": dict(self._below),
            "pending": list(self.pending),
            "othersDeletedBelow": self._others_below,
            "known": sorted(self._known),
        }

    @classmethod
    def from_json(cls, found: Config, path: Path) -> DeletedTopics:
        """Raises ConfigFileError."""
        deleted = cls()
        below = found.get("deletedBelow", {})
        if not isinstance(below, dict) or not all(map(_is_offset, below.values())):
            raise ConfigFileError(path, "deletedBelow with something else", "physical offsets by topic")
        _check_names(below, path)
        deleted._below = below
        deleted._others_below = found.get("othersDeletedBelow", 0)
        if not _is_offset(deleted._others_below):
            raise ConfigFileError(path, "another othersDeletedBelow", "a physical offset")
        deleted.pending = _texts(found.get("pending", []), path)
        deleted._known = frozenset(_texts(found.get("known", []), path))
        return deleted


def _is_offset(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT64_MAX


def _texts(value: Any, path: Path) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ConfigFileError(path, "pending or known with something else", "lists of topics")
    _check_names(value, path)
    return value


def _check_names(topics: Iterable[str], path: Path) -> None:
    """What is left of the queues of deleted topics is removed: each must name a folder, and none elsewhere."""
    if not all(map(is_safe_topic, topics)):
        raise ConfigFileError(path, "a name that cannot name a folder", "names of topics")


class DeletedTopicsFile:
    """The file of a store that is open for writing."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._file = ConfigFile(disk, deleted_path(root))
        self._written = DeletedTopics().to_json()

    def read(self) -> DeletedTopics:
        """Raises ConfigFileError."""
        found = self._file.read()
        if found is None:
            return DeletedTopics()
        self._written = found
        return DeletedTopics.from_json(found, self._file.path)

    def write(self, deleted: DeletedTopics, **also: Any) -> None:
        """Make it durable, if it says anything new; `also` overrides what is not in memory yet. Raises DiskError."""
        content = deleted.to_json() | also
        if content != self._written:
            self._file.write(content)
            self._written = content


def deleted_path(root: Path) -> Path:
    return root / FLIGHTLOG_FOLDER / DELETED_FILE


def read_deleted(disk: Disk, root: Path) -> DeletedTopics:
    """What the file says now. Raises ConfigFileError."""
    return DeletedTopicsFile(disk, root).read()
