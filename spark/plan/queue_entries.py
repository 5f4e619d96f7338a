"""The entries of a task's ranges, page by page, in the order of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...index.filter.tag_filter import TagFilter
from ...index.queue.batch_unit import BATCH_UNIT_DTYPE
from ...index.queue.queue_layout import QueueLayout
from ...index.queue.queue_unit import decode_units, filler_mask, valid_mask
from ...store.disk.disk import Disk
from ...store.errors import CorruptQueueError, FileGoneError
from ...store.format.light_queues import EXCLUDED_TOPIC
from ...store.settings import MAX_RECORD_SIZE
from ..options.bounds import REPLACEMENT
from .queue_planning import CarriedBatches, CarriedUnits, QueueRange

PAGE_ENTRIES = 32768
"""Entries that are held, of all ranges together."""
LEAST_PAGE_ENTRIES = 64

Integers = NDArray[np.int64]


class Entries(NamedTuple):
    """Entries that point at records, as columns."""

    physical_offsets: Integers
    sizes: Integers
    queue_offsets: Integers
    owners: Integers
    """The number of each one's range."""

    def part(self, chosen: slice | NDArray[np.bool_] | Integers) -> Entries:
        return Entries(*(column[chosen] for column in self))


class EntryReader:
    """Reads the entries of some ranges together."""

    def __init__(
        self,
        disk: Disk,
        ranges: Sequence[QueueRange],
        on_damage: Callable[[CorruptQueueError], None],
        on_gone: Callable[[Path], None],
        tags: frozenset[str] | None = None,
    ) -> None:
        """Of `tags`, if they are given, only entries whose hash is that of one of them, or is not known. What points at
        no record goes to `on_damage`, a queue file that is not there any more to `on_gone`. Both may raise; else what
        it is about is passed over."""
        self._disk, self._ranges, self._on_damage, self._on_gone = disk, ranges, on_damage, on_gone
        self._tags = None if tags is None or any(REPLACEMENT in tag for tag in tags) else TagFilter(tags, by_code=True)
        self._page = max(PAGE_ENTRIES // max(len(ranges), 1), LEAST_PAGE_ENTRIES)

    def __iter__(self) -> Iterator[Entries]:
        """Pages by ascending physical offset, each entry once."""
        sources = [self._pages(number) for number in range(len(self._ranges))]
        heads: list[Entries | None] = [None] * len(sources)
        while True:
            for number, source in enumerate(sources):
                while (head := heads[number]) is None or not len(head.owners):
                    heads[number] = next(source, None)
                    if heads[number] is None:
                        break
            waiting = [(number, head) for number, head in enumerate(heads) if head is not None]
            if not waiting:
                return
            # Up to here the next entries of every range are known. A queue whose places do not ascend is taken as if.
            keys = {number: np.maximum.accumulate(head.physical_offsets) for number, head in waiting}
            border = min(int(key[-1]) for key in keys.values())
            taken = []
            for number, head in waiting:
                stop = int(np.searchsorted(keys[number], border, side="right"))
                taken.append(head.part(slice(0, stop)))
                heads[number] = head.part(slice(stop, None))
            if len(taken) == 1:
                yield taken[0]
                continue
            page = Entries(*(np.concatenate(columns) for columns in zip(*taken, strict=True)))
            yield page.part(np.argsort(page.physical_offsets, kind="stable"))

    def _pages(self, number: int) -> Iterator[Entries]:
        piece, index = self._ranges[number], self._ranges[number].start
        match piece.entries:
            case CarriedBatches(raw):
                batches = np.frombuffer(raw, BATCH_UNIT_DTYPE)
                for at in range(0, len(batches), self._page):
                    page = batches[at : at + self._page]
                    yield self._entries(number, page, page["base"].astype(np.int64))
            case CarriedUnits(raw):
                units = decode_units(raw)
                for at in range(0, len(units), self._page):
                    page = units[at : at + self._page]
                    yield self._entries(number, page, np.arange(index + at, index + at + len(page)))
            case QueueLayout() as layout:
                yield from self._pages_on_disk(number, layout)

    def _pages_on_disk(self, number: int, layout: QueueLayout) -> Iterator[Entries]:
        piece, index = self._ranges[number], self._ranges[number].start
        while index < piece.stop:
            try:
                units = layout.units(self._disk, index, min(self._page, piece.stop - index))
            except FileGoneError:
                self._on_gone(layout.path(index))
                index = layout.next_file_index(index)
                continue
            if not len(units):
                self._on_damage(CorruptQueueError(layout.path(index), index, "the end of the file", "an entry"))
                index = layout.next_file_index(index)
                continue
            yield self._entries(number, units, np.arange(index, index + len(units)))
            index += len(units)

    def _entries(self, number: int, units: NDArray[np.void], queue_offsets: Integers) -> Entries:
        """Those that can point at a record. Filler stands for none: what it stands in place of was never in this log,
        or is not any more."""
        piece = self._ranges[number]
        physical_offsets, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
        ends = physical_offsets % piece.log.segment_size + sizes
        good = valid_mask(units) & (sizes <= MAX_RECORD_SIZE) & (ends <= piece.log.segment_size)
        for at in np.flatnonzero(~(good | filler_mask(units))).tolist():
            found = f"an entry that points at {sizes[at]} bytes at physical offset {physical_offsets[at]}"
            self._on_damage(
                CorruptQueueError(piece.queue_folder, int(queue_offsets[at]), found, "a record inside one segment")
            )
        # Entries of batches have no hash, and those of delayed messages a time in its place.
        if self._tags is not None and not isinstance(piece.entries, CarriedBatches) and piece.topic != EXCLUDED_TOPIC:
            good &= self._tags.may_match(units)
        owners = np.full(len(units), number, np.int64)
        found_entries = Entries(physical_offsets, sizes, queue_offsets, owners)
        return found_entries if good.all() else found_entries.part(good)
