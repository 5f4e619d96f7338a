"""The fast path of puts; see fast_path_protocol.py.

It says which messages are ordinary. What makes one right is said by `prepare` alone, which the slow path asks, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...errors import InvalidMessageError
from ...format.sys_flag import COMPRESSED, COMPRESSION_MASK
from ..fast_path_protocol import INTENT
from .encode import encoded, store

if TYPE_CHECKING:
    from ...format.record import PreparedRecord
    from ...message import Message
    from ...results import PutResult

BLANK_SIZE = 8
"""Size of the filler; a segment keeps room for it."""
WAITS = "WAIT", "true"
"""The only special property that leaves a put ordinary. RocketMQ's Java clients set it in all messages."""
QUEUES_MAX = 1 << 16
TIMED_EVERY = 16
PUT_MANY_SIZE = 1 << 20
"""Bytes of records that a put of many appends under one hold of the lock: others are to have their turn."""


class FastPath:
    """See FastPathProtocol."""

    def __init__(
        self,
        conditions: dict[Any, Any],
        offsets: dict[tuple[str, int], int],
        message_type: type[Message],
        result_type: type[PutResult],
        status: object,
        store_host: bytes,
        special_names: frozenset[str],
        max_body_size: int,
        clock: Callable[[], int] | None,
        page: object,
        appended: int,
        visible: int,
        lock: threading.Lock,
        publish: Callable[[int], None],
        prepare: Callable[[Message], PreparedRecord],
        /,
    ) -> None:
        self._conditions, self._offsets, self._lock, self._prepare = conditions, offsets, lock, prepare
        self._message_type, self._result_type, self._status = message_type, result_type, status
        self._special_names, self._clock = special_names, clock or _now_ms
        self._publish: Callable[[int], None] | None = publish
        self._queue_counts: dict[str, int] = {}
        """By topic."""
        self._segment: memoryview | None = None
        self._base = self._limit = self._puts = 0
        self.end = self.last_store_timestamp_ms = self.taken = self.appended_records = 0
        self.is_armed = True
        self.notify: Callable[[], object] | None = None
        self.note: Callable[[float], object] | None = None

    # -- puts

    def put(self, message: Message, /) -> PutResult | None:
        self._puts += 1
        began_s = time.perf_counter()
        results = self._append([record]) if (record := self._ordinary(message)) is not None else []
        if results and self.note is not None and self._puts % TIMED_EVERY == 0:
            self.note((time.perf_counter() - began_s) * 1000)
        return results[0] if results else None

    def append(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        tags: str | None,
        keys: Any,
        properties: Any,
        uniq_key: str | None,
        flag: int,
        born_timestamp_ms: int | None,
        /,
    ) -> PutResult | None:
        return self.put(
            self._message_type(
                topic, body, tags, keys, properties, queue_id, flag, uniq_key, born_timestamp_ms=born_timestamp_ms
            )
        )

    def put_many(self, messages: tuple[Message, ...], first: int, /) -> list[PutResult] | None:
        prepared: Iterable[PreparedRecord | None] = map(self._ordinary, messages[first:])
        if first == 0:  # nothing is put before all were looked at
            prepared = list(prepared)
            if any(record is None for record in prepared):
                return None
        records: list[PreparedRecord] = []
        size = 0
        for record in prepared:
            if record is None or size + record.size > PUT_MANY_SIZE:
                break
            records.append(record)
            size += record.size
        return self._append(records)

    def _ordinary(self, message: Message) -> PreparedRecord | None:
        """The record of an ordinary message; None for any other."""
        if self._conditions or self._segment is None or type(message) is not self._message_type:
            return None
        try:
            if not _is_plain(message):
                return None
            special = self._special_names.intersection(message.properties or ())
            if any((name, (message.properties or {})[name]) != WAITS for name in special):
                return None
            if message.queue_id not in range(self._queue_counts.get(message.topic, 0)):
                return None
            record = self._prepare(message)
        except (AttributeError, InvalidMessageError):  # a field was deleted, or is wrong: the slow path says which
            return None
        return record if record.size + BLANK_SIZE <= len(self._segment) else None

    def _append(self, records: list[PreparedRecord]) -> list[PutResult]:
        """Append as many of them as there is room for. Their results."""
        with self._lock:
            segment, start = self._segment, self.end
            if self._conditions or segment is None or start < self._base:
                return []
            while records and start + sum(record.size for record in records) + BLANK_SIZE > self._limit:
                records = records[:-1]
            if not records:
                return []
            now_ms = max(self._clock(), self.last_store_timestamp_ms)
            stop = start + sum(record.size for record in records)
            advanced: dict[tuple[str, int], int] = {}
            results: list[PutResult] = []
            self._conditions[INTENT] = start, stop, advanced
            at = start
            for record in records:
                key = record.topic, record.queue_id
                queue_offset = advanced.get(key, self._offsets.get(key, 0))
                advanced[key] = queue_offset + 1
                raw = encoded(
                    record.magic,
                    record.queue_id,
                    record.flag,
                    queue_offset,
                    at,
                    record.sys_flag,
                    now_ms if record.born_timestamp_ms is None else record.born_timestamp_ms,
                    record.born_host,
                    now_ms,
                    record.store_host,
                    record.reconsume_times,
                    record.prepared_transaction_offset,
                    record.body,
                    record.topic_raw,
                    record.properties_raw,
                )
                store(segment, at - self._base, raw)
                where = record.topic, record.queue_id, queue_offset, at, record.size, now_ms, record.store_host
                results.append(self._result_type(self._status, *where))  # type: ignore[arg-type]
                at += record.size
            self.last_store_timestamp_ms = now_ms
            self.end = stop  # the commit point
            self._offsets.update(advanced)
            self.taken += len(records)
            self.appended_records += len(records)
            if self._publish is not None:
                self._publish(stop)
            del self._conditions[INTENT]
        if self.is_armed:
            self.is_armed = False
            if self.notify is not None:
                try:  # noqa: SIM105 (an interrupt could come inside contextlib.suppress, before the notify)
                    self.notify()
                except RuntimeError:
                    pass  # notified already
        return results

    # -- what the commit log does

    def open(self, mapping: Any, base: int, allocated: int, /) -> None:
        if base < 0 or not 0 <= allocated <= len(mapping):
            raise ValueError("base and allocated must lie in the segment")
        self._segment, self._base, self._limit = memoryview(mapping), base, base + allocated

    def close(self) -> None:
        self._segment = self._publish = None  # what it published to holds a file open
        self._base = self._limit = 0

    def write_back_offsets(self) -> None:
        pass  # the reference counts in the dict itself

    def register_topic(self, topic: str, raw: bytes, queue_count: int, /) -> None:
        self._queue_counts[topic] = min(queue_count, QUEUES_MAX)

    def unregister_topic(self, topic: str, /) -> None:
        self._queue_counts.pop(topic, None)


def _is_plain(message: Message) -> bool:
    """Whether its fields are of just the types that a Message names, and those that are seldom used have their
    defaults."""
    numbers = message.queue_id, message.flag, message.reconsume_times, message.prepared_transaction_offset
    only_compressed = type(message.sys_flag) is int and not message.sys_flag & ~(COMPRESSED | COMPRESSION_MASK)
    keys = (message.keys,) if type(message.keys) is str else message.keys
    return (
        type(message.topic) is str
        and type(message.body) is bytes
        and len(message.body) > 0  # whether the store takes an empty one is for the slow path
        and all(type(number) is int for number in (*numbers, message.delay_level))
        and message.delay_level == 0
        and only_compressed
        and type(message.born_timestamp_ms) in (int, type(None))
        and all(type(text) in (str, type(None)) for text in (message.tags, message.uniq_key))
        and type(keys) in (tuple, list)
        and all(type(key) is str for key in keys)
        and type(message.properties) in (dict, type(None))
        and all(type(text) is str for pair in (message.properties or {}).items() for text in pair)
        and message.wait_store_ok is True
        and (message.born_host is None or _is_plain_host(message.born_host))
        and message.compress is None
    )


def _is_plain_host(host: object) -> bool:
    """Whether it is a pair of text and a whole number. An IPv6 address with a scope is for the slow path."""
    return type(host) is tuple and [type(part) for part in host] == [str, int] and "%" not in host[0]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
