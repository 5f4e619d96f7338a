"""Finding messages by key: candidates from the key index, each one checked against its record.

The index keeps 31 bits of a key's hash and whole seconds of a time, so it can only propose: a message is an answer if
its record has this topic, exactly this key and a store time in the range, and its topic was not deleted since. Entries
without a record (RocketMQ leaves such behind) are skipped, and a record with two entries is returned once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, Protocol

from ...index.key.index_file import key_hash
from ...index.key.key_index import KeyIndex
from ...schedule.delay_level_table import SCHEDULE_TOPIC
from ...schedule.timer_request import TIMER_TOPIC
from ...store.errors import CorruptRecordError, IndexFileGoneError, UsageError
from ...store.format import property_names as props
from ...store.format.sys_flag import INNER_BATCH
from ...store.log.log_reader import LogReader
from ...store.state.deleted_topics import DeletedTopics
from ...store.stored_message import StoredMessage
from ..dispatch.dispatcher import Dispatcher
from ..dispatch.key_scan import keys_between
from .entries import messages_of
from .finding import message_at
from .reading import OnCorrupt

VALUE_END = props.VALUE_END.encode()
KEYS_BEGIN, UNIQ_KEY_BEGIN = (
    f"{props.VALUE_END}{name}{props.NAME_END}".encode() for name in (props.KEYS, props.UNIQ_KEY)
)

PARKING_TOPICS = SCHEDULE_TOPIC, TIMER_TOPIC
"""Topics where messages wait for their delivery time."""

MAX_TIME_MS = (1 << 63) - 1


class KeySource(Protocol):
    """Source of candidates: index files, or the keys that a view has collected."""

    def candidates(self, key_hash: int, begin_ms: int, end_ms: int | None) -> Iterator[int]:
        """Physical offsets, newest first, among them those of every record of this hash and time."""

    def release(self) -> None:
        """Keep no file open."""


class LiveKeys:
    """Candidates for a query by key, see key_query.py. If an index file was deleted, the index is rebuilt
    during the query, by this thread or another one, and the query starts again: it remembers what it has
    returned."""

    def __init__(self, index: KeyIndex, dispatcher: Dispatcher) -> None:
        self._index, self._dispatcher = index, dispatcher

    def candidates(self, key_hash: int, begin_ms: int, end_ms: int | None) -> Iterator[int]:
        """Physical offsets, newest first."""
        while True:
            clear_count = self._index.clear_count
            self._dispatcher.catch_up()  # waits for an index that is being rebuilt
            try:
                for physical_offset in self._index.candidates(key_hash, begin_ms, end_ms):
                    if self._index.clear_count != clear_count:
                        break  # before an older one than those that may be missing
                    yield physical_offset
            except IndexFileGoneError:
                self._dispatcher.restart_index(self._index)
                continue
            if self._index.clear_count == clear_count:
                return

    def release(self) -> None:
        """Nothing: the index itself is closed with the store."""


class QueryResult(NamedTuple):
    """What a query by key answers."""

    messages: list[StoredMessage]
    """Newest first."""
    has_more: bool
    """Whether there are more than were asked for: ask again for more of them, or with an earlier end."""


class KeyQuery:
    """Queries over one log and one source of candidates. Thread-safe."""

    def __init__(self, reader: LogReader, source: KeySource, deleted: DeletedTopics) -> None:
        self._reader, self._source, self._deleted = reader, source, deleted
        self.corrupt_skipped = 0
        """Messages that `on_corrupt="skip"` has left out so far."""

    def release(self) -> None:
        """Keep no file open."""
        self._source.release()

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
        for _, messages in self.matches(topic, key, begin_ms, end_ms, on_corrupt, end):
            for message in messages:
                if len(found) == max_count:
                    return QueryResult(found, True)
                found.append(message)
        return QueryResult(found, False)

    def matches(
        self, topic: str, key: str, begin_ms: int, end_ms: int | None, on_corrupt: OnCorrupt, end: int
    ) -> Iterator[tuple[StoredMessage, list[StoredMessage]]]:
        """The records of all of them, newest first, and what each one holds that has the key, newest first."""
        known: set[int] = set()
        begin = max(self._reader.min_offset, self._deleted.below(topic))
        wanted, is_any_time = SoughtKey(topic, key), begin_ms <= 0 and end_ms is None
        for physical_offset in self._source.candidates(wanted.hash, begin_ms, end_ms):
            if physical_offset in known or not begin <= physical_offset < end:
                continue
            known.add(physical_offset)
            message = self._plain_match(physical_offset, wanted, end)
            if message is not None and is_any_time:  # the way of most, and short
                yield message, [message]
                continue
            is_plain = message is not None
            if message is None:
                message = self._match(physical_offset, wanted, on_corrupt, end)
                if message is None:
                    continue
            if is_any_time or begin_ms <= message.store_timestamp_ms <= (end_ms if end_ms is not None else MAX_TIME_MS):
                yield message, [message] if is_plain else self._messages_with(message, key, on_corrupt)

    def _plain_match(self, physical_offset: int, wanted: SoughtKey, end: int) -> StoredMessage | None:
        """The message there if it plainly has the key, as most candidates do; None: `_match` tells."""
        if not wanted.topic_raw or not wanted.value:
            return None
        try:
            message = self._reader.plain_message(physical_offset, wanted.topic_raw, end)
        except CorruptRecordError:
            return None  # the file is no more
        return message if message is not None and wanted.is_plainly_in(message.properties_raw) else None

    def _match(self, physical_offset: int, wanted: SoughtKey, on_corrupt: OnCorrupt, end: int) -> StoredMessage | None:
        """The record there if it has the key and ends by `end`."""
        reader = self._reader
        message: StoredMessage | None
        try:
            message = reader.message_at(physical_offset)
        except CorruptRecordError:
            try:
                message = message_at(reader, physical_offset, end)  # which tells damage from what is no record
            except CorruptRecordError:
                if on_corrupt == "raise":
                    raise
                self.corrupt_skipped += 1
                return None
        if message is None or physical_offset + message.size > end:
            return None
        return message if wanted.is_of(message) else None

    def _messages_with(self, record: StoredMessage, key: str, on_corrupt: OnCorrupt) -> list[StoredMessage]:
        """Return the messages of a record that have this key, newest first: the record itself, or those messages of the
        inner batch that have the key; all of them if the key is that of the batch alone."""
        if not record.sys_flag & INNER_BATCH:
            return [record]
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
        for record, messages in self.matches(topic, uniq_key, 0, None, "raise", end):
            for message in messages:
                if uniq_key in (message.uniq_key, record.uniq_key):
                    return message
        return None


class SoughtKey:
    """A key that is looked for, and the topic that it is looked for in."""

    __slots__ = ("_key", "_topic", "hash", "topic_raw", "value")

    def __init__(self, topic: str, key: str) -> None:
        self._topic, self._key = topic, key
        self.hash = key_hash(topic, key)
        self.topic_raw = _raw_topic(topic)
        """As it lies in a record; empty for one that can be in none, or in more than one form."""
        self.value = b""
        """How a property ends that is this key alone; none where it may be two properties, or two keys."""
        if key.isprintable() and key and props.KEY_SEPARATOR not in key:
            self.value = key.encode() + VALUE_END

    def is_of(self, message: StoredMessage) -> bool:
        """Whether the message is of this topic, and it is its uniq key or among its keys."""
        if message.topic != self._topic:
            return False
        if self.value and self.is_plainly_in(message.properties_raw):
            return True
        return self._key in (message.uniq_key, *message.keys)

    def is_plainly_in(self, properties: bytes) -> bool:
        """Whether one property of its name has it as its value: that spares parsing all of them."""
        raw = VALUE_END + properties + VALUE_END
        if KEYS_BEGIN + self.value in raw and raw.count(KEYS_BEGIN) == 1:
            return True
        return UNIQ_KEY_BEGIN + self.value in raw and raw.count(UNIQ_KEY_BEGIN) == 1


@lru_cache(maxsize=1024)
def _raw_topic(topic: str) -> bytes:
    return topic.encode() if topic.isprintable() else b""


def has_uniq_key(reader: LogReader, start: int, stop: int, topic: str | None, uniq_key: str) -> bool:
    """Whether a record in physical [start, stop), which no index knows yet, has this uniq key; `topic` None: any."""
    for keys in keys_between(reader, start, stop):
        for physical_offset in dict.fromkeys(keys.physical_offset.tolist()):
            message = reader.message_at(physical_offset)
            if message.uniq_key == uniq_key and was_put_to(message, topic):
                return True
    return False


def was_put_to(message: StoredMessage, topic: str | None) -> bool:
    """Whether it was put to this topic (None: any); a delayed message may still wait in another topic."""
    if topic is None or message.topic == topic:
        return True
    return message.topic in PARKING_TOPICS and message.properties.get(props.REAL_TOPIC) == topic
