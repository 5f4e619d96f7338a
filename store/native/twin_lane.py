"""The lane in Python; see lane_protocol.py."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ..frame import MAGIC_V1, MAGIC_V2
from .lane_protocol import APPEND
from .twin_encode import FIXED, HOST_BITS, PACK_HEAD, PACK_PROPERTIES_SIZE, PACK_TOPIC_SIZE, PROPERTIES_MAX_SIZE

if TYPE_CHECKING:
    import threading

    from ..message import Message, PutResult

BLANK_SIZE: Final = 8
LANE_BODY_BELOW: Final = 64 << 10
LANE_QUEUES_MAX: Final = 1 << 16
TIMED_EVERY: Final = 16
PUT_MANY_SIZE: Final = 1 << 20
CHECK_MANY_COUNT: Final = 4096
ZERO: Final = 0
"""Small integers are single objects: whether a field has its default is one comparison of pointers."""
INT32: Final = range(-1 << 31, 1 << 31)
INT64: Final = range(-(1 << 63) + 1, 1 << 63)

Prepared = tuple[tuple[str, int], bytes, int, int, bytes, bytes, bytes, tuple[int, int, int, int | None]]
"""Topic and queue id, body, its size, size of the record, its first 8 bytes, topic and properties, and its numbers."""

crc32, time_ns, new_tuple = zlib.crc32, time.time_ns, tuple.__new__


class Lane:
    """See LaneProtocol."""

    def __init__(
        self,
        obstacles: dict[str, Any],
        offsets: dict[tuple[str, int], int],
        message_type: type[Message],
        result_type: type[PutResult],
        status: object,
        store_host: bytes,
        special_names: frozenset[str],
        max_body_size: int,
        clock: Callable[[], int] | None,
        lock: threading.Lock,
        page: object,
        appended: int,
        visible: int,
        publish: Callable[[int], None],
        /,
    ) -> None:
        self._obstacles, self._offsets, self._lock = obstacles, offsets, lock
        self._message_type, self._result_type, self._status = message_type, result_type, status
        self._store_host, self._special_names = store_host, special_names
        self._max_body_size = min(max_body_size, LANE_BODY_BELOW - 1)
        self._clock = clock
        self._publish = publish
        self._sys_flag = HOST_BITS if len(store_host) > 8 else 0
        fixed = FIXED[self._sys_flag, len(store_host), len(store_host)]
        self._pack, self._fixed_size = fixed.pack, PACK_HEAD_SIZE + fixed.size + PROPERTIES_LENGTH_SIZE
        self._topics: dict[str, tuple[bytes, int, int, int]] = {}
        """Bytes of the topic and their length, as in a record; queues; magic; size of a record with nothing else."""
        self._mapping: Any = None
        self._base = self._limit = 0
        self._puts = 0
        self.end = self.last_store_timestamp_ms = self.appended_records = self.taken = 0
        self.is_armed = True
        self.ring: Callable[[], object] | None = None
        self.note: Callable[[float], object] | None = None

    # -- one put

    def put(self, message: Message, /) -> PutResult | None:
        self._puts += 1
        began_ns = 0 if self._puts % TIMED_EVERY or self.note is None else time.monotonic_ns()
        obstacles = self._obstacles
        if obstacles or (prepared := self._prepare(message)) is None:
            return None
        key, body, body_size, size, head, topic_raw, raw, numbers = prepared
        flag, reconsume_times, prepared_offset, born_timestamp_ms = numbers
        crc = crc32(body) & 0x7FFFFFFF
        topic, queue_id = key
        host, offsets = self._store_host, self._offsets
        with self._lock:
            start = self.end
            stop = start + size
            if obstacles or start < self._base or stop + BLANK_SIZE > self._limit:
                return None
            now_ms = time_ns() // 1_000_000 if self._clock is None else self._clock()
            if now_ms < self.last_store_timestamp_ms:
                now_ms = self.last_store_timestamp_ms
            queue_offset = offsets.get(key, 0)
            fixed = self._pack(
                crc,
                queue_id,
                flag,
                queue_offset,
                start,
                self._sys_flag,
                now_ms if born_timestamp_ms is None else born_timestamp_ms,
                host,
                now_ms,
                host,
                reconsume_times,
                prepared_offset,
                body_size,
            )
            rest = b"".join((fixed, body, topic_raw, PACK_PROPERTIES_SIZE(len(raw)), raw))
            position, mapping = start - self._base, self._mapping
            obstacles[APPEND] = (start, stop, {key: queue_offset + 1})
            mapping[position + 8 : position + size] = rest
            mapping[position : position + 8] = head
            self.last_store_timestamp_ms = now_ms
            self.end = stop  # the commit point
            offsets[key] = queue_offset + 1
            self.appended_records += 1
            self.taken += 1
            self._publish(stop)
            del obstacles[APPEND]
        if self.is_armed:
            self._ring()
        if began_ns and self.note is not None:
            self.note((time.monotonic_ns() - began_ns) / 1e6)
        return new_tuple(self._result_type, (self._status, topic, queue_id, queue_offset, start, size, now_ms, host))

    def _prepare(self, message: Message) -> Prepared | None:
        """What an ordinary message is written from; None for any other."""
        if type(message) is not self._message_type:
            return None
        try:
            if (
                message.sys_flag is not ZERO
                or message.wait_store_ok is not True
                or message.born_host is not None
                or message.compress is not None
                or type(topic := message.topic) is not str
                or type(body := message.body) is not bytes
                or type(queue_id := message.queue_id) is not int
            ):
                return None
            flag, born_timestamp_ms = message.flag, message.born_timestamp_ms
            reconsume_times, prepared_offset = message.reconsume_times, message.prepared_transaction_offset
            keys, tags, properties, uniq_key = message.keys, message.tags, message.properties, message.uniq_key
        except AttributeError:
            return None  # a field was deleted
        known, body_size = self._topics.get(topic), len(body)
        if known is None or not 0 <= queue_id < known[1] or body_size > self._max_body_size:
            return None
        numbers = flag, reconsume_times, prepared_offset, born_timestamp_ms
        if (
            flag is not ZERO
            or reconsume_times is not ZERO
            or prepared_offset is not ZERO
            or born_timestamp_ms is not None
        ) and not _are_in_range(*numbers):
            return None
        if properties is None and uniq_key is None and type(keys) is type(tags) is str and keys and tags:
            if " " in keys:
                return None
            text, count = f"KEYS\x01{keys}\x02TAGS\x01{tags}\x02", 2
        elif (found := self._texts(properties, keys, tags, uniq_key)) is not None:
            text, count = found
        else:
            return None
        if text.count("\x01") != count or text.count("\x02") != count:
            return None
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            return None
        if len(raw) > PROPERTIES_MAX_SIZE:
            return None
        topic_raw, _, magic, fixed_size = known
        size = fixed_size + body_size + len(raw)
        return (topic, queue_id), body, body_size, size, PACK_HEAD(size, magic), topic_raw, raw, numbers

    def _texts(self, properties: Any, keys: Any, tags: Any, uniq_key: Any) -> tuple[str, int] | None:
        """All properties as one text, and how many they are; None if they are not ordinary."""
        text, count = "", 0
        if properties is not None:
            if type(properties) is not dict:
                return None
            for name, value in properties.items():
                if not (type(name) is type(value) is str and name and value) or name in self._special_names:
                    return None
                text += f"{name}\x01{value}\x02"
            count = len(properties)
        if type(keys) is tuple or type(keys) is list:
            if not all(type(key) is str and key and " " not in key for key in keys):
                return None
            keys = " ".join(keys)
        elif type(keys) is not str or " " in keys:
            return None
        for name, value in (("KEYS", keys), ("TAGS", tags), ("UNIQ_KEY", uniq_key)):
            if value is not None and type(value) is not str:
                return None
            if value:
                text += f"{name}\x01{value}\x02"
                count += 1
        return text, count

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

    def _ring(self) -> None:
        self.is_armed = False
        if self.ring is not None:
            try:  # noqa: SIM105 (an interrupt could come inside contextlib.suppress, before the ring)
                self.ring()
            except RuntimeError:
                pass  # rung already

    # -- many

    def check_many(self, messages: tuple[Message, ...], first: int, /) -> int:
        stop = min(len(messages), first + CHECK_MANY_COUNT)
        if self._obstacles or self._mapping is None:
            return -1
        longest = len(self._mapping) - BLANK_SIZE
        for place in range(first, stop):
            prepared = self._prepare(messages[place])
            if prepared is None or prepared[3] > longest:
                return -1
        return stop

    def put_many(self, messages: tuple[Message, ...], first: int, results: list[PutResult], /) -> int:
        size = 0
        for place in range(first, len(messages)):
            if size >= PUT_MANY_SIZE or (result := self.put(messages[place])) is None:
                return place
            results.append(result)
            size += result.size
        return len(messages)

    # -- what the commit log does

    def open(self, mapping: Any, base: int, allocated: int, /) -> None:
        if base < 0 or not 0 <= allocated <= len(mapping):
            raise ValueError("base and allocated must lie in the segment")
        self._mapping, self._base, self._limit = mapping, base, base + allocated

    def close(self) -> None:
        self._mapping = None
        self._base = self._limit = 0

    def hand_over(self) -> None:
        pass  # the twin counts in the dict itself

    def learn(self, topic: str, raw: bytes, queue_count: int, /) -> None:
        magic = MAGIC_V1 if len(raw) <= 127 else MAGIC_V2
        topic_raw = PACK_TOPIC_SIZE[magic](len(raw)) + raw
        fixed_size = self._fixed_size + len(topic_raw)
        self._topics[topic] = topic_raw, min(queue_count, LANE_QUEUES_MAX), magic, fixed_size

    def forget(self, topic: str, /) -> None:
        self._topics.pop(topic, None)


PACK_HEAD_SIZE: Final = 8
PROPERTIES_LENGTH_SIZE: Final = 2


def _are_in_range(flag: object, reconsume_times: object, prepared_offset: object, born_timestamp_ms: object) -> bool:
    return (
        _is_in(flag, INT32)
        and _is_in(reconsume_times, INT32)
        and _is_in(prepared_offset, INT64)
        and (born_timestamp_ms is None or _is_in(born_timestamp_ms, INT64))
    )


def _is_in(number: object, numbers: range) -> bool:
    return type(number) is int and number in numbers
