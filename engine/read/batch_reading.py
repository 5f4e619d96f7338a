"""A range of a queue as one Arrow record batch: the messages that `read` returns, without an object for each.

The kernel reads all records at once that are intact and agree with their entries. Any other record is read one by one,
as by `read`, whose result or error counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...index.queue.queue_table import Queue
from ...index.queue.queue_unit import QueueUnit, Units, valid_mask
from ...store import native
from ...store.errors import CorruptQueueError, CorruptRecordError, UsageError
from ...store.format.frame import FRAME_DTYPE, Rows
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ...store.settings import MAX_RECORD_SIZE
from ..columns.gathering import binary_array
from ..columns.message_columns import MessageColumns
from ..columns.schema import BY_LOWER_NAME, batch_schema
from .entries import ReadAhead, message_of, missing_file

NEXT_QUEUE_OFFSET = "nextQueueOffset"
"""The offset to continue from, in the metadata of a batch's schema. (The column `offset` has the offset in the record:
in a light message queue that is one in the queue of another topic.)"""

PAGE_ENTRIES = 1 << 18
"""Entries that are read at a time."""


DamageError = CorruptRecordError | CorruptQueueError


def empty_batch(columns: Sequence[str] | None, next_queue_offset: int = 0) -> Any:
    """A batch without rows."""
    schema = _with_next(batch_schema(columns), next_queue_offset)
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _with_next(schema: Any, next_queue_offset: int) -> Any:
    return schema.with_metadata({NEXT_QUEUE_OFFSET: str(next_queue_offset)})


class Piece:
    """Messages of one read of a queue: a row for each, and their bodies if they are wanted.

    Invariants: row i and body i are of the same message; rows of one span lie in one segment.
    """

    def __init__(self, sizes: NDArray[np.int64], has_bodies: bool) -> None:
        """Has room for messages whose records are of these sizes."""
        self._rows: Rows = np.empty(len(sizes), FRAME_DTYPE)
        self.count = 0
        self.spans: list[tuple[memoryview, int, int]] = []
        """(segment, first row, the row behind the last)."""
        # Arrow keeps memory for the next batch. Pages that nothing is written to cost nothing.
        self._bodies = pa.allocate_buffer(int(sizes[sizes <= MAX_RECORD_SIZE].sum())) if has_bodies else None
        self._bodies_size = 0

    def room(self) -> tuple[Rows, Any]:
        """Where the next rows go, and their bodies."""
        bodies = None if self._bodies is None else memoryview(self._bodies).cast("B")[self._bodies_size :]
        return self._rows[self.count :], bodies

    def add(self, view: memoryview, count: int, bodies_size: int) -> Rows:
        """So many rows, and bytes of their bodies, were put into the room."""
        first, self.count = self.count, self.count + count
        self._bodies_size += bodies_size
        if self.spans and self.spans[-1][0].obj is view.obj:
            first = self.spans.pop()[1]
        self.spans.append((view, first, self.count))
        return self._rows[self.count - count : self.count]

    def column(self, name: str) -> list[Any]:
        """A column of these messages, in parts."""
        if self._bodies is not None and name == "value":
            sizes = self._rows["body_size"][: self.count]
            return [binary_array(sizes, self._bodies.slice(0, self._bodies_size))]
        return [messages.column(name) for messages in self._messages]

    @cached_property
    def _messages(self) -> list[MessageColumns]:
        return [MessageColumns(view, self._rows[first:stop], None) for view, first, stop in self.spans]


class BatchReader:
    """Reads one batch. `skipped` counts what `on_corrupt="skip"` has left out."""

    def __init__(
        self, reader: LogReader, key: QueueKey, queue: Queue, max_count: int, max_size: int, skips: bool
    ) -> None:
        """`max_size` is in bytes of records; one message comes however large it is."""
        self._reader, self._key, self._queue, self._skips = reader, key, queue, skips
        self._max_count, self._max_size = max_count, max_size
        self._topic_raw = key[0].encode("utf-8", "surrogatepass")
        self.skipped = 0
        self.next_queue_offset = 0

    def read(self, queue_offset: int | None, columns: Sequence[str] | None) -> Any:
        """The batch. Raises the first damage unless messages came before it, or it is to be skipped."""
        schema = batch_schema(columns)
        names = [BY_LOWER_NAME[name.lower()].name for name in schema.names]
        pieces = [piece for piece in self._pieces(queue_offset, "value" in names) if piece.count]
        if not pieces:
            return empty_batch(columns, self.next_queue_offset)
        schema = _with_next(schema, self.next_queue_offset)
        arrays = []
        for name in names:
            parts = [part for piece in pieces for part in piece.column(name)]
            arrays.append(parts[0] if len(parts) == 1 else pa.concat_arrays(parts))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _pieces(self, queue_offset: int | None, has_bodies: bool) -> Iterator[Piece]:
        queue, count_left, size_left = self._queue, self._max_count, self._max_size
        index = queue.min_index if queue_offset is None else max(queue_offset, queue.min_index)
        self.next_queue_offset = index
        is_first = True
        ahead = ReadAhead(self._reader)
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
            sizes = np.where(valid_mask(units), units["size"].astype(np.int64), 0)  # what points at no record has none
            fit = max(int(np.searchsorted(np.cumsum(sizes), size_left, side="right")), int(is_first))
            piece = Piece(sizes[:fit], has_bodies)
            ahead.look(units[:fit] if fit else units)
            for behind, found in self._found(units[:fit], index, piece):
                if isinstance(found, (CorruptRecordError, CorruptQueueError)):
                    if self._skips:
                        self.skipped += 1
                        continue
                    if is_first:
                        raise found
                    self.next_queue_offset = behind - 1
                    yield piece
                    return
                is_first = False
                count_left -= len(found)
                size_left -= int(found["size"].sum())
            yield piece
            index += fit
            self.next_queue_offset = index
            if fit < len(units) and not is_first:
                return

    def _found(self, units: Units, index: int, piece: Piece) -> Iterator[tuple[int, Rows | DamageError]]:
        """The records of these entries, in order, with the next queue offset; nothing for removed records.
        Rows are in the piece."""
        queue_offsets = np.arange(index, index + len(units), dtype=np.int64)
        done, ahead = 0, len(units)
        while done < len(units):
            some = slice(done, done + ahead)
            rows = self._sound(units[some], queue_offsets[some], piece)
            if len(rows):
                done, ahead = done + len(rows), 4 * ahead
                yield index + done, rows
                continue
            one = self._one(QueueUnit(*units[done].item()), index + done, piece)
            if one is not None:
                yield index + done + 1, one
            done, ahead = done + 1, 1  # where one is odd, the next ones may be: none is to be looked at many times

    def _sound(self, units: Units, queue_offsets: NDArray[np.int64], piece: Piece) -> Rows:
        """The entries up to the first that is in another segment, or not right in every respect."""
        segment = self._reader.segment_at(int(units["physical_offset"][0]))
        rows, bodies = piece.room()
        if segment is None or self._reader.checks_more:
            return rows[:0]
        try:
            view = memoryview(segment.mapping())
        except FileNotFoundError:
            return rows[:0]
        count, copied = native.entry_rows(
            *(view, units, queue_offsets, self._topic_raw, rows, bodies, segment.base, self._key[1], self._max_size)
        )
        return piece.add(view, count, copied) if count else rows[:0]

    def _one(self, unit: QueueUnit, index: int, piece: Piece) -> Rows | DamageError | None:
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
        view = memoryview(segment.mapping())
        rows, bodies = piece.room()
        position = unit.physical_offset - segment.base
        native.walk(view, position, position + unit.size, segment.base, False, rows[:1])
        if bodies is not None:
            bodies[: len(message.body)] = message.body
        return piece.add(view, 1, 0 if bodies is None else len(message.body))
