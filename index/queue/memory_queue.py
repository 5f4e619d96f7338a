"""The missing end of a consume queue, in memory, on top of the queue on disk: with it a reader sees messages that a
lagging or killed writer never dispatched, without writing."""

from __future__ import annotations

import numpy as np

from .consume_queue import ConsumeQueue
from .queue_extension import QueueExtension
from .queue_layout import QueueLayout
from .queue_unit import FILLER, UNIT_DTYPE, Units, decode_units, search_offset

NO_UNITS: Units = np.empty(0, UNIT_DTYPE)


class MemoryQueue:
    """Entries below `_split` come from disk, the others from memory. 20 bytes a missing entry.

    Invariant: `end` moves after the entries below it can be read.
    """

    def __init__(self, below: ConsumeQueue) -> None:
        self._below = below
        self._split = below.end
        self.seen_last = below.seen_last
        self._tail = NO_UNITS
        self._tail_count = 0
        self.min_index = below.min_index
        self.end = below.end

    @property
    def split(self) -> int:
        """Index below which entries come from disk."""
        return self._split

    @property
    def layout(self) -> QueueLayout:
        """Where those are."""
        return self._below.layout

    def is_over(self, queue: object) -> bool:
        """Whether that is the queue on disk below this one."""
        return self._below is queue

    def skip_removed(self) -> None:
        """Begin behind what the writer has removed of the queue on disk."""
        self._below.forget_removed()
        self.min_index = max(self.min_index, min(self._below.min_index, self.end))

    def set_min_offset(self, min_physical_offset: int) -> None:
        """Skip entries of messages that the log no longer holds."""
        before = -1
        while min_physical_offset > 0 and before < self.min_index < self.end:
            before = self.min_index
            self.min_index = search_offset(self.units, min_physical_offset, before, self.end)
            if not len(self.units(self.min_index, 1)):  # the search may have met a file that the writer removes
                self.skip_removed()

    def truncate(self, end: int) -> None:
        """Forget, in memory only, everything from entry `end` on."""
        self.seen_last = None
        end = max(end, self.min_index)
        if end < self._split:
            self._split, self._tail_count = end, 0
        else:
            self._tail_count = min(self._tail_count, end - self._split)
        self.end = self._split + self._tail_count

    def restart(self) -> None:
        """Drop every entry, in memory only; the next put starts the queue."""
        self.seen_last = None
        self._split = self.min_index = self.end = self._tail_count = 0

    def first_at_or_after(self, physical_offset: int) -> int:
        """Index of the first entry whose record starts at or after `physical_offset`; `end` if none does."""
        return search_offset(self.units, physical_offset, self.min_index, self.end)

    def next_file_index(self, index: int) -> int:
        """Index of the first entry of the file behind the one that `index` belongs to, or would belong to."""
        return self._below.next_file_index(index)

    def units(self, index: int, count: int) -> Units:
        parts: list[Units] = []
        if index < self._split:
            here = min(count, self._split - index)
            parts.append(self._below.units(index, here))
            if len(parts[0]) < here:
                return parts[0]  # a file of the queue has gone
            index += here
            count -= here
        if count > 0 or not parts:
            at = index - self._split
            parts.append(self._tail[at : min(at + count, self._tail_count)])
        return parts[0] if len(parts) == 1 else np.concatenate(parts).astype(UNIT_DTYPE, copy=False)

    def resolved(self, units: Units) -> Units:
        """Entries with tags codes in place of addresses in the extension on disk."""
        return self._below.resolved(units)

    @property
    def extension(self) -> QueueExtension | None:
        return self._below.extension

    def put(self, index: int, units: Units, store_timestamps_ms: object = None) -> None:
        """Set the entries from `index` on, which become the last ones; a hole before them becomes filler."""
        if not len(units):
            return
        self.seen_last = None
        if index < self.min_index or self.end == 0:
            # The first message of this queue that the log still has; perhaps the disk knows of later ones alone.
            self._split = self.min_index = self.end = index
            self._tail_count = 0
        elif index < self.end:
            self.truncate(index)
        if index > self.end:
            self._append(decode_units(FILLER * (index - self.end)))
        self._append(units)

    def _append(self, units: Units) -> None:
        needed = self._tail_count + len(units)
        if needed > len(self._tail):
            grown = np.empty(max(needed, 2 * len(self._tail), 64), UNIT_DTYPE)
            grown[: self._tail_count] = self._tail[: self._tail_count]
            self._tail = grown
        self._tail[self._tail_count : needed] = units
        self._tail_count = needed
        self.end = self._split + needed
