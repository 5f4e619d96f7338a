"""Scan a range of the log for index keys, in log order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...index.dispatch.build_entries import key_entries
from ...index.key.key_entries import KeyEntries
from ...store.log.log_reader import LogReader

MOST_KEPT = 4_000_000
"""Keys kept in memory, 20 bytes each."""


class KeptKeys:
    """Cache of the keys in the log's tail, filled while recovery reads it for the queues, so that the tail is not read
    again for the index. Keeps nothing if there are too many keys."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, start: int) -> None:
        """Clear the cache. The next keys are those of records from physical offset `start` on."""
        self._start, self._count = start, 0
        self._parts: list[KeyEntries] = []

    def keep(self, keys: KeyEntries) -> None:
        """Add the next keys in log order."""
        self._count += len(keys)
        if self._count > MOST_KEPT:
            self._parts = []
        elif len(keys):
            self._parts.append(keys.copy())

    def between(self, reader: LogReader, start: int, stop: int) -> Iterator[KeyEntries]:
        """As `keys_between`, from the cache where possible. `stop` must be the end of the records that were kept."""
        if self._count > MOST_KEPT:
            yield from keys_between(reader, start, stop)
            return
        yield from keys_between(reader, start, self._start)
        for keys in self._parts:
            first = int(np.searchsorted(keys.physical_offset, start))
            if first < len(keys):
                yield keys.part(first, len(keys))


def keys_between(reader: LogReader, start: int, stop: int) -> Iterator[KeyEntries]:
    """The keys of the records that begin in physical [start, stop), one piece of the log at a time.

    `start` must be the start of a record or of a segment. Damaged ranges are skipped.
    """
    for segment, first, last in reader.segments_between(start, stop):
        for scan in reader.scans_past_damage(segment, first, last):
            for piece, rows in scan.ahead():
                keys = key_entries(piece, rows)
                if len(keys.key_hash):
                    yield keys


def first_keyed(reader: LogReader, start: int, stop: int, *, after: int = -1) -> int | None:
    """Physical offset of the first record with a key in [start, stop) that begins after `after`; None without one."""
    for keys in keys_between(reader, start, stop):
        offsets = keys.physical_offset[keys.physical_offset > after]
        if len(offsets):
            return int(offsets[0])
    return None
