"""A stretch of a queue as one Arrow record batch: the messages that `read` gives, without an object for each.

Records that check and are what their entries say are looked at all at once by the kernel. Whatever else turns up goes
the way of `read`, one by one: what that makes of it is what counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...index.queue_table import Queue
from ...index.queue_unit import QueueUnit, Units, valid_mask
from ...store import native
from ...store.errors import CorruptQueueError, CorruptRecordError, UsageError
from ...store.frame import FRAME_DTYPE, Rows
from ...store.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ...store.segment import Segment
from ...store.sys_flag import INNER_BATCH
from ..entries import message_of, missing_file
from .gathering import bytes_of, gather
from .message_columns import MessageColumns
from .schema import BY_LOWER_NAME, batch_schema

NEXT_QUEUE_OFFSET = "nextQueueOffset"
"""In the metadata of a batch's schema: where to go on. (The column `offset` says what the record says: in a light
message queue that is its place in another topic's queue.)"""

PAGE_ENTRIES = 16_384
"""Entries that are looked at at once."""


Damage = CorruptRecordError | CorruptQueueError


def empty_batch(columns: Sequence[str] | None, next_queue_offset: int = 0) -> Any:
    """A batch without rows."""
    schema = _with_next(batch_schema(columns), next_queue_offset)
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _with_next(schema: Any, next_queue_offset: int) -> Any:
    return schema.with_metadata({NEXT_QUEUE_OFFSET: str(next_queue_offset)})


class BatchReader:
    """Reads one batch. `skipped` counts what `on_corrupt="skip"` has left out."""

    def __init__(
        self, reader: LogReader, key: QueueKey, queue: Queue, max_count: int, max_size: int, skips: bool
    ) -> None:
        """`max_size` is in bytes of records; one message comes however large it is."""
        self._reader, self._key, self._queue, self._skips = reader, key, queue, skips
        self._max_count, self._max_size = max_count, max_size
        self._topic_raw = np.frombuffer(key[0].encode("utf-8", "surrogatepass"), np.uint8)
        self.skipped = 0
        self.next_queue_offset = 0

    def read(self, queue_offset: int | None, columns: Sequence[str] | None) -> Any:
        """The batch. Raises the first damage unless messages came before it, or it is to be skipped."""
        schema = batch_schema(columns)
        names = [BY_LOWER_NAME[name.lower()].name for name in schema.names]
        parts: list[list[Any]] = []
        for view, rows in self._pieces(queue_offset):
            messages = MessageColumns(view, rows, None)
            parts.append([messages.column(name) for name in names])
        if not parts:
            return empty_batch(columns, self.next_queue_offset)
        schema = _with_next(schema, self.next_queue_offset)
        arrays = parts[0] if len(parts) == 1 else [pa.concat_arrays(column) for column in zip(*parts, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _pieces(self, queue_offset: int | None) -> Iterator[tuple[memoryview, Rows]]:
        queue, count_left, size_left = self._queue, self._max_count, self._max_size
        index = queue.min_index if queue_offset is None else max(queue_offset, queue.min_index)
        self.next_queue_offset = index
        is_first = True
        while index < queue.end and count_left > 0:
            units = queue.units(index, min(count_left, queue.end - index, PAGE_ENTRIES))
            if not len(units):
                queue.skip_removed()
                if queue.min_index > index:
                    self.next_queue_offset = index = queue.min_index
                    continue
                if not self._skips:
                    if is_first:
                        raise missing_file(self._reader, self._key, index, queue.end)
                    return
                behind = min(queue.next_file_index(index), queue.end)
                self.skipped += behind - index
                self.next_queue_offset = index = behind
                continue
            fit = _fitting(units, size_left, at_least_one=is_first)
            for behind, found in self._found(units[:fit], index):
                if isinstance(found, (CorruptRecordError, CorruptQueueError)):
                    if self._skips:
                        self.skipped += 1
                        continue
                    if is_first:
                        raise found
                    self.next_queue_offset = behind - 1
                    return
                is_first = False
                count_left -= len(found[1])
                size_left -= int(found[1]["size"].sum())
                yield found
            index += fit
            self.next_queue_offset = index
            if fit < len(units) and not is_first:
                return

    def _found(self, units: Units, index: int) -> Iterator[tuple[int, tuple[memoryview, Rows] | Damage]]:
        """What these entries point at, in order, with the queue offset behind it; nothing for what the log let go."""
        done, ahead = 0, len(units)
        while done < len(units):
            segment = self._reader.segment_at(int(units["physical_offset"][done]))
            view, rows = None, np.empty(0, FRAME_DTYPE)
            if segment is not None:
                view, rows = self._sound(segment, units[done : done + ahead], index + done)
            if view is not None and len(rows):
                done, ahead = done + len(rows), 4 * ahead
                yield index + done, (view, rows)
                continue
            one = self._one(QueueUnit(*units[done].item()), index + done)
            if one is not None:
                yield index + done + 1, one
            done, ahead = done + 1, 1  # where one is odd, the next ones may be: none is to be looked at many times

    def _sound(self, segment: Segment, units: Units, index: int) -> tuple[memoryview | None, Rows]:
        """The entries up to the first that is in another segment, or not right in every respect."""
        places = units["physical_offset"].astype(np.int64) - segment.base
        sizes = units["size"].astype(np.int64)
        inside = valid_mask(units) & (places >= 0) & (places <= segment.size - sizes)
        stop = len(units) if inside.all() else int(inside.argmin())
        rows: Rows = np.empty(stop, FRAME_DTYPE)
        if not stop or self._reader.check_crc_property:
            return None, rows[:0]
        try:
            view = memoryview(segment.mapping())
        except FileNotFoundError:
            return None, rows[:0]
        count, _ = native.walk_places(view, places[:stop], sizes[:stop], segment.base, True, rows)
        rows = rows[:count]
        right = (rows["crc_ok"] != 0) & (rows["queue_id"] == self._key[1])
        right &= rows["queue_offset"] == np.arange(index, index + count)
        right &= (rows["topic_size"] == len(self._topic_raw)) & (rows["sys_flag"] & INNER_BATCH == 0)
        rows = rows[: count if right.all() else int(right.argmin())]
        if len(rows):
            topics, _ = bytes_of(gather(view, rows["topic_position"], rows["topic_size"]))
            right = (topics.reshape(len(rows), -1) == self._topic_raw).all(axis=1)
            rows = rows[: len(rows) if right.all() else int(right.argmin())]
        return view, rows

    def _one(self, unit: QueueUnit, index: int) -> tuple[memoryview, Rows] | Damage | None:
        """What `read` makes of one entry."""
        try:
            message = message_of(self._reader, self._key, index, unit)
        except (CorruptRecordError, CorruptQueueError) as e:
            return e
        if message is None:
            return None
        if message.batch_index is not None:
            raise UsageError(
                f"read_batch: entry {index} of {self._key[0]} {self._key[1]} is a message in an inner batch: use read, "
                "which unwraps it"
            )
        segment = self._reader.segment_at(unit.physical_offset)
        assert segment is not None
        view, rows = memoryview(segment.mapping()), np.empty(1, FRAME_DTYPE)
        position = unit.physical_offset - segment.base
        native.walk(view, position, position + unit.size, segment.base, False, rows)
        return view, rows


def _fitting(units: Units, max_size: int, *, at_least_one: bool) -> int:
    """How many of the entries' records have room in `max_size` bytes. What points at no record takes none."""
    sizes = np.cumsum(np.where(valid_mask(units), units["size"].astype(np.int64), 0))
    return max(int(np.searchsorted(sizes, max_size, side="right")), int(at_least_one))
