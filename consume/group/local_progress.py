"""How far one member is where every member has all queues: `FOLDER/GROUP/offsets.json`, on the member's side.

    {"offsetTable":{{"brokerName":"disk-a","queueId":3,"topic":"prices"}:123}}

RocketMQ: `LocalFileOffsetStore`, whose keys are objects, which is no JSON; its folder is that of a client's id.

Invariant: what the file says was acknowledged before it was written, and is durable in its store's log.
"""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

from ...store.disk.config_file import Config, ConfigFile, parse_config
from ...store.disk.disk import Disk
from ...store.errors import ConfigFileError, DiskError, UsageError
from ...store.format.record import INT64_MAX
from ...store.message_queue import MessageQueue
from .consumed_store import StoresNow

OFFSETS_FILE = "offsets.json"
OFFSET_TABLE = "offsetTable"

# An object without others inside it that stands where a key does: one text after another, or what is no text.
OBJECT_KEY = re.compile(r'\{((?:"(?:[^"\\]|\\.)*+"|[^{}"])*+)\}(?=\s*+:)')


class OffsetsFile(ConfigFile):
    """As RocketMQ's clients write it, and as they read it."""

    def _parse(self, raw: bytes, path: Path) -> Config:
        try:
            text = OBJECT_KEY.sub(lambda found: json.dumps(found[0]), raw.decode())
        except UnicodeDecodeError as e:
            raise ConfigFileError(path, f"byte {e.start} is not UTF-8", "JSON") from e
        return parse_config(text.encode(), path)

    def _dump(self, content: Config) -> bytes:
        lines = [f"{queue}:{offset}" for queue, offset in content[OFFSET_TABLE].items()]
        return f'{{"{OFFSET_TABLE}":{{{",".join(lines)}}}}}'.encode()


class LocalProgress:
    """Offsets that one member stores locally. Thread-safe."""

    def __init__(self, disk: Disk, folder: Path, group: str, stores: StoresNow) -> None:
        if group in (".", "..") or "/" in group or "\0" in group:
            raise UsageError(f"group {group!r}: expected a name that a folder can have")
        self._file, self._stores = OffsetsFile(disk, folder.absolute() / group / OFFSETS_FILE), stores
        self.path = self._file.path
        self._lock, self._save_lock = threading.Lock(), threading.Lock()
        self._offsets = self._offsets_in(self._file.read() or {})
        self._saved = dict(self._offsets)

    def get(self, queue: MessageQueue) -> int | None:
        with self._lock:
            return self._offsets.get(queue)

    def set(self, queue: MessageQueue, queue_offset: int) -> None:
        with self._lock:
            self._offsets[queue] = queue_offset

    def save(self) -> None:
        """Write what has changed; durable when this returns. Raises DiskError, also that of a store's log, which is
        flushed first: the offsets in that store are not written then, those in the others are."""
        failure: DiskError | None = None
        with self._save_lock:
            with self._lock:
                changed = {queue: at for queue, at in self._offsets.items() if self._saved.get(queue) != at}
            durable: set[str] = set()
            for name, store in self._stores().items():
                if any(queue.broker_name == name for queue in changed):
                    try:
                        store.store.flush()
                        durable.add(name)
                    except DiskError as e:
                        failure = e
            table = self._saved | {queue: at for queue, at in changed.items() if queue.broker_name in durable}
            if table != self._saved:
                keys = {queue: _key(queue) for queue in sorted(table, key=lambda queue: queue.order)}
                self._file.write({OFFSET_TABLE: {key: table[queue] for queue, key in keys.items()}})
                self._saved = table
        if failure is not None:
            raise failure

    def _offsets_in(self, document: Config) -> dict[MessageQueue, int]:
        table = document.get(OFFSET_TABLE, {})
        if not isinstance(table, dict):
            raise ConfigFileError(self.path, f"an {OFFSET_TABLE} that is a {type(table).__name__}", "an object")
        return {self._queue(key): self._offset(key, offset) for key, offset in table.items()}

    def _queue(self, key: str) -> MessageQueue:
        try:
            found = json.loads(key)
            queue = MessageQueue(found["topic"], found["brokerName"], found["queueId"])
        except (ValueError, LookupError, TypeError) as e:
            raise ConfigFileError(self.path, key[:100], "topic, brokerName and queueId of a queue") from e
        is_queue = isinstance(queue.topic, str) and isinstance(queue.broker_name, str) and type(queue.queue_id) is int
        if not is_queue or queue.queue_id < 0:
            raise ConfigFileError(self.path, key[:100], "two texts and a queue id")
        return queue

    def _offset(self, key: str, offset: object) -> int:
        if type(offset) is not int or not 0 <= offset <= INT64_MAX:
            raise ConfigFileError(self.path, f"{key[:100]}: {str(offset)[:40]}", "an offset, 0 or more")
        return offset


def _key(queue: MessageQueue) -> str:
    fields = {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}
    return json.dumps(fields, separators=(",", ":"))
