"""Records to be appended, as columns.

All of them have one topic, no transaction and the hosts of the store; `engine/columns/` makes them from what is given.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import native
from ..format.record import PreparedRecord
from ..queue_offsets import QueueKey, QueueOffsets
from ..results import AppendResult, PutResult, PutStatus
from ..segments.segment import AppendSegment

Integers = NDArray[np.int64]

COUNTED_QUEUES = 4096
"""Below this counting all rows of each queue is quicker than sorting them."""
FEW_QUEUES = 64
"""So many are looked up at every hold of the append lock, though it may have rows of few of them."""


class ColumnRecords:
    """Checked rows. Rows below `done` are in the log; the other attributes tell where, up to there."""

    def __init__(
        self,
        template: PreparedRecord,
        queue_ids: NDArray[np.int32],
        flags: NDArray[np.int32],
        born_timestamps_ms: Integers,
        has_born: NDArray[np.bool_],
        bodies: tuple[NDArray[np.uint8], Integers, Integers],
        properties: tuple[NDArray[np.uint8], Integers, Integers],
    ) -> None:
        """`template` is the record of a message without body and properties. `bodies` and `properties` are data, starts
        and sizes."""
        self.template = template
        self.queue_ids, self.flags = queue_ids, flags
        self._born_timestamps_ms, self.has_born = born_timestamps_ms, has_born
        self._has_all_born = bool(has_born.all())
        self.bodies, self.properties = bodies, properties
        self.sizes: Integers = bodies[2] + properties[2] + template.size
        self._ends: Integers = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes)])
        count = len(self.sizes)
        self._queues = _distinct(queue_ids)
        self.queue_offsets = np.empty(count, np.int64)
        self.physical_offsets = np.empty(count, np.int64)
        self.store_timestamps_ms = np.empty(count, np.int64)
        self.done = 0

    def __len__(self) -> int:
        return len(self.sizes)

    def born_timestamps_ms(self, now_ms: int, rows: slice) -> Integers:
        born = self._born_timestamps_ms[rows]
        return born if self._has_all_born else np.where(self.has_born[rows], born, now_ms)

    def size_of(self, first: int, stop: int) -> int:
        return int(self._ends[stop] - self._ends[first])

    def fitting(self, first: int, size: int) -> int:
        """The row behind the last one, from `first` on, that ends within `size` bytes."""
        return int(np.searchsorted(self._ends, self._ends[first] + max(size, 0), side="right")) - 1

    def place(self, first: int, stop: int, start: int, now_ms: int, known: QueueOffsets) -> dict[QueueKey, int]:
        """Note where rows [first, stop) go; returns the queue offsets that come next."""
        rows = slice(first, stop)
        queues = self._queues if len(self._queues) <= FEW_QUEUES else _distinct(self.queue_ids[rows])
        keys = [(self.template.topic, queue_id) for queue_id in queues.tolist()]
        before = np.array([known.get(key, 0) for key in keys], np.int64)
        behind = before.copy()
        native.number_rows(self.queue_ids[rows], queues, behind, self.queue_offsets[rows])
        np.add(self._ends[first:stop], start - int(self._ends[first]), out=self.physical_offsets[rows])
        self.store_timestamps_ms[rows] = now_ms
        changed = zip(keys, behind.tolist(), (behind != before).tolist(), strict=True)
        return {key: offset for key, offset, has_rows in changed if has_rows}

    def encode(self, segment: AppendSegment, first: int, stop: int) -> None:
        """Write rows [first, stop) to their places, which lie behind each other in this segment."""
        position = int(self.physical_offsets[first]) - segment.base
        if segment.maps_appends:
            self.encode_into(segment.append_mapping(), position, first, stop)
            return
        aside = bytearray(self.size_of(first, stop))
        self.encode_into(aside, 0, first, stop)
        segment.store(position, aside)

    def encode_into(self, buffer: mmap.mmap | bytearray, position: int, first: int, stop: int) -> None:
        """The same into any memory, from this position on."""
        template, rows = self.template, slice(first, stop)
        start, now_ms = int(self.physical_offsets[first]), int(self.store_timestamps_ms[first])
        (bodies, body_starts, body_sizes), (texts, text_starts, text_sizes) = self.bodies, self.properties
        native.encode_columns(
            buffer,
            position,
            template.magic,
            template.sys_flag,
            start,
            now_ms,
            template.born_host,
            template.store_host,
            template.topic_raw,
            self.queue_ids[rows],
            self.flags[rows],
            self.queue_offsets[rows],
            self.born_timestamps_ms(now_ms, rows),
            bodies,
            body_starts[rows],
            body_sizes[rows],
            texts,
            text_starts[rows],
            text_sizes[rows],
        )


def _distinct(queue_ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """The queues that are there, ascending."""
    if queue_ids.max(initial=0) >= COUNTED_QUEUES:
        return np.unique(queue_ids)
    return np.flatnonzero(np.bincount(queue_ids)).astype(np.int32)


def result_of(parts: Sequence[ColumnRecords], topic: str, status: PutStatus) -> AppendResult:
    """Where the rows that are done went."""

    def joined(name: str, kind: Any = np.int64) -> NDArray[Any]:
        found = [getattr(part, name)[: part.done] for part in parts]
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, kind), *found])

    return AppendResult(
        status,
        topic,
        joined("queue_ids", np.int32),
        joined("queue_offsets"),
        joined("physical_offsets"),
        joined("sizes"),
        joined("store_timestamps_ms"),
    )


def result_of_puts(topic: str, results: Sequence[PutResult]) -> AppendResult:
    """The same of rows that were put as messages."""
    numbers = np.array([result[2:7] for result in results], np.int64).reshape(-1, 5)
    queue_ids, queue_offsets, physical_offsets, sizes, store_timestamps_ms = numbers.T.copy()
    late = any(result.status is not PutStatus.PUT_OK for result in results)
    status = PutStatus.FLUSH_DISK_TIMEOUT if late else PutStatus.PUT_OK
    return AppendResult(
        status, topic, queue_ids.astype(np.int32), queue_offsets, physical_offsets, sizes, store_timestamps_ms
    )
