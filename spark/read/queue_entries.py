"""Reads the entries of a task's ranges, page by page, in the order of the log; opens the segment files that they point
to; and reads messages from entries alone, without reading the segments."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...engine.columns.entry_columns import EntryColumns
from ...index.filter.tag_filter import TagFilter
from ...index.queue.batch_unit import BATCH_UNIT_DTYPE
from ...index.queue.queue_layout import QueueLayout
from ...index.queue.queue_unit import decode_units, filler_mask, valid_mask
from ...store.disk.disk import Disk, DiskFile
from ...store.errors import CorruptQueueError, CorruptRecordError, FileGoneError
from ...store.format.light_queues import EXCLUDED_TOPIC
from ...store.segments.segment import segment_base, segment_name
from ...store.settings import MAX_RECORD_SIZE
from ..options.bounds import REPLACEMENT
from ..options.read_options import ReadOptions
from ..plan.log_planning import gone
from ..plan.queue_planning import CarriedBatches, CarriedUnits, QueueRange
from ..schema import STORE, find_column

log = logging.getLogger("flightlog.spark")

PAGE_ENTRIES = 32768
"""Entries that a task holds, of all ranges together."""
LEAST_PAGE_ENTRIES = 64

Integers = NDArray[np.int64]


class Entries(NamedTuple):
    """Entries that point to records, as columns."""

    physical_offsets: Integers
    sizes: Integers
    queue_offsets: Integers
    owners: Integers
    """The number of the range of each entry."""

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
        """With `tags`, only entries whose tag hash is that of one of them, or is unknown. `on_damage` is called for an
        entry that points to no record, `on_gone` for a removed queue file. If they do not raise, it is skipped."""
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
            # Up to here the next entries of every range are known. Offsets of a queue are taken as ascending.
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
        """Those that can point to a record. Filler does not: its messages were never in this log, or were removed."""
        piece = self._ranges[number]
        physical_offsets, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
        ends = physical_offsets % piece.log.segment_size + sizes
        good = valid_mask(units) & (sizes <= MAX_RECORD_SIZE) & (ends <= piece.log.segment_size)
        for at in np.flatnonzero(~(good | filler_mask(units))).tolist():
            found = f"an entry that points at {sizes[at]} bytes at physical offset {physical_offsets[at]}"
            self._on_damage(
                CorruptQueueError(piece.queue_folder, int(queue_offsets[at]), found, "a record inside one segment")
            )
        # Entries of batches have no tag hash, and those of delayed messages have a time instead.
        if self._tags is not None and not isinstance(piece.entries, CarriedBatches) and piece.topic != EXCLUDED_TOPIC:
            good &= self._tags.may_match(units)
        owners = np.full(len(units), number, np.int64)
        found_entries = Entries(physical_offsets, sizes, queue_offsets, owners)
        return found_entries if good.all() else found_entries.part(good)


class SegmentOpening:
    """Opens the segment files that the entries of a task point to, one at a time, and handles missing ones."""

    def __init__(
        self, disk: Disk, of: QueueRange, on_damage: Callable[[CorruptRecordError], None], options: ReadOptions
    ) -> None:
        """Opens segments of the log of the range `of`."""
        self._disk, self._of, self._on_damage = disk, of, on_damage
        self._fail_on_data_loss = options.fail_on_data_loss
        self._file: tuple[int, DiskFile | None] | None = None
        """The segment that was opened last, by its base."""

    def open(self, base: int) -> DiskFile | None:
        """The segment that begins at this physical offset; None if it is missing. Valid until the next call.

        A segment that is missing behind others is passed to `on_damage`. One that retention has removed since the query
        began raises FileGoneError, unless failOnDataLoss=false.
        """
        if self._file is None or self._file[0] != base:
            self.close()
            self._file = base, self._find(base)
        return self._file[1]

    def _find(self, base: int) -> DiskFile | None:
        folders = [Path(folder) for folder in self._of.log.folders]
        for folder in folders:
            with suppress(FileNotFoundError):
                return self._disk.open(folder / segment_name(base))
        path, left = folders[0] / segment_name(base), [e.name for each in folders for e in self._disk.list(each)]
        if any((other := segment_base(name)) is not None and other < base for name in left):
            # Retention removes the oldest first.
            self._on_damage(CorruptRecordError(path, base, "no segment", "records"))
        else:
            self.meet_loss(path)
        return None

    def meet_loss(self, path: Path) -> None:
        """Handle a file that was removed since the query was planned."""
        if self._fail_on_data_loss or not self._disk.exists(self._of.location.path):
            raise gone(path)
        log.warning("%s: gone since the query began; what it held is passed over", path, extra={"path": str(path)})

    def close(self) -> None:
        """Close the open segment."""
        file = self._file[1] if self._file is not None else None
        self._file = None
        if file is not None:
            file.close()


class EntryRangeReader:
    """Reads ranges of queues of one store from entries alone. Of the log it only checks that the segments exist."""

    def __init__(self, schema: Any, options: ReadOptions, disk: Disk | None = None) -> None:
        """As `QueueRangeReader`, for columns that entries contain; raises at the first damage."""
        self._schema, self._columns = schema, [find_column(name).name for name in schema.names]
        self._options, self._given_disk = options, disk

    def read(self, ranges: Sequence[QueueRange]) -> Iterator[Any]:
        """The messages of these ranges as RecordBatches of the schema, in the order of the log.

        Raises CorruptQueueError for an entry that points to no record, CorruptRecordError for one into a segment that
        is missing or shorter; DiskError if files are gone or unreadable.
        """
        if not ranges:
            return
        location, segment_size = ranges[0].location, ranges[0].log.segment_size
        disk = self._given_disk or location.disk()
        topics, queue_ids = pa.array([each.topic for each in ranges]), np.array([each.queue_id for each in ranges])
        segments = SegmentOpening(disk, ranges[0], _raise, self._options)
        present: dict[int, bool] = {}
        try:
            for found in EntryReader(disk, ranges, _raise, segments.meet_loss):
                entries = _in_segments(found, segment_size, segments, present)
                columns = EntryColumns(
                    topics.take(pa.array(entries.owners)),
                    queue_ids[entries.owners],
                    entries.queue_offsets,
                    *entries[:2],
                )
                arrays = [
                    pa.repeat(location.name, len(entries.sizes)) if name == STORE.name else columns.column(name)
                    for name in self._columns
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        finally:
            segments.close()


def _raise(damage: CorruptQueueError | CorruptRecordError) -> None:
    raise damage


def _in_segments(entries: Entries, segment_size: int, segments: SegmentOpening, present: dict[int, bool]) -> Entries:
    """The entries whose segments exist. Raises CorruptRecordError for one behind a segment's end."""
    positions = entries.physical_offsets % segment_size
    bases = entries.physical_offsets - positions
    if not len(bases):
        return entries
    for base in np.unique(bases).tolist():
        file: DiskFile | None = None
        if base not in present or present[base]:
            file = segments.open(base)
            present[base] = file is not None
        if file is None:
            continue
        inside = bases == base
        size, needed = file.size(), int((positions + entries.sizes)[inside].max())
        if needed > size:
            found = f"the end of the file at {size}, and a queue entry that leads to {needed}"
            raise CorruptRecordError(Path(file.path), base + size, found, "a record")
    if all(present.values()):
        return entries
    return entries.part(np.isin(bases, [base for base, is_there in present.items() if is_there]))
