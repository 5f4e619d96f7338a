"""The key index as RocketMQ writes it, one key at a time and by the letter of the format: what ours is compared with.

plain = PlainIndex(slots=5, entries=8)
plain.put(Key(hash=7, physical_offset=100, time_ms=1_700_000_000_000))
plain.files        # the bytes of each file
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

HEADER = struct.Struct(">qqqqii")
ENTRY = struct.Struct(">iqii")
SLOT = struct.Struct(">i")


class Key(NamedTuple):
    hash: int
    physical_offset: int
    time_ms: int


class PlainIndex:
    def __init__(self, slots: int, entries: int, keys: Iterable[Key] = ()) -> None:
        self.slots, self.entries = slots, entries
        self.files: list[bytearray] = []
        for key in keys:
            self.put(key)

    def put(self, key: Key) -> None:
        if not self.files or HEADER.unpack_from(self.files[-1])[5] >= self.entries:
            self._new_file()
        file = self.files[-1]
        begin_ms, _, begin_offset, _, slot_count, number = HEADER.unpack_from(file)
        slot_at = 40 + 4 * (key.hash % self.slots)
        (previous,) = SLOT.unpack_from(file, slot_at)
        if previous <= 0 or previous > number:
            previous = 0
        difference = (key.time_ms - begin_ms) // 1000
        if begin_ms <= 0 or key.time_ms < begin_ms:
            difference = 0
        difference = min(difference, 2**31 - 1)
        entry_at = 40 + 4 * self.slots + 20 * number
        ENTRY.pack_into(file, entry_at, key.hash, key.physical_offset, difference, previous)
        SLOT.pack_into(file, slot_at, number)
        if number <= 1:
            begin_ms, begin_offset = key.time_ms, key.physical_offset
        if previous == 0:
            slot_count += 1
        HEADER.pack_into(file, 0, begin_ms, key.time_ms, begin_offset, key.physical_offset, slot_count, number + 1)

    def _new_file(self) -> None:
        file = bytearray(40 + 4 * self.slots + 20 * self.entries)
        begin = [0, 0, 0, 0]
        if self.files:
            _, end_ms, _, end_offset, _, _ = HEADER.unpack_from(self.files[-1])
            begin = [end_ms, end_ms, end_offset, end_offset]
        HEADER.pack_into(file, 0, *begin, 0, 1)
        self.files.append(file)


def key_entries_of(keys: list[Key]) -> Any:
    """The keys as flightlog takes them."""
    import numpy as np

    from flightlog.index.key.key_entries import KeyEntries

    return KeyEntries(
        np.array([key.hash for key in keys], np.int32),
        np.array([key.physical_offset for key in keys], np.int64),
        np.array([key.time_ms for key in keys], np.int64),
    )


class StillClock:
    """A clock that stands still: names of files come from it, and must differ all the same."""

    def __init__(self, at_ms: int = 1_900_000_000_000) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.at_ms / 1000
