"""Put messages of a file or of another store into a store; an interrupted import continues, and puts none twice.

Messages are put in the order of the source, each into its own queue. `flightlog/import.json` notes, before the first
put, which source it is and where each queue ended. What is behind those ends after a kill is a beginning of the source:
the next call compares these messages with it, and continues behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...consume.store import Store
from ...engine.repair.new_store import KeptMessage
from ...store.disk.config_file import ConfigFile
from ...store.disk.disk import RealDisk
from ...store.errors import InvalidMessageError, UsageError
from ...store.message import Message
from ...store.queue_offsets import QueueKey
from ...store.state.progress import FLIGHTLOG_FOLDER
from ...store.stored_message import StoredMessage
from .sources import LEFT_OUT

IMPORT_FILE = "import.json"


@dataclass(slots=True)
class ImportResult:
    """What an import did, or would do."""

    by_topic: dict[str, int] = field(default_factory=dict)
    """Topic -> messages that were put."""
    found_count: int = 0
    """Messages that an interrupted import had put before."""

    def count(self, topic: str) -> None:
        self.by_topic[topic] = self.by_topic.get(topic, 0) + 1


def plan_import(messages: Iterable[KeptMessage]) -> ImportResult:
    """What a first import of these messages would put. Raises as `read_source`."""
    result = ImportResult()
    for each in messages:
        result.count(each.message.topic)
    return result


def import_messages(store: Store, messages: Iterable[KeptMessage], about: str) -> ImportResult:
    """Put messages, each into the queue that it was in, behind what is there. Durable when this returns. `about` names
    their source. After an error or a kill the same call continues, if nothing else was put into these queues meanwhile.

    Queue offsets and store times are new. Properties, body, flags, sender and birth time are kept; what made a message
    transactional, delayed or part of a batch is left out.

    Under sync flush every put waits for its sync: open the store with async flush to import much.

    Raises UsageError for a message that the store does not take, and for a source that is not that of an interrupted
    import; what `put` and `read_source` raise.
    """
    disk = RealDisk()
    note = ConfigFile(disk, store.path / FLIGHTLOG_FOLDER / IMPORT_FILE)
    found = note.read()
    if found is None:
        found = {"source": about, "ends": [[*key, end] for key, (_, end) in store.queues().items()]}
        note.write(found)
    elif found.get("source") != about:
        raise UsageError(
            f"{store.path}: an import of {found.get('source')} was interrupted. Import that again, or remove "
            f"{note.path} to leave it as it is"
        )
    result = _put(store, messages, _Before(store, found["ends"], note.path))
    store.flush()
    for path in (note.path, note.path.with_name(IMPORT_FILE + ".bak")):
        if disk.exists(path):
            disk.remove(path)
    disk.sync_folder(note.path.parent)
    return result


class _Before:
    """What an interrupted import has put."""

    def __init__(self, store: Store, ends: list[list[Any]], note: Path) -> None:
        self._store, self._note = store, note
        self._ends = {(topic, queue_id): end for topic, queue_id, end in ends}
        self._now = store.queues()
        self._readers: dict[QueueKey, Iterator[StoredMessage]] = {}

    def has(self, message: Message) -> bool:
        """Whether this next message of the source is there. Raises UsageError if another one is."""
        key = message.topic, message.queue_id or 0
        reader = self._readers.get(key)
        if reader is None:
            start, end = self._ends.get(key, 0), self._now.get(key, (0, 0))[1]
            reader = self._readers[key] = self._store.read(*key, start) if start < end else iter(())
        there = next(reader, None)
        if there is None or there.queue_offset >= self._now[key][1]:
            return False
        properties = {name: value for name, value in there.properties.items() if name not in LEFT_OUT}
        if there.body != message.body or properties != message.properties:
            raise UsageError(
                f"{self._store.path}: topic {key[0]} queue {key[1]} offset {there.queue_offset}: found another message "
                f"than the interrupted import put there. Something else was put meanwhile: remove {self._note}, and "
                "import what is missing"
            )
        return True


def _put(store: Store, messages: Iterable[KeptMessage], before: _Before) -> ImportResult:
    result = ImportResult()
    for each in messages:
        if before.has(each.message):
            result.found_count += 1
            continue
        try:
            store.put(each.message)
        except InvalidMessageError as e:
            raise UsageError(
                f"{each.where}: the store does not take this message: {e}. Leave it out or change it, and import "
                "again: it continues"
            ) from e
        result.count(each.message.topic)
    return result
