"""Queries for which the entries of queues are enough: `columns=topic,offset`, and what is counted by them.

A million messages are 20 MB of entries, and as much log as their bodies take. Where nothing is asked but what entries
tell (engine/columns/entry_columns.py), and damage is to fail the query, records are not read: what is damaged there is
not met, as a damaged body is not by a query that does not ask for it.

Not where damage is left out or shown: which rows there are then is decided by every body. Nor in queues whose entries
are not one message each with its own place: light queues and those of inner batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...engine.columns.entry_columns import ENTRY_COLUMNS, EntryColumns
from ...engine.read_only import ReadOnlyStore
from ...index.queue.batch_queue import BatchQueue
from ...store.disk.disk import Disk, DiskFile
from ...store.errors import CorruptQueueError, CorruptRecordError
from ...store.format.light_queues import is_light
from ...store.queue_offsets import QueueKey
from ..options.bounds import REPLACEMENT, Bounds
from ..options.columns import STORE, find_column
from ..options.options import ReadOptions
from ..options.selection import QueueSpans
from ..remote.locations import StoreLocation
from .queue_entries import Entries, EntryReader
from .queue_planning import QueueRange, plan_queues
from .segment_opening import SegmentOpening

COLUMNS = ENTRY_COLUMNS | {STORE.name}
SHARE = 16
"""A task reads so many times fewer bytes of entries than of the log: at 256 MiB, some 840,000 messages."""


def entries_suffice(options: ReadOptions, bounds: Bounds) -> bool:
    """Whether a query of chosen queues can do without their records. `options` name the columns."""
    reads_records = options.on_corrupt != "fail" or options.decompress or not bounds.says_only_places
    return not reads_records and bool(options.columns) and COLUMNS.issuperset(options.columns)


def plan_chosen(
    view: ReadOnlyStore,
    location: StoreLocation,
    spans: QueueSpans,
    options: ReadOptions,
    bounds: Bounds,
    split_bytes: int,
    min_partitions: int,
) -> list[tuple[QueueRange, ...]]:
    """As `plan_queues`, with entries alone where these are enough."""
    alone = {key for key in spans if _stands_for_itself(view, key)} if entries_suffice(options, bounds) else set()
    by_entries = {key: span for key, span in spans.items() if key in alone}
    by_records = {key: span for key, span in spans.items() if key not in alone}
    return [
        *plan_queues(view, location, by_records, split_bytes, min_partitions),
        *plan_queues(
            *(view, location, by_entries, max(options.split_bytes // SHARE, 1), min_partitions), from_entries=True
        ),
    ]


def _stands_for_itself(view: ReadOnlyStore, key: QueueKey) -> bool:
    """Whether each entry of a queue is one message, whose topic, queue id and offset are the queue's."""
    topic, _ = key
    return not (is_light(topic) or REPLACEMENT in topic or isinstance(view.queue_table.get(key), BatchQueue))


class EntryRangeReader:
    """Reads ranges of queues of one store, and of its log nothing: only that the segments are there."""

    def __init__(self, schema: Any, *, fail_on_data_loss: bool = True, disk: Disk | None = None) -> None:
        """As `QueueRangeReader`, of columns of COLUMNS; the first damage raises."""
        self._schema, self._columns = schema, [find_column(name).name for name in schema.names]
        self._fail_on_data_loss, self._given_disk = fail_on_data_loss, disk

    def read(self, ranges: Sequence[QueueRange]) -> Iterator[Any]:
        """The messages of these ranges as RecordBatches of the schema, in the order of the log.

        Raises CorruptQueueError for an entry that points at no record, CorruptRecordError for one into a segment that
        is missing or shorter; DiskError where files are gone or cannot be read.
        """
        if not ranges:
            return
        location, segment_size = ranges[0].location, ranges[0].log.segment_size
        disk = self._given_disk or location.disk()
        topics, queue_ids = pa.array([each.topic for each in ranges]), np.array([each.queue_id for each in ranges])
        segments = SegmentOpening(disk, ranges[0], _raise, fail_on_data_loss=self._fail_on_data_loss)
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
    """The entries whose records' segments are there. Raises CorruptRecordError for one behind a segment's end."""
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
