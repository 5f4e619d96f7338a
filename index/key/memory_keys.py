"""Keys in memory that no index file has: with them a reader finds messages that a lagging or killed writer never
indexed, without writing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .key_entries import KeyEntries

LEAST_CAPACITY = 64
BLOCK = 1 << 16
"""Keys searched per step, the newest first."""
MAX_TIME_S = 0xFFFFFFFF


class _Columns(NamedTuple):
    key_hash: NDArray[np.int32]
    physical_offset: NDArray[np.int64]
    time_s: NDArray[np.uint32]
    used: int = 0
    """Keys that are there; behind them is room."""

    @classmethod
    def empty(cls, capacity: int) -> _Columns:
        return cls(np.empty(capacity, np.int32), np.empty(capacity, np.int64), np.empty(capacity, np.uint32))

    def part(self, first: int, capacity: int) -> _Columns:
        """A copy that begins with key `first` and has room for `capacity` keys."""
        new = self.empty(max(capacity, LEAST_CAPACITY))
        used = self.used - first
        new.key_hash[:used] = self.key_hash[first : self.used]
        new.physical_offset[:used] = self.physical_offset[first : self.used]
        new.time_s[:used] = self.time_s[first : self.used]
        return new._replace(used=used)


class MemoryKeys:
    """16 bytes a key, in the order of the log. One thread at a time may change it; any number may search meanwhile."""

    def __init__(self) -> None:
        self._columns = _Columns.empty(LEAST_CAPACITY)

    def __len__(self) -> int:
        return self._columns.used

    def put(self, keys: KeyEntries) -> None:
        """Append keys of later records."""
        columns = self._columns
        first, stop = columns.used, columns.used + len(keys)
        if stop > len(columns.key_hash):
            columns = columns.part(0, max(stop, 2 * first))
        columns.key_hash[first:stop] = keys.key_hash
        columns.physical_offset[first:stop] = keys.physical_offset
        columns.time_s[first:stop] = np.clip(keys.store_timestamp_ms // 1000, 0, MAX_TIME_S)
        self._columns = columns._replace(used=stop)  # after the keys below it are there

    def candidates(self, key_hash: int, begin_ms: int = 0, end_ms: int | None = None) -> Iterator[int]:
        """Physical offsets of keys with this hash, newest first; their store times are within [begin, end] to the
        second."""
        columns = self._columns
        stop = columns.used
        while stop > 0:
            start = max(0, stop - BLOCK)
            found = np.flatnonzero(columns.key_hash[start:stop] == key_hash)[::-1] + start
            for i in found.tolist():
                if _may_be_within(int(columns.time_s[i]), begin_ms, end_ms):
                    yield int(columns.physical_offset[i])
            stop = start

    def truncate(self, physical_offset: int) -> None:
        """Forget the keys of records at or beyond `physical_offset`."""
        columns = self._columns
        used = int(np.searchsorted(columns.physical_offset[: columns.used], physical_offset))
        if used < columns.used:
            # Into new arrays: a search may still be reading the old ones.
            self._columns = columns._replace(used=used).part(0, used)


def _may_be_within(time_s: int, begin_ms: int, end_ms: int | None) -> bool:
    if time_s in (0, MAX_TIME_S):
        return True  # a time that does not fit
    return (end_ms is None or time_s * 1000 <= end_ms) and time_s * 1000 + 999 >= begin_ms
