"""Finding messages by key: candidates from the key index, each one checked against its record.

The index keeps 31 bits of a key's hash and whole seconds of a time, so it can only propose: a message is an answer if
its record has this topic, this very key and a store time in the range, and its topic was not deleted since. Entries
that no record stands for (RocketMQ leaves such behind) and a record that stands in the index twice answer nothing and
once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from ..index.index_file import key_hash
from ..store.deleted_topics import DeletedTopics
from ..store.errors import CorruptRecordError, UsageError
from ..store.log_reader import LogReader
from ..store.message import StoredMessage
from .entries import messages_of
from .finding import message_at
from .key_scan import keys_between
from .reading import OnCorrupt


class KeySource(Protocol):
    """Where candidates come from: index files, or what a view has gathered."""

    def candidates(self, key_hash: int, begin_ms: int, end_ms: int | None) -> Iterator[int]:
        """Physical offsets, newest first, among them those of every record of this hash and time."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query by key answers."""

    messages: list[StoredMessage]
    """Newest first."""
    has_more: bool
    """Whether there are more than were asked for: ask again for more of them, or with an earlier end."""


class KeyQuery:
    """Queries over one log and one source of candidates. Safe from many threads."""

    def __init__(self, reader: LogReader, source: KeySource, deleted: DeletedTopics) -> None:
        self._reader, self._source, self._deleted = reader, source, deleted
        self.corrupt_skipped = 0
        """Messages that `on_corrupt="skip"` has left out so far."""

    def query(
        self, topic: str, key: str, begin_ms: int, end_ms: int | None, max_count: int, on_corrupt: OnCorrupt, end: int
    ) -> QueryResult:
        """The newest `max_count` messages of a topic that have `key` as their uniq key or among their keys, with a
        store time in [begin_ms, end_ms], below physical offset `end`.

        Raises CorruptRecordError where the index names a damaged record.
        """
        if max_count < 1:
            raise UsageError(f"max_count={max_count}: expected at least 1")
        found: list[StoredMessage] = []
        for record in self.matches(topic, key, begin_ms, end_ms, on_corrupt, end):
            for message in self._messages_with(record, key, on_corrupt):
                if len(found) == max_count:
                    return QueryResult(found, True)
                found.append(message)
        return QueryResult(found, False)

    def matches(
        self, topic: str, key: str, begin_ms: int, end_ms: int | None, on_corrupt: OnCorrupt, end: int
    ) -> Iterator[StoredMessage]:
        """The records of all of them, newest first."""
        known: set[int] = set()
        begin = max(self._reader.min_offset, self._deleted.below(topic))
        for physical_offset in self._source.candidates(key_hash(topic, key), begin_ms, end_ms):
            if physical_offset in known or not begin <= physical_offset < end:
                continue
            known.add(physical_offset)
            try:
                message = message_at(self._reader, physical_offset, end)
            except CorruptRecordError:
                if on_corrupt == "raise":
                    raise
                self.corrupt_skipped += 1
                continue
            if message is None or message.topic != topic or key not in (message.uniq_key, *message.keys):
                continue
            if begin_ms <= message.store_timestamp_ms and (end_ms is None or message.store_timestamp_ms <= end_ms):
                yield message

    def _messages_with(self, record: StoredMessage, key: str, on_corrupt: OnCorrupt) -> list[StoredMessage]:
        """Of a record with this key, newest first: itself, or those messages of the inner batch that have the key; all
        of them where the key is the batch's alone."""
        try:
            messages = messages_of(self._reader, record)
        except CorruptRecordError:
            if on_corrupt == "raise":
                raise
            self.corrupt_skipped += 1
            return []
        messages.reverse()
        return [m for m in messages if key in (m.uniq_key, *m.keys)] or messages

    def by_uniq_key(self, topic: str, uniq_key: str, end: int) -> StoredMessage | None:
        """The newest message of a topic with this uniq key; of an inner batch that has it as its own, the last one."""
        for record in self.matches(topic, uniq_key, 0, None, "raise", end):
            for message in self._messages_with(record, uniq_key, "raise"):
                if uniq_key in (message.uniq_key, record.uniq_key):
                    return message
        return None


def has_uniq_key(reader: LogReader, start: int, stop: int, topic: str | None, uniq_key: str) -> bool:
    """Whether a record in physical [start, stop), which no index knows yet, has this uniq key; `topic` None: any."""
    for keys in keys_between(reader, start, stop):
        for physical_offset in dict.fromkeys(keys.physical_offset.tolist()):
            message = reader.message_at(physical_offset)
            if message.uniq_key == uniq_key and topic in (None, message.topic):
                return True
    return False
