"""Inner batches in rows: one row for each message of a batch (store/format/inner_batch.py has the layout)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...store import native
from ...store.format.frame import Rows
from ...store.format.inner_batch import InnerMessage, NotABatchError, inner_messages
from ...store.format.sys_flag import COMPRESSED, INNER_BATCH

ROWS_AT_ONCE = 16384  # limits what a batch of very many very small messages takes

BatchIndexes = NDArray[np.int32] | None
"""The place of each message in its inner batch, -1 outside of one; None where all are outside."""


def unwrap(
    piece: bytes | memoryview, rows: Rows, left: NDArray[np.bool_] | None = None
) -> Iterator[tuple[Rows, BatchIndexes]]:
    """The same messages with a row for each message of an inner batch, in the order of the log.

    A batch stays one row where it is one of `left`, is compressed, or its body is not made of messages: nothing of it
    is lost then.
    """
    is_batch = (rows["sys_flag"] & (INNER_BATCH | COMPRESSED)) == INNER_BATCH
    if left is not None:
        is_batch &= ~left
    if not is_batch.any():
        yield rows, None
        return
    parts: list[Rows] = []
    indexes: list[NDArray[np.int32]] = []
    count = done = 0
    for i in np.flatnonzero(is_batch).tolist():
        if not _is_whole(piece, rows[i]):
            continue
        parts.append(rows[done:i])
        indexes.append(np.full(i - done, -1, np.int32))
        done = i + 1
        for message_rows, message_indexes in _message_rows(piece, rows[i]):
            parts.append(message_rows)
            indexes.append(message_indexes)
            count += len(message_rows)
            if count >= ROWS_AT_ONCE:
                yield np.concatenate(parts), np.concatenate(indexes)
                parts, indexes, count = [], [], 0
    parts.append(rows[done:])
    indexes.append(np.full(len(rows) - done, -1, np.int32))
    yield np.concatenate(parts), np.concatenate(indexes)


def _bounds(row: Any) -> tuple[int, int]:
    position = int(row["body_position"])
    return position, position + int(row["body_size"])


def _is_whole(piece: bytes | memoryview, row: Any) -> bool:
    try:
        return sum(1 for _ in inner_messages(piece, *_bounds(row))) > 0
    except NotABatchError:
        return False


def _message_rows(piece: bytes | memoryview, row: Any) -> Iterator[tuple[Rows, NDArray[np.int32]]]:
    messages = inner_messages(piece, *_bounds(row))
    first = 0
    while some := list(islice(messages, ROWS_AT_ONCE)):
        columns = np.array(some, np.int64).T
        made = np.repeat(row[np.newaxis], len(some))
        for name, column in zip(InnerMessage._fields, columns, strict=True):
            made[name] = column
        made["body_crc"] = [
            native.masked_crc32(piece[each.body_position : each.body_position + each.body_size]) for each in some
        ]
        indexes = np.arange(first, first + len(some), dtype=np.int32)
        made["queue_offset"] += indexes
        yield made, indexes
        first += len(some)
