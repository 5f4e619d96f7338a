"""What was acknowledged, in a file that the store knows nothing of.

Every line that a writer or a view says is heard here and written down as it came. A message is known by the physical
offset of its record and its place in it, and has a level, which says what it has to survive:

    STORED    the end of the process: acknowledged, perhaps not to be read yet (a put that did not wait for its sync)
    VISIBLE   the same, and every view can read it
    DURABLE   a power cut

Invariants:
- What is in the ledger has to be in the log, unless retention took it or a power cut might.
- What was deleted stays in the log and must not come back into a queue. Of a topic whose deletion was under way when
  its writer ended, either all or nothing is there.
"""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flightlog.tests.soak.telling import Head

STORED, VISIBLE, DURABLE = range(3)
THERE, DELETING, DELETED = range(3)
Key = tuple[int, int]


class Finding(Exception):
    """The store is not what it promised to be."""


@dataclass(slots=True)
class Entry:
    topic: str
    queue_id: int
    queue_offset: int
    head: Head
    digest: str
    level: int
    fate: int = THERE


class Ledger:
    """Told line by line what writers and views said; see writer.py and reader.py for the lines."""

    def __init__(self, path: Path, segment_size: int) -> None:
        self._path, self._segment_size = path, segment_size
        self._file = path.open("w")
        self.entries: dict[Key, Entry] = {}
        self._unflushed: dict[int, list[Entry]] = {}
        """By thread of the writer that lives: what its next flush makes durable."""
        self.refused: set[Head] = set()
        """Heads of this round's messages that were refused: nothing of them may be there."""
        self.topics: set[str] = set()
        """Made by `create_topic` and not deleted since."""
        self.log_start_max = 0
        """Retention may not have gone further."""
        self.acknowledged = self.refusals = self.cleanings = self.deletions = self.sightings = 0

    def hear(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        match line:
            case {"wrong": text}:
                raise Finding(text)
            case {"ack": level, "by": [round_number, thread], "of": messages}:
                for *where, number, digest in messages:
                    self._acknowledge(where, Head(round_number, thread, number), digest, level)
            case {"opened": _}:
                for entry in self.entries.values():  # recovery rests on what it has made durable
                    entry.level = DURABLE
                self._unflushed.clear()
            case {"flushed": thread}:
                for entry in self._unflushed.pop(thread, ()):
                    entry.level = DURABLE
            case {"refused": heads}:
                self.refused |= {Head(*head) for head in heads}
                self.refusals += 1
            case {"made": topic}:
                self.topics.add(topic)
            case {"deleting": topic}:
                self.topics.discard(topic)
                self._pass(topic, THERE, DELETING)
            case {"deleted": topic}:
                self._pass(topic, DELETING, DELETED)
                self.deletions += 1
            case {"cleaning": segments}:
                self.log_start_max += segments * self._segment_size
                self.cleanings += 1

    def _acknowledge(self, where: list[Any], head: Head, digest: str, level: int) -> None:
        topic, queue_id, queue_offset, *key = where
        entry = Entry(topic, queue_id, queue_offset, head, digest, level)
        known = self.entries.setdefault((key[0], key[1]), entry)
        if known is not entry:
            raise Finding(f"physical offset {key} was given away twice: {known}, {entry}")
        if level < DURABLE:
            self._unflushed.setdefault(head.thread, []).append(entry)
        self.acknowledged += 1

    def _pass(self, topic: str, before: int, after: int) -> None:
        for entry in self.entries.values():
            if entry.topic == topic and entry.fate == before:
                entry.fate = after

    def sight(self, where: list[Any], head: Head, digest: str, level: int) -> None:
        """A view has read this message, so from then on it has to survive as much as `level` says."""
        topic, queue_id, queue_offset, *place = where
        entry = Entry(topic, queue_id, queue_offset, head, digest, level)
        known = self.entries.setdefault((place[0], place[1]), entry)
        if known.head != head or known.digest != digest:
            raise Finding(f"a view read {entry} at physical offset {place}, where {known} was put")
        known.level = max(known.level, level)
        self.sightings += 1

    def required(self, level: int, log_start: int) -> dict[Key, Entry]:
        """What must be there of what has at least this level."""
        return {key: entry for key, entry in self.entries.items() if entry.level >= level and key[0] >= log_start}

    def settle(self, log: Container[Key], queues: Container[Key], log_start: int) -> None:
        """Everything was looked for: forget what retention, or the power cut, was free to take."""
        self.entries = {key: entry for key, entry in self.entries.items() if key in log}
        for key, entry in self.entries.items():
            if entry.fate == DELETING:
                entry.fate = THERE if key in queues else DELETED
        self._unflushed.clear()
        self.refused.clear()
        self.log_start_max = log_start
        self._write_anew()

    def _write_anew(self) -> None:
        """The file holds what is still to be looked for, and what has been said since."""
        self._file.seek(0)
        self._file.truncate()
        for (physical_offset, place), entry in self.entries.items():
            where = [entry.topic, entry.queue_id, entry.queue_offset, physical_offset, place]
            known = {"known": where, "head": entry.head, "digest": entry.digest}
            self._file.write(json.dumps(known | {"level": entry.level, "fate": entry.fate}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
