"""The rows of `table=queues`: what a store's queues say of themselves, without a look at the messages between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ...engine.read_only import ReadOnlyStore
from ...engine.topics.offset_table import Offsets, read_offsets
from ...index.queue.batch_queue import BatchQueue
from ...index.queue.queue_table import Queue
from ...index.queue.queue_unit import QueueUnit, valid_mask
from ...store.errors import CorruptRecordError
from ...store.queue_offsets import QueueKey
from ..options.read_options import ReadOptions
from ..options.stores import StoreLocation

PAGE_ENTRIES = 1 << 18
"""Entries that are read at a time for their sizes."""


def queue_batch(location: StoreLocation, names: list[str], schema: Any, options: ReadOptions) -> Any:
    """The queues of one store as a RecordBatch of this Arrow schema, by topic and queue id. `names` are the columns'.

    Raises StoreNotFoundError, ConfigFileError for consumer offsets that cannot be read, DiskError.
    """
    disk = location.disk()
    with location.open() as view:
        offsets = read_offsets(disk, location.path) if "groupLag" in names else {}
        rows = [
            [_value(name, view, key, queue, location, offsets) for name in names]
            for key, queue in view.queue_table.items()
            if options.takes(key)
        ]
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _value(
    name: str,
    view: ReadOnlyStore,
    key: QueueKey,
    queue: Queue,
    location: StoreLocation,
    offsets: dict[str, dict[str, Offsets]],
) -> Any:
    first, end = queue.min_index, queue.end
    match name:
        case "topic":
            return key[0].encode("utf-8", "replace").decode()
        case "partition":
            return key[1]
        case "firstOffset":
            return first if first < end else None
        case "lastOffset":
            return end - 1 if first < end else None
        case "firstTimestamp":
            return _stored_us(view, queue, first)
        case "lastTimestamp":
            return _stored_us(view, queue, end - 1)
        case "count":
            return end - first
        case "bytes":
            return sum(_sizes(queue))
        case "groupLag":
            return [(group, lag) for group, topics in sorted(offsets.items()) for lag in _lags(topics, key, first, end)]
    assert name == "store"
    return location.name


def _lags(topics: dict[str, Offsets], key: QueueKey, first: int, end: int) -> Iterator[int]:
    """How many messages lie behind a group's offset; none if it has no offset in this topic. In a queue without one it
    begins at the first message."""
    if key[0] in topics:
        yield end - min(max(topics[key[0]].get(key[1], first), first), end)


def _stored_us(view: ReadOnlyStore, queue: Queue, index: int) -> int | None:
    """The store time of a message, in us; None where there is none, or it is damaged."""
    if not queue.min_index <= index < queue.end:
        return None
    units = queue.units(index, 1)
    if not len(units):
        return None
    unit = QueueUnit(*units[0].item())
    try:
        return view.log_reader.store_timestamp_ms_at(unit.physical_offset, unit.size) * 1000 if unit.is_valid else None
    except CorruptRecordError:
        return None


def _sizes(queue: Queue) -> Iterator[int]:
    """Bytes of the records of a queue, in parts. An inner batch is one record, which several entries stand for."""
    index, last = queue.min_index, -1
    while index < queue.end:
        units = queue.units(index, min(PAGE_ENTRIES, queue.end - index))
        if not len(units):
            index = queue.next_file_index(index)
            continue
        index += len(units)
        sizes = np.ascontiguousarray(units["size"]).astype(np.int64)
        if not (sizes > 0).all() or units["physical_offset"][0] == 0:
            sizes = np.where(valid_mask(units), sizes, 0)
        if isinstance(queue, BatchQueue):
            places = units["physical_offset"].astype(np.int64)
            sizes = sizes[np.diff(places, prepend=last) != 0]
            last = int(places[-1])
        yield int(sizes.sum())
