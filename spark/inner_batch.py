"""Unwrapping inner batches: one record whose body holds many messages, as queues of batches have them.

    i32      i32   i32   i32    i32         bodySize   i16              propertiesSize
    ┌──────┬─────┬─────┬──────┬──────────┬──────────┬────────────────┬────────────┐
    │ size │ 0   │ 0   │ flag │ bodySize │ body     │ propertiesSize │ properties │   and the next message
    └──────┴─────┴─────┴──────┴──────────┴──────────┴────────────────┴────────────┘

`size` counts the whole message, itself included. A message has its own flag, body and properties; everything else is
the record's, and its queue offset is the record's plus its place in the batch.

Source of the layout: `MessageDecoder.encodeMessage` and `decodeMessage` of Apache RocketMQ 5.3.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..store import native
from ..store.scan import Rows
from ..store.sys_flag import COMPRESSED, INNER_BATCH

HEADER = struct.Struct(">iiiii")
PROPERTIES_SIZE = struct.Struct(">h")
LEAST_SIZE = HEADER.size + PROPERTIES_SIZE.size
assert LEAST_SIZE == 22

ROWS_AT_ONCE = 16384  # limits what a batch of very many very small messages takes

BatchIndexes = NDArray[np.int32] | None
"""The place of each message in its inner batch, -1 outside of one; None where all are outside."""


class InnerMessage(NamedTuple):
    """Where one message of a batch lies, as positions in the buffer that holds the record."""

    size: int
    flag: int
    body_position: int
    body_size: int
    properties_position: int
    properties_size: int


class NotABatchError(ValueError):
    """A body that does not consist of whole messages to its last byte."""


def inner_messages(buffer: bytes | memoryview, position: int, stop: int) -> Iterator[InnerMessage]:
    """The messages in bytes [position, stop). Raises NotABatchError at the first that is not whole."""
    while position < stop:
        if stop - position < LEAST_SIZE:
            raise NotABatchError
        size, _, _, flag, body_size = HEADER.unpack_from(buffer, position)
        if not LEAST_SIZE <= size <= stop - position or not 0 <= body_size <= size - LEAST_SIZE:
            raise NotABatchError
        body_position = position + HEADER.size
        properties_position = body_position + body_size + PROPERTIES_SIZE.size
        (properties_size,) = PROPERTIES_SIZE.unpack_from(buffer, body_position + body_size)
        if properties_size != size - LEAST_SIZE - body_size:
            raise NotABatchError
        yield InnerMessage(size, flag, body_position, body_size, properties_position, properties_size)
        position += size


def unwrap(piece: bytes | memoryview, rows: Rows) -> Iterator[tuple[Rows, BatchIndexes]]:
    """The same messages with a row for each message of an inner batch, in the order of the log.

    A batch stays one row where it is compressed or its body is not made of messages: nothing of it is lost then.
    """
    is_batch = (rows["sys_flag"] & (INNER_BATCH | COMPRESSED)) == INNER_BATCH
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
