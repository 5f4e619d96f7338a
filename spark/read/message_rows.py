"""From rows of records to rows of messages: which records are messages, their bodies as they were before compression,
and one row for each message of an inner batch (store/format/compression.py and inner_batch.py have the formats)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.columns.gathering import gather
from ...store import native
from ...store.errors import CorruptBodyError
from ...store.format.compression import compression_of, decompress
from ...store.format.frame import Rows
from ...store.format.inner_batch import InnerMessage, NotABatchError, inner_messages
from ...store.format.sys_flag import (
    COMPRESSED,
    COMPRESSION_MASK,
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
)
from ..options.bounds import INTERNAL_PREFIXES, INTERNAL_TOPICS, is_internal

ROWS_AT_ONCE = 16384  # limits what a batch of very many very small messages takes

BatchIndexes = NDArray[np.int32] | None
"""The place of each message in its inner batch, -1 outside of one; None where all are outside."""

HELD_SIZE = 4 << 20
"""Bytes of decompressed bodies that are held at a time, unless one body is larger: a piece of the log can become a
thousand times as large."""

IsKept = Callable[[Any, CorruptBodyError], bool]
"""Called for a body that cannot be decompressed: whether its row is kept, with the body as stored."""

FIRST_BYTES = sorted({name[0] for name in (*INTERNAL_TOPICS, *INTERNAL_PREFIXES)})
MAY_BE_INTERNAL = np.isin(np.arange(256), FIRST_BYTES)


def is_message(piece: bytes | memoryview, rows: Rows) -> NDArray[np.bool_]:
    """Which of the rows are messages. Topics are compared only if the first byte does not decide it."""
    transaction = rows["sys_flag"] & TRANSACTION_MASK
    shown: NDArray[Any] = (transaction == TRANSACTION_NONE) | (transaction == TRANSACTION_COMMIT)
    data = np.frombuffer(piece, np.uint8)
    first_byte = data[rows["topic_position"]]  # of an empty topic: what follows it, and that is compared below
    open_question = np.flatnonzero(MAY_BE_INTERNAL[first_byte])
    if len(open_question):
        asked = rows[open_question]
        topics = gather(piece, asked["topic_position"], asked["topic_size"]).dictionary_encode()
        answers = np.array([is_internal(topic) for topic in topics.dictionary.to_pylist()])
        shown[open_question] &= ~answers[topics.indices.to_numpy()]
    return shown


def decompressed(
    piece: bytes | memoryview, rows: Rows, left: NDArray[np.bool_], is_kept: IsKept
) -> Iterator[tuple[bytes | memoryview, Rows]]:
    """The same records in the same order with bodies decompressed and `sys_flag` adjusted, except for rows in `left`.

    Returned in parts, each with the piece that its rows point into: the given one, followed by bodies. Raises
    MissingExtraError, and what `is_kept` raises.
    """
    compressed = np.flatnonzero(((rows["sys_flag"] & COMPRESSED) != 0) & ~left)
    if not len(compressed):
        yield piece, rows
        return
    rows = rows.copy()
    stays = np.ones(len(rows), np.bool_)
    bodies: list[bytes] = []
    size = done = 0
    for i in compressed.tolist():
        row = rows[i]
        try:
            body = _body(piece, row)
        except CorruptBodyError as e:
            stays[i] = is_kept(row, e)
            continue
        if bodies and size + len(body) > HELD_SIZE:
            yield b"".join((piece, *bodies)), rows[done:i][stays[done:i]]
            bodies, size, done = [], 0, i
        row["body_position"], row["body_size"] = len(piece) + size, len(body)
        row["sys_flag"] &= ~(COMPRESSED | COMPRESSION_MASK)
        bodies.append(body)
        size += len(body)
    yield b"".join((piece, *bodies)), rows[done:][stays[done:]]


def _body(piece: bytes | memoryview, row: Any) -> bytes:
    kind = compression_of(int(row["sys_flag"]))
    assert kind is not None
    start = int(row["body_position"])
    return decompress(bytes(piece[start : start + int(row["body_size"])]), kind)


def unwrap(
    piece: bytes | memoryview, rows: Rows, left: NDArray[np.bool_] | None = None
) -> Iterator[tuple[Rows, BatchIndexes]]:
    """The same messages with a row for each message of an inner batch, in the order of the log.

    A batch stays one row, so that nothing is lost, if it is in `left`, is compressed, or its body is not a list of
    messages.
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
