"""Consumer offsets of each group in each queue: `config/consumerOffset.json`, in RocketMQ's format.

    {"dataVersion": {…}, "offsetTable": {"orders@billing": {"0": 12, "1": 7}}, "flightlogPoppedBefore": 4096}

The last one is ours, in stores that were popped from (consume/pop/): check points below this physical offset are in the
offsets. A broker leaves it out when it writes the file.

A consumer offset is the queue offset of the next message to read: every message below it was acknowledged.

Invariants:
- Every message below an offset in the file was acknowledged before the file was written, and is durable: `save` flushes
  the log first. So after a kill or a power cut, a group resumes at or before its first unacknowledged message.
- An offset beyond the end of its queue, which a broker leaves after a power cut, is lowered to the end when the store
  is opened; otherwise the next messages would be skipped.
- Fields of the file that are unknown here are kept.

RocketMQ: `ConsumerOffsetManager`. As there, a commit may lower an offset: that is how a group is reset.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from ...store.disk.clock import Clock
from ...store.disk.config_file import CONFIG_FOLDER, Config, ConfigFile, next_data_version
from ...store.disk.disk import Disk
from ...store.errors import ConfigFileError, UsageError
from ...store.format.record import INT64_MAX
from ...store.queue_offsets import QueueKey

log = logging.getLogger("flightlog.consume")

OFFSETS_FILE = "consumerOffset.json"
SEPARATOR = "@"
POPPED_BEFORE = "flightlogPoppedBefore"

Offsets = dict[int, int]
"""Queue id -> consumer offset, of one topic."""


class OffsetTable:
    """The consumer offsets of all groups of a store that is open for writing. Thread-safe."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        clock: Clock,
        flush_log: Callable[[], object],
        log_end: Callable[[], int] = lambda: 0,
    ) -> None:
        self.log_end = log_end
        """One past the last byte of the log."""
        self._popped_before: Callable[[], int] | None = None
        self._file = ConfigFile(disk, root / CONFIG_FOLDER / OFFSETS_FILE)
        self._clock, self._flush_log = clock, flush_log
        self._lock = threading.Lock()
        self._save_lock = threading.Lock()
        """Held while the file is written; acquired before `_lock`."""
        self._document: Config = {}
        self._offsets: dict[str, Offsets] = {}
        self._changes = self._saved_changes = 0

    def load(self, end_of: Callable[[QueueKey], int]) -> None:
        """Read the file. `end_of` returns the end of a queue. Raises DiskError, and ConfigFileError if neither the file
        nor its `.bak` can be parsed."""
        self._document = self._file.read() or {}
        self._offsets = offsets_in(self._document, self._file.path)
        for name, offsets in self._offsets.items():
            topic = name.partition(SEPARATOR)[0]
            for queue_id, offset in offsets.items():
                end = end_of((topic, queue_id))
                if offset > end and name.count(SEPARATOR) == 1:
                    text = "%s: %s of queue %d is at %d, but the queue ends at %d: it goes on from there"
                    extra = {"path": str(self._file.path), "topic": topic, "queue_id": queue_id}
                    log.warning(text, self._file.path, name, queue_id, offset, end, extra=extra)
                    offsets[queue_id] = end
                    self._changes += 1

    # -- offsets

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """The group's offset in this queue; None if it has none."""
        with self._lock:
            return self._offsets.get(name_of(topic, group), {}).get(queue_id)

    def of(self, group: str, topic: str) -> Offsets:
        """A copy of the group's offsets in this topic."""
        with self._lock:
            return dict(self._offsets.get(name_of(topic, group), {}))

    def of_topic(self, topic: str) -> dict[str, Offsets]:
        """A copy of the offsets in this topic, by group; groups without any are left out."""
        with self._lock:
            return {
                name.partition(SEPARATOR)[2]: dict(offsets)
                for name, offsets in self._offsets.items()
                if name.partition(SEPARATOR)[0] == topic
            }

    def by_group(self) -> dict[str, dict[str, Offsets]]:
        """Group -> topic -> its offsets there, of every group that has any: a copy."""
        with self._lock:
            return _by_group(self._offsets)

    def set(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Set the group's offset in this queue. The next `save` writes it."""
        name = name_of(topic, group)
        if queue_id < 0 or not 0 <= queue_offset <= INT64_MAX:
            raise UsageError(f"queue {queue_id} at {queue_offset}: expected a queue id and an offset, 0 or more")
        with self._lock:
            offsets = self._offsets.setdefault(name, {})
            if offsets.get(queue_id) != queue_offset:
                offsets[queue_id] = queue_offset
                self._changes += 1

    @property
    def popped_before(self) -> int | None:
        """What the file says of it; None where it says nothing."""
        found = self._document.get(POPPED_BEFORE)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def note_popped(self, popped_before: Callable[[], int]) -> None:
        """Have every save write what this returns, which is asked for before the offsets are taken; the first one now.
        Raises as `save`."""
        with self._lock:
            self._popped_before = popped_before
            self._changes += self.popped_before is None
        self.save()

    def forget_topic(self, topic: str) -> None:
        """Remove all offsets in a topic, before the topic is deleted. The next `save` writes it."""
        with self._lock:
            gone = [name for name in self._offsets if name.partition(SEPARATOR)[0] == topic]
            for name in gone:
                del self._offsets[name]
            self._changes += len(gone)

    def forget_group(self, group: str) -> None:
        """This group has never begun anywhere: it is to be deleted. The next `save` writes it."""
        with self._lock:
            gone = [name for name in self._offsets if name.partition(SEPARATOR)[2] == group]
            for name in gone:
                del self._offsets[name]
            self._changes += len(gone)

    # -- the file

    @property
    def is_unsaved(self) -> bool:
        return self._changes != self._saved_changes

    def save(self) -> None:
        """Write the file if an offset has changed; durable on return. Includes every offset set before this call.

        Flushes the log first. Raises DiskError, also for that flush, and StoreClosedError. After an error the file is
        unchanged, and the next call tries again.
        """
        if not self.is_unsaved:
            return
        with self._save_lock:
            popped = {} if self._popped_before is None else {POPPED_BEFORE: self._popped_before()}
            with self._lock:
                changes = self._changes
                table = {name: {str(i): offsets[i] for i in sorted(offsets)} for name, offsets in self._offsets.items()}
            if changes == self._saved_changes:
                return
            self._flush_log()
            version = next_data_version(self._document, self._clock.now_ms())
            document = self._document | {"dataVersion": version, "offsetTable": table} | popped
            self._file.write(document)
            self._document, self._saved_changes = document, changes


@lru_cache(1024)  # consumers ask once a message
def name_of(topic: str, group: str) -> str:
    """The key of a group's offsets in a topic, as in RocketMQ's file."""
    for what, text in (("topic", topic), ("group", group)):
        if not text or SEPARATOR in text:
            raise UsageError(
                f"{what} {text!r}: offsets are kept under TOPIC{SEPARATOR}GROUP, so neither may have an "
                f"{SEPARATOR!r}, or be empty"
            )
    return f"{topic}{SEPARATOR}{group}"


def read_offsets(disk: Disk, root: Path) -> dict[str, dict[str, Offsets]]:
    """Group -> topic -> its offsets there, of what the file says now. Raises ConfigFileError, DiskError."""
    file = ConfigFile(disk, root / CONFIG_FOLDER / OFFSETS_FILE)
    return _by_group(offsets_in(file.read() or {}, file.path))


def _by_group(table: Mapping[str, Offsets]) -> dict[str, dict[str, Offsets]]:
    found: dict[str, dict[str, Offsets]] = {}
    for name, offsets in table.items():
        topic, _, group = name.partition(SEPARATOR)
        if group and SEPARATOR not in group:
            found.setdefault(group, {})[topic] = dict(offsets)
    return found


def offsets_in(document: Config, path: Path) -> dict[str, Offsets]:
    """The offsets in the file's content. Raises ConfigFileError."""
    table = document.get("offsetTable", {})
    if not isinstance(table, dict):
        raise ConfigFileError(path, f"an offsetTable that is a {type(table).__name__}", "an object")
    return {name: _offsets_of(name, found, path) for name, found in table.items()}


def _offsets_of(name: str, found: object, path: Path) -> Offsets:
    if not isinstance(found, dict):
        raise ConfigFileError(path, f"{name[:100]!r}: a {type(found).__name__}", "an object with an offset a queue")
    offsets: Offsets = {}
    for queue_id, offset in found.items():
        is_number = queue_id.isascii() and queue_id.isdigit() and len(queue_id) <= 10
        is_offset = isinstance(offset, int) and not isinstance(offset, bool) and -1 <= offset <= INT64_MAX
        if not is_number or not is_offset:
            what = f"{name[:100]!r}: {queue_id[:40]!r}: {str(offset)[:40]}"
            raise ConfigFileError(path, what, "a queue id and its offset")
        if offset >= 0:  # -1 means none in RocketMQ
            offsets[int(queue_id)] = offset
    return offsets
