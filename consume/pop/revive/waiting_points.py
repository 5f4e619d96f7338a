"""Check points that were read from a queue of the revive topic and are not worked off yet, in the order of the queue.

A million messages may become visible in one second, each with a check point of its own. As objects these cost 600 bytes
each; here, packed, less than 200: a key and a value of 24 and 12 bytes, two heads of `bytes` and a place in a dict.

    key      names (4)  queue id (4)  start offset (8)  pop time (8)
    value    place in the revive topic (8)  invisible time (4): of one message, at the start offset, without an ack
             or the same (8, 8), acked bits (8)  put count (2)  messages (1)  is uncounted (1), then, unless the
             messages follow each other, the distance of each from the start offset (8)
"""

from __future__ import annotations

import struct
from collections.abc import Container
from itertools import takewhile
from typing import Final

from ..check_point import CheckPoint, CheckPointKey

KEY: Final = struct.Struct("<IIqq")
SHORT: Final = struct.Struct("<qI")
VALUE: Final = struct.Struct("<qqQHB?")
assert (KEY.size, SHORT.size, VALUE.size) == (24, 12, 28)


class PackedKeys:
    """Keys of check points as bytes, equal if the keys are. Not thread-safe."""

    def __init__(self) -> None:
        self._names: list[tuple[str, str, str]] = []
        """Topic, group and broker name: few, in many keys."""
        self._numbers: dict[tuple[str, str, str], int] = {}

    def pack(self, key: CheckPointKey) -> bytes:
        """Raises ValueError for numbers that no check point has."""
        names = key.topic, key.group, key.broker_name
        number = self._numbers.get(names)
        if number is None:
            number = self._numbers[names] = len(self._names)
            self._names.append(names)
        return _packed(KEY, number, key.queue_id, key.start_offset, key.pop_time_ms)

    def unpack(self, packed: bytes) -> CheckPointKey:
        number, queue_id, start_offset, pop_time_ms = KEY.unpack(packed)
        topic, group, broker_name = self._names[number]
        return CheckPointKey(topic, group, queue_id, start_offset, pop_time_ms, broker_name)


class WaitingPoints:
    """The check points of one queue that are not over yet. Not thread-safe."""

    def __init__(self) -> None:
        self._keys = PackedKeys()
        self._values: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._values)

    def add(self, point: CheckPoint) -> None:
        """The last one from now on. If it is there already, what was acknowledged of that stays so. Raises ValueError
        for numbers that no check point has."""
        packed = self._keys.pack(point.key)
        before = self._values.get(packed)
        if before is not None:
            point.note_acked(self._point(packed, before).acked_offsets)
        value = _value_of(point)  # or an error, and nothing is changed
        self._values.pop(packed, None)
        self._values[packed] = value

    def note_acked(self, key: CheckPointKey, offsets: Container[int]) -> None:
        """Nothing happens if the check point is not there. Raises ValueError for numbers that none has."""
        packed = self._keys.pack(key)
        value = self._values.get(packed)
        if value is not None:
            point = self._point(packed, value)
            point.note_acked(offsets)
            self._values[packed] = _value_of(point)

    def visible_before(self, time_ms: int) -> list[bytes]:
        """Names of the first ones, as far as their messages became visible before this time."""
        return [*takewhile(lambda packed: self._revive_ms(packed) < time_ms, self._values)]

    def get(self, packed: bytes) -> CheckPoint:
        return self._point(packed, self._values[packed])

    def remove(self, packed: bytes) -> None:
        del self._values[packed]
        if not self._values:  # a dict keeps the room of what was deleted
            self._keys, self._values = PackedKeys(), {}

    def _revive_ms(self, packed: bytes) -> int:
        value = self._values[packed]
        invisible_ms: int = (SHORT if len(value) == SHORT.size else VALUE).unpack_from(value)[1]
        pop_time_ms: int = KEY.unpack(packed)[3]
        return pop_time_ms + invisible_ms

    def _point(self, packed: bytes, value: bytes) -> CheckPoint:
        key = self._keys.unpack(packed)
        if len(value) == SHORT.size:
            revive_offset, invisible_ms = SHORT.unpack(value)
            return CheckPoint(key, invisible_ms, (key.start_offset,), revive_offset=revive_offset)
        revive_offset, invisible_ms, acked_bits, put_count, count, is_uncounted = VALUE.unpack_from(value)
        distances = struct.unpack_from(f"<{count}q", value, VALUE.size) if len(value) > VALUE.size else range(count)
        offsets = tuple(key.start_offset + distance for distance in distances)
        return CheckPoint(key, invisible_ms, offsets, put_count, revive_offset, acked_bits, is_uncounted)


def _value_of(point: CheckPoint) -> bytes:
    is_alone = point.offsets == (point.key.start_offset,)
    is_plain = is_alone and not (point.acked_bits or point.put_count or point.is_uncounted)
    if is_plain and 0 <= point.invisible_ms < 1 << 32:
        return _packed(SHORT, point.revive_offset, point.invisible_ms)
    distances = [offset - point.key.start_offset for offset in point.offsets]
    numbers = point.revive_offset, point.invisible_ms, point.acked_bits, point.put_count, len(distances)
    value = _packed(VALUE, *numbers, point.is_uncounted)
    if distances == list(range(len(distances))):
        return value
    return value + _packed(struct.Struct(f"<{len(distances)}q"), *distances)


def _packed(layout: struct.Struct, *numbers: int) -> bytes:
    try:
        return layout.pack(*numbers)
    except struct.error as e:
        raise ValueError(f"the numbers {numbers}: {e}") from e
