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

Prepared = tuple[tuple[str, int], bytes, bytes, bytes, int, int, int, int | None]
"""Key of the queue, body, topic and properties, head, size, then flag, reconsume times and so on."""


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
        publish: Callable[[int, int], None],
        /,
    ) -> None:
        self._obstacles, self._offsets, self._lock = obstacles, offsets, lock
        self._message_type, self._result_type, self._status = message_type, result_type, status
        self._store_host, self._special_names = store_host, special_names
        self._max_body_size = min(max_body_size, LANE_BODY_BELOW - 1)
        self._clock = clock
        self._publish, self._words = publish, [word for word in (appended, visible) if word >= 0]
        self._sys_flag = HOST_BITS if len(store_host) > 8 else 0
        fixed = FIXED[self._sys_flag, len(store_host), len(store_host)]
        self._pack, self._fixed_size = fixed.pack, PACK_HEAD_SIZE + fixed.size
        self._topics: dict[str, tuple[bytes, int, int]] = {}
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
        if self._puts % TIMED_EVERY or self.note is None:
            return self._put(message)
        began_ns = time.monotonic_ns()
        result = self._put(message)
        if result is not None:
            self.note((time.monotonic_ns() - began_ns) / 1e6)
        return result

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

    def _put(self, message: Message) -> PutResult | None:
        if self._obstacles or (prepared := self._prepare(message)) is None:
            return None
        key, body, tail, head, size, flag, reconsume_times, prepared_offset, born_timestamp_ms = prepared
        crc = zlib.crc32(body) & 0x7FFFFFFF
        obstacles, offsets, host = self._obstacles, self._offsets, self._store_host
        with self._lock:
            if obstacles:
                return None
            start = self.end
            stop = start + size
            if start < self._base or stop + BLANK_SIZE > self._limit:
                return None
            now_ms = time.time_ns() // 1_000_000 if self._clock is None else self._clock()
            if now_ms < self.last_store_timestamp_ms:
                now_ms = self.last_store_timestamp_ms
            queue_offset = offsets.get(key, 0)
            fixed = self._pack(
                crc,
                key[1],
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
                len(body),
            )
            rest = b"".join((fixed, body, tail))
            position, mapping = start - self._base, self._mapping
            obstacles[APPEND] = (start, stop, {key: queue_offset + 1})
            mapping[position + 8 : position + size] = rest
            mapping[position : position + 8] = head
            self.last_store_timestamp_ms = now_ms
            self.end = stop  # the commit point
            offsets[key] = queue_offset + 1
            self.appended_records += 1
            self.taken += 1
            for word in self._words:
                self._publish(word, stop)
            del obstacles[APPEND]
        if self.is_armed:
            self._ring()
        return tuple.__new__(self._result_type, (self._status, key[0], key[1], queue_offset, start, size, now_ms, host))

    def _ring(self) -> None:
        self.is_armed = False
        if self.ring is not None:
            try:  # noqa: SIM105 (an interrupt could come inside contextlib.suppress, before the ring)
                self.ring()
            except RuntimeError:
                pass  # rung already

    def _prepare(self, message: Message) -> Any:
        """What an ordinary message is written from; None for any other."""
        try:
            if (
                type(message) is not self._message_type
                or message.sys_flag is not ZERO
                or message.wait_store_ok is not True
                or message.born_host is not None
                or message.compress is not None
                or type(topic := message.topic) is not str
                or type(body := message.body) is not bytes
                or len(body) > self._max_body_size
                or (known := self._topics.get(topic)) is None
                or type(queue_id := message.queue_id) is not int
                or not 0 <= queue_id < known[1]
            ):
                return None
            flag, born_timestamp_ms = message.flag, message.born_timestamp_ms
            reconsume_times, prepared_offset = message.reconsume_times, message.prepared_transaction_offset
            if not (
                (flag is ZERO or _is_in(flag, INT32))
                and (reconsume_times is ZERO or _is_in(reconsume_times, INT32))
                and (prepared_offset is ZERO or _is_in(prepared_offset, INT64))
                and (born_timestamp_ms is None or _is_in(born_timestamp_ms, INT64))
            ):
                return None
            properties = self._encode_properties(message)
            if properties is None:
                return None
        except AttributeError:
            return None  # a field was deleted
        topic_raw, _, magic = known
        tail = topic_raw + PACK_PROPERTIES_SIZE(len(properties)) + properties
        size = self._fixed_size + len(body) + len(tail)
        return (
            *((topic, queue_id), body, tail, PACK_HEAD(size, magic), size),
            *(flag, reconsume_times, prepared_offset, born_timestamp_ms),
        )

    def _encode_properties(self, message: Message) -> bytes | None:
        keys, tags, uniq_key = message.keys, message.tags, message.uniq_key
        text, count = "", 0
        if message.properties is not None:
            given = message.properties
            if type(given) is not dict:
                return None
            for name, value in given.items():
                if not (type(name) is type(value) is str and name and value) or name in self._special_names:
                    return None
                text += f"{name}\x01{value}\x02"
            count = len(given)
        if type(keys) is str:
            if keys:
                if " " in keys:
                    return None
                text += f"KEYS\x01{keys}\x02"
                count += 1
        elif type(keys) is tuple or type(keys) is list:
            if keys:
                for key in keys:
                    if type(key) is not str or not key or " " in key:
                        return None
                text += f"KEYS\x01{' '.join(keys)}\x02"
                count += 1
        else:
            return None
        if tags is not None:
            if type(tags) is not str:
                return None
            if tags:
                text += f"TAGS\x01{tags}\x02"
                count += 1
        if uniq_key is not None:
            if type(uniq_key) is not str:
                return None
            if uniq_key:
                text += f"UNIQ_KEY\x01{uniq_key}\x02"
                count += 1
        if text.count("\x01") != count or text.count("\x02") != count:
            return None
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            return None
        return raw if len(raw) <= PROPERTIES_MAX_SIZE else None

    # -- many

    def check_many(self, messages: tuple[Message, ...], first: int, /) -> int:
        stop = min(len(messages), first + CHECK_MANY_COUNT)
        if self._obstacles or self._mapping is None:
            return -1
        longest = len(self._mapping) - BLANK_SIZE
        for place in range(first, stop):
            prepared = self._prepare(messages[place])
            if prepared is None or prepared[4] > longest:
                return -1
        return stop

    def put_many(self, messages: tuple[Message, ...], first: int, results: list[PutResult], /) -> int:
        size = 0
        for place in range(first, len(messages)):
            if size >= PUT_MANY_SIZE or (result := self._put(messages[place])) is None:
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
        self._topics[topic] = topic_raw, min(queue_count, LANE_QUEUES_MAX), magic

    def forget(self, topic: str, /) -> None:
        self._topics.pop(topic, None)


PACK_HEAD_SIZE: Final = 8


def _is_in(number: object, numbers: range) -> bool:
    return type(number) is int and number in numbers
