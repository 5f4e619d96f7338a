"""The fast path in Python; see fast_path_protocol.py.

Records of one shape, that is with a body, a topic and properties of the same sizes, have their fields at the same
places: one `Struct` packs all but the first 8 bytes of such a record, and these are the same in all of them. They are
written last, so that a record that is not whole never looks like one.

    size, magic │ body CRC … born time, born host … body size, body, topic length, topic, properties length, properties
    head        │ Struct of the shape
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ..format.frame import MAGIC_V1, MAGIC_V2
from .fast_path_protocol import APPEND
from .pure_encode import HOST_BITS, PACK_HEAD, PACK_PROPERTIES_SIZE, PACK_TOPIC_SIZE, PROPERTIES_MAX_SIZE
from .pure_frame import AFTER_STORE_HOST

if TYPE_CHECKING:
    import threading

    from ..message import Message
    from ..results import PutResult

BLANK_SIZE: Final = 8
FAST_PATH_BODY_BELOW: Final = 64 << 10
FAST_PATH_QUEUES_MAX: Final = 1 << 16
TIMED_MASK: Final = 16 - 1
PUT_MANY_SIZE: Final = 256 << 10
"""Bytes that a put of many writes under one hold of the lock: others are to have their turn."""
SHAPES_MAX: Final = 1024
"""A shape takes about a kibibyte; to make one takes about as long as a quarter of a put."""
PACK_HEAD_SIZE: Final = 8
ZERO: Final = 0
"""Small integers are single objects: whether a field has its default is one comparison of pointers."""
INT32: Final = range(-1 << 31, 1 << 31)
INT64: Final = range(-(1 << 63) + 1, 1 << 63)

Shape = tuple[Callable[..., None], bytes, int, bytes, bytes]
"""What packs a record behind its first 8 bytes; these; its size with them; what stands before the body from the store
host on, with zeros for numbers; what stands between body and properties."""
Prepared = tuple[str, int, bytes, bytes, int, int | None, bytes, Shape]
"""Topic, queue id, body, properties, flag, born time, what stands before the body from the store host on, shape."""

PACK_AFTER_STORE_HOST: Final = AFTER_STORE_HOST.pack
crc32, time_ns, monotonic_ns, new_tuple = zlib.crc32, time.time_ns, time.monotonic_ns, tuple.__new__


class FastPath:
    """See FastPathProtocol."""

    def __init__(
        self,
        blockers: dict[str, Any],
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
        sys_flag = HOST_BITS if len(store_host) > 8 else 0
        self._constants = blockers, offsets, lock, clock, store_host, sys_flag, publish, result_type, status
        self._blockers, self._message_type, self._special_names = blockers, message_type, special_names
        self._store_host, self._max_body_size = store_host, min(max_body_size, FAST_PATH_BODY_BELOW - 1)
        self._topics: dict[str, tuple[bytes, int, int]] = {}
        """The topic with its length, as in a record; how many queues; magic."""
        self._shapes: dict[tuple[int, bytes, int], Shape] = {}
        """By size of the body, topic with its length, size of the properties."""
        self._mapping: Any = None
        self._base = self._limit = 0
        self.end = self.last_store_timestamp_ms = self.taken = self._taken_elsewhere = 0
        self.is_armed = True
        self.notify: Callable[[], object] | None = None
        self.note: Callable[[float], object] | None = None

    @property
    def appended_records(self) -> int:
        return self.taken + self._taken_elsewhere

    @appended_records.setter
    def appended_records(self, count: int) -> None:
        self._taken_elsewhere = count - self.taken

    # -- one put

    def put(self, message: Message, /) -> PutResult | None:
        began_ns = monotonic_ns() if self.taken & TIMED_MASK == TIMED_MASK else 0
        blockers, offsets, lock, clock, host, sys_flag, publish, result_type, status = self._constants
        if blockers or (prepared := self._prepare(message)) is None:
            return None
        topic, queue_id, body, raw, flag, born_ms, before_body, (pack_into, head, size, _, behind_body) = prepared
        key = topic, queue_id
        crc = crc32(body) & 0x7FFFFFFF
        with lock:
            start = self.end
            stop = start + size
            position = start - self._base
            if blockers or position < 0 or stop > self._limit:
                return None
            now_ms = time_ns() // 1_000_000 if clock is None else clock()
            if now_ms < self.last_store_timestamp_ms:
                now_ms = self.last_store_timestamp_ms
            queue_offset = offsets.get(key, 0)
            next_offset = queue_offset + 1
            mapping = self._mapping
            blockers[APPEND] = start, stop, ((key, next_offset),)
            pack_into(
                mapping,
                position + PACK_HEAD_SIZE,
                crc,
                queue_id,
                flag,
                queue_offset,
                start,
                sys_flag,
                now_ms if born_ms is None else born_ms,
                host,
                now_ms,
                before_body,
                body,
                behind_body,
                raw,
            )
            mapping[position : position + PACK_HEAD_SIZE] = head
            self.last_store_timestamp_ms = now_ms
            self.end = stop  # the commit point
            offsets[key] = next_offset
            self.taken += 1
            publish(stop)
            del blockers[APPEND]
        if self.is_armed:
            self._notify()
        if began_ns and self.note is not None:
            self.note((monotonic_ns() - began_ns) / 1e6)
        return new_tuple(result_type, (status, topic, queue_id, queue_offset, start, size, now_ms, host))

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
                or message.delay_level is not ZERO
            ):
                return None
            topic, body, queue_id, flag = message.topic, message.body, message.queue_id, message.flag
            keys, tags, properties, uniq_key = message.keys, message.tags, message.properties, message.uniq_key
            reconsume_times, prepared_offset = message.reconsume_times, message.prepared_transaction_offset
            born_ms = message.born_timestamp_ms
        except AttributeError:
            return None  # a field was deleted
        if type(topic) is not str or type(body) is not bytes or type(queue_id) is not int:
            return None
        if (known := self._topics.get(topic)) is None:
            return None
        topic_raw, queue_count, magic = known
        if not 0 <= queue_id < queue_count:
            return None
        if properties is None and uniq_key is None and type(keys) is type(tags) is str and keys and tags:
            if " " in keys or "\x01" in keys or "\x02" in keys or "\x01" in tags or "\x02" in tags:
                return None
            text = f"KEYS\x01{keys}\x02TAGS\x01{tags}\x02"
            if "\0" in text:
                return None
        elif (found := self._text(properties, keys, tags, uniq_key)) is not None:
            text = found
        else:
            return None
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            return None
        shape = self._shapes.get((len(body), topic_raw, len(raw)))
        if shape is None and (shape := self._make_shape(len(body), topic_raw, magic, len(raw))) is None:
            return None
        before_body = shape[3]
        if flag is not ZERO or reconsume_times is not ZERO or prepared_offset is not ZERO or born_ms is not None:
            if not _are_in_range(flag, reconsume_times, prepared_offset, born_ms):
                return None
            before_body = self._before_body(reconsume_times, prepared_offset, len(body))
        return topic, queue_id, body, raw, flag, born_ms, before_body, shape

    def _make_shape(self, body_size: int, topic_raw: bytes, magic: int, raw_size: int) -> Shape | None:
        """The shape of a record, to be found again; None if a body or properties of these sizes are not ordinary."""
        if body_size > self._max_body_size or raw_size > PROPERTIES_MAX_SIZE:
            return None
        before_body, behind_body = self._before_body(0, 0, body_size), topic_raw + PACK_PROPERTIES_SIZE(raw_size)
        packed = struct.Struct(
            f">iiiqqiq{len(self._store_host)}sq{len(before_body)}s{body_size}s{len(behind_body)}s{raw_size}s"
        )
        size = PACK_HEAD_SIZE + packed.size
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        made = packed.pack_into, PACK_HEAD(size, magic), size, before_body, behind_body
        self._shapes[body_size, topic_raw, raw_size] = made
        return made

    def _before_body(self, reconsume_times: int, prepared_offset: int, body_size: int) -> bytes:
        return self._store_host + PACK_AFTER_STORE_HOST(reconsume_times, prepared_offset, body_size)

    def _text(self, properties: Any, keys: Any, tags: Any, uniq_key: Any) -> str | None:
        """All properties as one text; None if they are not ordinary."""
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
        # A separator inside a name or a value makes the counts differ.
        return text if text.count("\x01") == text.count("\x02") == count and "\0" not in text else None

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

    def _notify(self) -> None:
        self.is_armed = False
        if self.notify is not None:
            try:  # noqa: SIM105 (an interrupt could come inside contextlib.suppress, before the notify)
                self.notify()
            except RuntimeError:
                pass  # notified already

    # -- many

    def put_many(self, messages: tuple[Message, ...], first: int, /) -> list[PutResult] | None:
        if first == 0 and messages and not self._are_ordinary(messages):
            return None
        return self._write(self._ordinary(messages, first, PUT_MANY_SIZE))

    def _are_ordinary(self, messages: tuple[Message, ...]) -> bool:
        if self._blockers or self._mapping is None:
            return False
        longest = len(self._mapping) - BLANK_SIZE
        prepared = map(self._prepare, messages)
        return all(one is not None and one[-1][2] <= longest for one in prepared)

    def _ordinary(self, messages: tuple[Message, ...], first: int, size: int) -> list[tuple[Prepared, int]]:
        """Messages from `first` on with the CRC of their bodies: about as many bytes of records, as far as they are
        ordinary."""
        ordinary: list[tuple[Prepared, int]] = []
        total = 0
        if not self._blockers:
            for place in range(first, len(messages)):
                if total >= size or (prepared := self._prepare(messages[place])) is None:
                    break
                ordinary.append((prepared, crc32(prepared[2]) & 0x7FFFFFFF))
                total += prepared[-1][2]
        return ordinary

    def _write(self, ordinary: list[tuple[Prepared, int]]) -> list[PutResult]:
        """Append as many of them as there is room for. Their results."""
        blockers, offsets, lock, clock, host, sys_flag, publish, result_type, status = self._constants
        total = sum([prepared[-1][2] for prepared, _ in ordinary])
        made: list[Any] = []
        with lock:
            start = self.end
            while ordinary and start + total > self._limit:
                total -= ordinary.pop()[0][-1][2]
            if not ordinary or blockers or start < self._base:
                return []
            now_ms = time_ns() // 1_000_000 if clock is None else clock()
            if now_ms < self.last_store_timestamp_ms:
                now_ms = self.last_store_timestamp_ms
            base, mapping, advanced, at = self._base, self._mapping, dict[tuple[str, int], int](), start
            blockers[APPEND] = start, start + total, advanced  # all of them, or none
            for (topic, queue_id, body, raw, flag, born_ms, before_body, shape), crc in ordinary:
                pack_into, head, size, _, behind_body = shape
                key = topic, queue_id
                queue_offset = advanced.get(key)
                if queue_offset is None:
                    queue_offset = offsets.get(key, 0)
                advanced[key] = queue_offset + 1
                position = at - base
                born_ms = now_ms if born_ms is None else born_ms
                pack_into(
                    *(mapping, position + PACK_HEAD_SIZE, crc, queue_id, flag, queue_offset, at, sys_flag),
                    *(born_ms, host, now_ms, before_body, body, behind_body, raw),
                )
                mapping[position : position + PACK_HEAD_SIZE] = head
                made.append(new_tuple(result_type, (status, topic, queue_id, queue_offset, at, size, now_ms, host)))
                at += size
            self.last_store_timestamp_ms = now_ms
            self.end = at  # the commit point
            offsets.update(advanced)
            self.taken += len(made)
            publish(at)
            del blockers[APPEND]
        if self.is_armed:
            self._notify()
        return made

    # -- what the commit log does

    def open(self, mapping: Any, base: int, allocated: int, /) -> None:
        if base < 0 or not 0 <= allocated <= len(mapping):
            raise ValueError("base and allocated must lie in the segment")
        self._mapping, self._base, self._limit = mapping, base, base + allocated - BLANK_SIZE

    def close(self) -> None:
        self._mapping = None
        self._base = self._limit = 0
        blockers, offsets, lock, clock, host, sys_flag, _, result_type, status = self._constants
        publish = _nothing_to_publish_to
        self._constants = blockers, offsets, lock, clock, host, sys_flag, publish, result_type, status

    def write_back_offsets(self) -> None:
        pass  # the reference counts in the dict itself

    def register_topic(self, topic: str, raw: bytes, queue_count: int, /) -> None:
        magic = MAGIC_V1 if len(raw) <= 127 else MAGIC_V2
        topic_raw = PACK_TOPIC_SIZE[magic](len(raw)) + raw
        self._topics[topic] = topic_raw, min(queue_count, FAST_PATH_QUEUES_MAX), magic

    def unregister_topic(self, topic: str, /) -> None:
        self._topics.pop(topic, None)


def _nothing_to_publish_to(end: int) -> None:
    """Of a fast path that is closed: what it published to holds a file open."""


def _are_in_range(flag: object, reconsume_times: object, prepared_offset: object, born_timestamp_ms: object) -> bool:
    return (
        _is_in(flag, INT32)
        and _is_in(reconsume_times, INT32)
        and _is_in(prepared_offset, INT64)
        and (born_timestamp_ms is None or _is_in(born_timestamp_ms, INT64))
    )


def _is_in(number: object, numbers: range) -> bool:
    return type(number) is int and number in numbers
