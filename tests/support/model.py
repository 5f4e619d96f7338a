"""A plain model of a store: every message in a list, every question answered by looking at all of them.

It shares no code with the store, not even the sizes of records: they are worked out here once more.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flightlog import GetStatus, Message, PutResult, StoredMessage

if TYPE_CHECKING:
    from flightlog.store.queue_offsets import QueueKey

FILLER_SIZE = 8


@dataclass(frozen=True, slots=True)
class Record:
    """One message as it must be stored."""

    queue_key: QueueKey
    queue_offset: int
    physical_offset: int
    size: int
    store_timestamp_ms: int
    is_listed: bool
    """Whether a queue has an entry for it."""
    is_indexed: bool
    """Whether it is found by its keys."""
    tags: str | None
    keys: frozenset[str]
    uniq_key: str | None
    fields: tuple[object, ...]
    """Everything that is read back; see `fields_of`."""

    store_host: tuple[str, int]

    @property
    def stop(self) -> int:
        return self.physical_offset + self.size

    @property
    def message_id(self) -> str:
        address, port = self.store_host
        raw = ipaddress.ip_address(address).packed + port.to_bytes(4, "big") + self.physical_offset.to_bytes(8, "big")
        return raw.hex().upper()


def fields_of(message: StoredMessage) -> tuple[object, ...]:
    """What a stored message says, in the order of `Record.fields`."""
    return (
        *(message.topic, message.queue_id, message.queue_offset, message.physical_offset, message.size, message.body),
        *(message.flag, message.sys_flag, message.born_timestamp_ms, tuple(message.born_host)),
        *(message.store_timestamp_ms, tuple(message.store_host), message.reconsume_times),
        *(message.prepared_transaction_offset, message.properties),
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of files, and what a get may answer at most."""

    segment_size: int
    queue_file_entries: int
    answer_count: int
    answer_size: int
    """Bytes of records."""
    scan_size: int
    """Bytes of queue entries."""


class Model:
    """What a store must hold and answer."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.segment_size = limits.segment_size
        self.records: list[Record] = []
        """In the order of the log."""
        self.queues: dict[QueueKey, list[Record]] = {}
        """The listed ones; the place in the list is the queue offset."""
        self.end = 0
        """Physical offset of the next record, unless it must go into the next segment."""
        self.last_timestamp_ms = 0

    # -- writing

    def size_of(self, message: Message, store_host: tuple[str, int]) -> int:
        """Bytes of the record that this message makes."""
        topic, properties = message.topic.encode(), _properties(message)
        size = 91 + len(message.body) + len(topic) + (len(topic) > 127)
        size += sum(len(text.encode()) + 1 for pair in properties.items() for text in pair)
        return size + 12 * sum(":" in host[0] for host in (message.born_host or store_host, store_host))

    def fits(self, message: Message, store_host: tuple[str, int]) -> bool:
        """Whether a segment can hold it at all."""
        return self.size_of(message, store_host) + FILLER_SIZE <= self.segment_size

    def room(self) -> int:
        """Bytes left in the segment that the log ends in."""
        return self.segment_size - self.end % self.segment_size

    def put(self, message: Message, now_ms: int, store_host: tuple[str, int], *, batch_at: int | None = None) -> Record:
        """`batch_at`: the queue offset of an inner batch, which stands in no queue of this kind."""
        size = self.size_of(message, store_host)
        if size + FILLER_SIZE > self.room():
            self.end += self.room()
        timestamp_ms = max(now_ms, self.last_timestamp_ms)
        key = (message.topic, message.queue_id or 0)
        is_batch = batch_at is not None
        is_listed = message.sys_flag & 12 in (0, 8) and not is_batch
        queue_offset = batch_at if batch_at is not None else len(self.queues.get(key, ())) if is_listed else 0
        born_host = message.born_host or store_host
        properties = _properties(message)
        record = Record(
            queue_key=key,
            queue_offset=queue_offset,
            physical_offset=self.end,
            size=size,
            store_timestamp_ms=timestamp_ms,
            is_listed=is_listed,
            is_indexed=message.sys_flag & 12 != 12 and not is_batch,
            tags=message.tags,
            keys=frozenset([*message.keys, *([message.uniq_key] if message.uniq_key else [])]),
            uniq_key=message.uniq_key,
            fields=(
                *(message.topic, message.queue_id, queue_offset, self.end, size, message.body, message.flag),
                message.sys_flag | 16 * (":" in born_host[0]) | 32 * (":" in store_host[0]),
                timestamp_ms if message.born_timestamp_ms is None else message.born_timestamp_ms,
                *(_host(born_host), timestamp_ms, _host(store_host), message.reconsume_times),
                *(message.prepared_transaction_offset, properties),
            ),
            store_host=store_host,
        )
        self._add(record)
        return record

    def _add(self, record: Record) -> None:
        self.records.append(record)
        if record.is_listed:
            self.queues.setdefault(record.queue_key, []).append(record)
        self.end = record.stop
        self.last_timestamp_ms = record.store_timestamp_ms

    def keep(self, end: int, at_least: int) -> None:
        """Forget what a recovery did not find: the log ends at `end`, and no record below `at_least` may be missing."""
        assert at_least <= end, f"the log ends at {end}, but everything below {at_least} was acknowledged"
        kept = [record for record in self.records if record.stop <= end]
        last = kept[-1].stop if kept else 0
        rolled_to = self.records[len(kept)].physical_offset if len(kept) < len(self.records) else self.end
        assert end in (last, rolled_to), f"neither a record nor a filler ends at {end}"
        self.records, self.queues, self.last_timestamp_ms = [], {}, 0
        for record in kept:
            self._add(record)
        self.end = end

    @staticmethod
    def same(what: str, found: object, expected: object) -> None:
        assert found == expected, f"{what}: found {found}, expected {expected}"

    def check_put(self, record: Record, result: PutResult) -> None:
        """What a put answered, against what it must have done."""
        found = (result.topic, result.queue_id, result.queue_offset, result.physical_offset, result.size)
        expected = (*record.queue_key, record.queue_offset, record.physical_offset, record.size)
        self.same("put", (*found, result.store_timestamp_ms), (*expected, record.store_timestamp_ms))

    def check_messages(self, found: Iterable[StoredMessage], expected: Sequence[Record]) -> None:
        """The same messages in the same order, in every field."""
        there = [fields_of(message) for message in found]
        for fields, record in zip(there, expected, strict=False):
            self.same("message", fields, record.fields)
        self.same("count of messages", len(there), len(expected))

    # -- reading; `end` is how far the reader may see

    def listed(self, key: QueueKey, end: int) -> list[Record]:
        return [record for record in self.queues.get(key, ()) if record.stop <= end]

    def bounds(self, end: int) -> dict[QueueKey, tuple[int, int]]:
        """Bounds of the queues that have messages."""
        counts = {key: len(self.listed(key, end)) for key in self.queues}
        return {key: (0, count) for key, count in counts.items() if count}

    @staticmethod
    def matches(record: Record, tags: str | None) -> bool:
        """Whether a message passes a filter such as "A || B"."""
        return tags in (None, "", "*") or record.tags in [tag.strip() for tag in str(tags).split("||")]

    def get(
        self, key: QueueKey, queue_offset: int, max_count: int, tags: str | None, max_size: int | None, end: int
    ) -> tuple[GetStatus, int, list[Record]]:
        """Status, next queue offset, messages."""
        queue, limits = self.listed(key, end), self.limits
        if not queue:
            return GetStatus.NO_MESSAGE_IN_QUEUE, 0, []
        if queue_offset < 0:
            return GetStatus.OFFSET_TOO_SMALL, 0, []
        if queue_offset == len(queue):
            return GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, []
        if queue_offset > len(queue):
            return GetStatus.OFFSET_OVERFLOW_BADLY, len(queue), []
        file_end = (queue_offset // limits.queue_file_entries + 1) * limits.queue_file_entries
        scan_end = queue_offset + max((limits.scan_size + 19) // 20, max_count)
        found: list[Record] = []
        size, next_offset = 0, queue_offset
        for record in queue[queue_offset : min(file_end, scan_end)]:
            size += record.size
            is_full = len(found) >= min(max_count, limits.answer_count) or size > limits.answer_size
            if found and (is_full or (max_size is not None and size > max(max_size, 100))):
                break
            next_offset += 1
            if self.matches(record, tags):
                found.append(record)
            else:
                size -= record.size
        return GetStatus.FOUND if found else GetStatus.NO_MATCHED_MESSAGE, next_offset, found

    def query(self, topic: str, key: str, begin_ms: int, end_ms: int | None, end: int) -> list[Record]:
        """Every message with this key, newest first."""
        return [
            record
            for record in reversed(self.records)
            if record.queue_key[0] == topic
            and key in record.keys
            and record.is_indexed
            and record.stop <= end
            and begin_ms <= record.store_timestamp_ms
            and (end_ms is None or record.store_timestamp_ms <= end_ms)
        ]

    def offset_at(self, key: QueueKey, timestamp_ms: int, boundary: str, end: int) -> int:
        """The first message that is not older, or the last one that is not younger."""
        times = [record.store_timestamp_ms for record in self.listed(key, end)]
        if boundary == "lower":
            return next((i for i, time in enumerate(times) if time >= timestamp_ms), len(times))
        return max((i for i, time in enumerate(times) if time <= timestamp_ms), default=0)

    def count(self, key: QueueKey, start: int, stop: int, tags: str | None, end: int) -> int:
        """How many messages in [start, stop) have a tag of the same hash as one of these, or all of the range."""
        if tags in (None, "*"):
            return stop - start
        wanted = {_hash(tag.strip()) for tag in str(tags).split("||")}
        return sum(_hash(record.tags or "") in wanted for record in self.listed(key, end)[start:stop])

    def at(self, physical_offset: int, end: int) -> Record | None:
        """The record that starts there."""
        found = [r for r in self.records if r.physical_offset == physical_offset and r.stop <= end]
        return found[0] if found else None


def _properties(message: Message) -> dict[str, str]:
    properties = dict(message.properties or {})
    if message.keys:
        properties["KEYS"] = " ".join(message.keys)
    if message.tags:
        properties["TAGS"] = message.tags
    if message.uniq_key:
        properties["UNIQ_KEY"] = message.uniq_key
    if not message.wait_store_ok:
        properties["WAIT"] = "false"
    return properties


def _host(host: tuple[str, int]) -> tuple[str, int]:
    return str(ipaddress.ip_address(host[0])), host[1]


def _hash(tag: str) -> int:
    """Java's hash of a string, on which Aa and BB are one."""
    value = 0
    for unit in memoryview(tag.encode("utf-16-le")).cast("H"):
        value = (31 * value + unit) % (1 << 32)
    return value
