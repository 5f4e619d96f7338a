"""Put the messages of an exported file into a store; an interrupted import continues, and puts none twice.

Messages are put in the order of the file, each into its own queue. `flightlog/import.json` notes, before the first put,
which file it is and where each queue ended. What is behind those ends after a kill is a beginning of the file: the next
call compares these messages with the file, and continues behind them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...consume.store import Store
from ...store.disk.config_file import ConfigFile
from ...store.disk.disk import RealDisk
from ...store.errors import InvalidMessageError, UsageError
from ...store.message import Message
from ...store.queue_offsets import QueueKey
from ...store.state.progress import FLIGHTLOG_FOLDER
from ...store.stored_message import StoredMessage
from .message_lines import FORMAT, LEFT_OUT, VERSION, decode_message, parse_line

IMPORT_FILE = "import.json"


@dataclass(slots=True)
class ImportResult:
    """What an import did, or would do."""

    by_topic: dict[str, int] = field(default_factory=dict)
    """Topic -> messages that were put."""
    found_count: int = 0
    """Messages that an interrupted import had put before."""


def read_messages(source: Path) -> Iterator[tuple[str, Message]]:
    """The messages of an exported file, each with its place in words. Raises UsageError for another line; OSError."""
    with source.open("rb") as file:
        head = parse_line(file.readline(), f"{source}: line 1")
        if head.get("format") != FORMAT or head.get("version") != VERSION:
            raise UsageError(f"{source}: line 1: expected the head of a file that `flightlog export` wrote")
        for number, line in enumerate(file, 2):
            where = f"{source}: line {number}"
            if not line.endswith(b"\n"):
                raise UsageError(f"{where}: it has no end: the file was cut. Export it again")
            yield where, decode_message(parse_line(line, where), where)


def plan_import(source: Path) -> ImportResult:
    """What a first import of this file would put. Raises as `read_messages`."""
    result = ImportResult()
    for _, message in read_messages(source):
        result.by_topic[message.topic] = result.by_topic.get(message.topic, 0) + 1
    return result


def import_messages(store: Store, source: Path) -> ImportResult:
    """Put the messages of an exported file, each into the queue that it was in, behind what is there. Durable when this
    returns. After an error or a kill the same call continues, if nothing else was put into these queues meanwhile.

    Queue offsets and store times are new. Properties, body, flags, sender and birth time are kept; what made a message
    transactional, delayed or part of a batch is left out.

    Under sync flush every put waits for its sync: open the store with async flush to import much.

    Raises UsageError for a line that is not as exported or has a message that the store does not take, and for a file
    that is not that of an interrupted import; what `put` raises.
    """
    disk = RealDisk()
    note = ConfigFile(disk, store.path / FLIGHTLOG_FOLDER / IMPORT_FILE)
    about = str(source.resolve())
    found = note.read()
    if found is None:
        found = {"source": about, "ends": [[*key, end] for key, (_, end) in store.queues().items()]}
        note.write(found)
    elif found.get("source") != about:
        raise UsageError(
            f"{store.path}: an import of {found.get('source')} was interrupted. Import that file again, or remove "
            f"{note.path} to leave it as it is"
        )
    result = _put(store, source, _Before(store, found["ends"], note.path))
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
        """Whether this next message of the file is there. Raises UsageError if another one is."""
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


def _put(store: Store, source: Path, before: _Before) -> ImportResult:
    result = ImportResult()
    for where, message in read_messages(source):
        if before.has(message):
            result.found_count += 1
            continue
        try:
            store.put(message)
        except InvalidMessageError as e:
            raise UsageError(
                f"{where}: the store does not take this message: {e}. Remove the line or change it, and import the "
                "file again: it continues"
            ) from e
        result.by_topic[message.topic] = result.by_topic.get(message.topic, 0) + 1
    return result
