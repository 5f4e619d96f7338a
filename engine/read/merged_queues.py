"""The entries of all queues of a topic, merged into the order of the log.

Entries tell where their records are, so the order is known before a record is read, and the records are then read in
the order in which they lie in memory.

Invariants:
- Below the end that a round is given, every record is in its queue. So what a round yields comes before everything that
  a later one yields, also while a writer appends.
- The entries of one queue keep their order. An entry that refers to no place in the log is yielded where the one before
  it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...index.filter.wanted import MessageFilter
from ...index.queue.queue_table import Queue, QueueTable
from ...index.queue.queue_unit import UNIT_DTYPE, UNIT_SIZE, Units, valid_mask
from ...store.queue_offsets import QueueKey
from .entries import QueueEntries, may_match_mask
from .entry_pages import EntryPages

FIRST_PAGE_ENTRIES: Final = 32
PAGE_ENTRIES: Final = 2048
"""Entries of each queue that are merged at a time, at first and later."""
_BYTES: Final = np.dtype(f"V{UNIT_SIZE}")
MERGED_ENTRIES: Final = 1 << 16
"""Entries that are merged at a time at most, unless there are more queues than `FIRST_PAGE_ENTRIES` allow."""


class _MergedQueue:
    """One queue: the entries that are loaded and not merged yet, and where each belongs in the log."""

    def __init__(self, pages: EntryPages) -> None:
        self.pages = pages
        self.units: Units = np.empty(0, UNIT_DTYPE)
        self.queue_offsets: NDArray[np.int64] = np.empty(0, np.int64)
        self.places: NDArray[np.int64] = self.queue_offsets
        """Physical offsets; they never decrease."""
        self._place = 0
        self.has_more = True
        """Whether more entries of this round may follow those that are loaded."""

    def load(self, count: int, end: int, readable_end: Callable[[], int]) -> None:
        """Have about `count` entries loaded if there are as many before the first of a record at or behind `end`."""
        if 2 * len(self.places) >= count or not self.has_more:
            return
        found = self.pages.next(count)
        if found is None:
            self.has_more = False
            return
        units, queue_offsets = found
        places = units["physical_offset"].astype(np.int64)
        self.has_more = not self.pages.is_at_end
        if not (self._place <= places[0] and places[-1] < end and (places[:-1] <= places[1:]).all()):
            # An entry that was read before the end of the log is either of a record below that end or damaged.
            is_sound = valid_mask(units) & (places < readable_end())
            is_late = is_sound & (places >= end)
            if is_late.any():
                stop = int(is_late.argmax())
                self.has_more, self.pages.index = False, int(queue_offsets[stop])
                units, queue_offsets = units[:stop], queue_offsets[:stop]
                places, is_sound = places[:stop], is_sound[:stop]
            places = np.maximum(np.maximum.accumulate(np.where(is_sound, places, 0)), self._place)
        if len(places):
            self._place = int(places[-1])
        self.units = _joined((self.units, units))
        self.queue_offsets = np.concatenate((self.queue_offsets, queue_offsets))
        self.places = np.concatenate((self.places, places))

    def take(self, horizon: int | None, wanted: MessageFilter | None) -> tuple[Units, Any, Any, Any]:
        """Units, queue offsets, queue ids and places of the loaded entries that may match, up to this physical offset
        (None: all)."""
        stop = len(self.places) if horizon is None else int(np.searchsorted(self.places, horizon, side="right"))
        units, queue_offsets, places = self.units[:stop], self.queue_offsets[:stop], self.places[:stop]
        self.units, self.queue_offsets, self.places = (
            each[stop:] for each in (self.units, self.queue_offsets, self.places)
        )
        if wanted is not None and stop:
            mask = may_match_mask(self.pages.queue, units, wanted)
            units, queue_offsets, places = units[mask], queue_offsets[mask], places[mask]
        ids = np.full(len(places), self.pages.key[1], np.int32)
        return units, queue_offsets, ids, places


class MergedQueues:
    """The queues of one topic as one. For one thread at a time."""

    def __init__(
        self,
        table: QueueTable,
        topic: str,
        entries_of: Callable[[QueueKey, Queue], EntryPages],
        readable_end: Callable[[], int],
    ) -> None:
        """`entries_of` returns the entries of a queue that are to be read, `readable_end` the physical offset up to
        which the log may be read now."""
        self._table, self._topic, self._entries_of, self._readable_end = table, topic, entries_of, readable_end
        self._merged: dict[int, _MergedQueue] = {}

    @property
    def queues(self) -> list[Queue]:
        return [queue.pages.queue for queue in self._merged.values()]

    def look(self) -> bool:
        """Find queues that came since the last look. False: the topic was deleted meanwhile."""
        if not all(queue.pages.follow(self._table) for queue in self._merged.values()):
            return False
        for key, queue in self._table.items():
            if key[0] == self._topic and key[1] not in self._merged:
                self._merged[key[1]] = _MergedQueue(self._entries_of(key, queue))
        return True

    def round(self, end: int, wanted: MessageFilter | None) -> Iterator[tuple[int, QueueEntries]]:
        """The next entries of records below physical offset `end`, without those that cannot match, a page at a time.
        With each page comes the physical offset that it and all later ones are at or behind. Below `end` every record
        is in its queue. Raises CorruptQueueError as `EntryPages.next`."""
        queues = list(self._merged.values())
        for queue in queues:
            queue.has_more = True
        page = FIRST_PAGE_ENTRIES
        most = max(FIRST_PAGE_ENTRIES, min(PAGE_ENTRIES, MERGED_ENTRIES // max(1, len(queues))))
        while True:
            for queue in queues:
                queue.load(page, end, self._readable_end)
            queues = [queue for queue in queues if len(queue.places)]
            if not queues:
                return
            # Behind the last loaded entry of a queue that has more, its next one may come before those of others.
            horizon = min((int(queue.places[-1]) for queue in queues if queue.has_more), default=None)
            parts = [queue.take(horizon, wanted) for queue in queues]
            order = np.argsort(np.concatenate([places for *_, places in parts]), kind="stable")
            if len(order):
                units = _joined([part[0] for part in parts]).take(order)
                queue_offsets, ids, places = (
                    np.concatenate([part[column] for part in parts]).take(order) for column in (1, 2, 3)
                )
                yield int(places[0]), QueueEntries(units, queue_offsets, ids)
            page = min(4 * page, most)


def _joined(parts: Sequence[Units]) -> Units:
    """These entries one behind the other; as plain bytes, which takes a fiftieth of the time."""
    return np.concatenate([part.view(_BYTES) for part in parts]).view(UNIT_DTYPE)
