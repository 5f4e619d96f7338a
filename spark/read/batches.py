"""Converts rows of records to RecordBatches, and applies the options that decide about rows.

The readers of the log and of queues pass rows of a walk with the piece of the log that contains them, or damage in
place of a record.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...engine.columns.message_columns import MessageColumns
from ...engine.read.batch_reading import DamageError
from ...store import native
from ...store.errors import CorruptBodyError, CorruptRecordError
from ...store.format.frame import Rows
from ...store.format.sys_flag import INNER_BATCH
from ...store.log.log_reader import BAD_CRC
from ...store.state.deleted_topics import DeletedTopics
from ..options.read_options import OnCorrupt, ReadOptions
from ..schema import CORRUPT, HEADERS, STORE, damaged_places, find_column, headers
from .message_rows import decompressed, is_message, unwrap

log = logging.getLogger("flightlog.spark")

BODY_COLUMNS = frozenset({"value", "bodyCrc"})
"""Columns that depend on the content of the body."""

Reasons = dict[int, str]
"""What was found in damaged records that are shown, by their physical offset."""


class Corruption:
    """Counts the damage of a task and applies the option `onCorrupt`.

    fail   the first damaged place raises
    skip   it is skipped, counted, and logged for each range
    rows   it is a row, with its place and what was found in the column `_corrupt`
    """

    def __init__(self, on_corrupt: OnCorrupt) -> None:
        self._fails = on_corrupt == "fail"
        self.shows = on_corrupt == "rows"
        """Whether a damaged place is a row."""
        self._count = 0
        """Damaged records and stretches of bytes since the last `log_skipped`."""
        self._first: DamageError | None = None
        """The first of them."""

    def meet(self, damage: DamageError) -> None:
        """Count it, or raise it if it is to fail the query."""
        if self._fails:
            raise damage
        self._count += 1
        self._first = self._first or damage

    def log_skipped(self, path: Path, stretch: str) -> None:
        """Log what was skipped in this stretch of a file since the last call."""
        first, count = self._first, self._count
        self._first, self._count = None, 0
        if first is None or self.shows:
            return
        log.warning(
            "%s: left out %d damaged places in %s, the first at %s %d: %s",
            path,
            count,
            stretch,
            "physical offset" if isinstance(first, CorruptRecordError) else f"{first.path}, entry",
            offset_of(first),
            first.found,
            extra={"path": str(first.path), "offset": offset_of(first)},
        )


def offset_of(damage: DamageError) -> int:
    """The physical offset of a record, the queue offset of an entry."""
    return damage.physical_offset if isinstance(damage, CorruptRecordError) else damage.queue_offset


class BatchMaker:
    """Makes the batches of a task, and counts damage.

    A record whose body does not match its CRC or cannot be decompressed is damaged. If damage is shown, such a record
    is one row with its fields and its body as stored, and a place without a record is a row of nulls.

    The rows never depend on the columns: if damage is skipped or shown, every body is checked. If it fails the query,
    bodies are checked if their content is requested, else only those of inner batches, which determine rows.
    """

    def __init__(self, schema: Any, options: ReadOptions) -> None:
        """`schema` is an Arrow schema as `schema.arrow_schema` returns it. Records outside of the options' bounds are
        left out, damaged or not."""
        self._schema = schema
        self._columns = [find_column(name).name for name in schema.names]
        self._options, self._bounds = options, options.bounds
        self.corruption = Corruption(options.on_corrupt)
        is_asked_for = options.decompress or not BODY_COLUMNS.isdisjoint(self._columns)
        self.checks_bodies = options.on_corrupt != "fail" or is_asked_for
        """Whether the reader must check every body against its CRC."""
        self.store = ""
        """The name of the store that is being read."""

    def batches(
        self,
        path: Path,
        piece: bytes | memoryview,
        rows: Rows,
        deleted: DeletedTopics | None = None,
        span: tuple[int, int] | None = None,
    ) -> Iterator[Any]:
        """The messages of these records of the segment file `path`, in the order of the rows, which point into `piece`.

        Records of `deleted` topics are not shown, nor messages with queue offsets outside of `span`, [start, stop).
        Raises CorruptRecordError for a damaged record if that is to fail the query, and MissingExtraError for a
        compressed body that needs an extra.
        """
        rows, reasons = _not_deleted(piece, rows, deleted), Reasons()
        if not self._bounds.is_everything:
            rows = only(rows, self._bounds.may_hold(piece, rows))
        rows = self._with_right_bodies(path, piece, rows, reasons)
        if not self._options.include_internal:
            rows = only(rows, is_message(piece, rows) | _are_among(rows, reasons))
        if not len(rows):
            return
        may_hold_others = not self._bounds.is_everything and bool((rows["sys_flag"] & INNER_BATCH).any())
        parts = self._decompressed(path, piece, rows, reasons) if self._options.decompress else [(piece, rows)]
        for part, part_rows in parts:
            for message_rows, batch_indexes in unwrap(part, part_rows, _are_among(part_rows, reasons)):
                if span is not None:
                    inside = (message_rows["queue_offset"] >= span[0]) & (message_rows["queue_offset"] < span[1])
                    batch_indexes = None if batch_indexes is None else batch_indexes[inside]
                    message_rows = only(message_rows, inside)
                if may_hold_others:
                    within = self._bounds.mask(part, message_rows)
                    message_rows = only(message_rows, within)
                    batch_indexes = batch_indexes if batch_indexes is None else batch_indexes[within]
                    if not len(message_rows):
                        continue
                messages = MessageColumns(part, message_rows, batch_indexes)
                arrays = [self._column(name, path, messages, message_rows, reasons) for name in self._columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def damaged(self, damage: DamageError) -> Iterator[Any]:
        """The row for a place without a record, if damage is shown. Raises `damage` if it is to fail the query."""
        self.corruption.meet(damage)
        if self.corruption.shows:
            reasons = {offset_of(damage): damage.found}
            known = {
                CORRUPT.name: damaged_places(damage.path, [offset_of(damage)], reasons),
                STORE.name: pa.array([self.store], pa.string()),
            }
            arrays = [
                known[name] if name in known else pa.nulls(1, field.type)
                for name, field in zip(self._columns, self._schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, path: Path, messages: MessageColumns, rows: Rows, reasons: Reasons) -> Any:
        if name == CORRUPT.name:
            return damaged_places(path, rows["physical_offset"].tolist(), reasons)
        if name == STORE.name:
            return pa.repeat(self.store, len(rows))
        return headers(messages) if name == HEADERS.name else messages.column(name)

    def _with_right_bodies(self, path: Path, piece: bytes | memoryview, rows: Rows, reasons: Reasons) -> Rows:
        right = rows["crc_ok"] != 0 if self.checks_bodies else _have_right_batches(piece, rows)
        for row in rows[~right]:
            expected = f"CRC {int(row['body_crc']) & 0xFFFFFFFF:08X}"
            self._meet(CorruptRecordError(path, int(row["physical_offset"]), BAD_CRC, expected), reasons)
        return rows if self.corruption.shows else only(rows, right)

    def _decompressed(
        self, path: Path, piece: bytes | memoryview, rows: Rows, reasons: Reasons
    ) -> Iterator[tuple[bytes | memoryview, Rows]]:
        def stays(row: Any, why: CorruptBodyError) -> bool:
            expected = "one that can be decompressed"
            self._meet(CorruptRecordError(path, int(row["physical_offset"]), str(why), expected), reasons)
            return self.corruption.shows

        return decompressed(piece, rows, _are_among(rows, reasons), stays)

    def _meet(self, damage: CorruptRecordError, reasons: Reasons) -> None:
        self.corruption.meet(damage)
        if self.corruption.shows:
            reasons[damage.physical_offset] = damage.found


def _not_deleted(piece: bytes | memoryview, rows: Rows, deleted: DeletedTopics | None) -> Rows:
    """The rows that belong to no deleted topic."""
    if deleted is None or not len(rows) or int(rows["physical_offset"][0]) >= deleted.highest:
        return rows
    names = (
        bytes(piece[start : start + size]).decode("utf-8", "replace")
        for start, size in zip(rows["topic_position"].tolist(), rows["topic_size"].tolist(), strict=True)
    )
    below = np.fromiter(map(deleted.below, names), np.int64, len(rows))
    return only(rows, rows["physical_offset"] >= below)


def _have_right_batches(piece: bytes | memoryview, rows: Rows) -> NDArray[np.bool_]:
    """Which rows are not an inner batch whose body differs from its CRC."""
    right = np.ones(len(rows), np.bool_)
    for i in np.flatnonzero(rows["sys_flag"] & INNER_BATCH).tolist():
        position, size, crc = (int(rows[i][name]) for name in ("body_position", "body_size", "body_crc"))
        right[i] = native.masked_crc32(piece[position : position + size]) == crc & 0xFFFFFFFF
    return right


def _are_among(rows: Rows, offsets: Collection[int]) -> NDArray[np.bool_]:
    """Which rows are of records at these physical offsets."""
    if not offsets:
        return np.zeros(len(rows), np.bool_)
    return np.isin(rows["physical_offset"], np.fromiter(offsets, np.int64))


def only(rows: Rows, wanted: NDArray[np.bool_]) -> Rows:
    """The wanted rows; not a copy if all are wanted."""
    return rows if wanted.all() else rows[wanted]
