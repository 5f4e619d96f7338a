"""Inner batches: records whose body holds many messages, in topics with batch consume queues.

    i32      i32   i32   i32    i32         bodySize   i16              propertiesSize
    ┌──────┬─────┬─────┬──────┬──────────┬──────────┬────────────────┬────────────┐
    │ size │ 0   │ 0   │ flag │ bodySize │ body     │ propertiesSize │ properties │   and the next message
    └──────┴─────┴─────┴──────┴──────────┴──────────┴────────────────┴────────────┘

`size` counts the whole message, itself included. A message has its own flag, body and properties; everything else is
the record's, and its queue offset is the record's plus its place in the batch. The record's properties hold their
number (INNER_NUM) and the queue offset of the first one (INNER_BASE).

Source of the layout: `MessageDecoder.encodeMessage` and `decodeMessage` of Apache RocketMQ 5.3.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from .. import native
from ..errors import CorruptBodyError
from ..stored_message import StoredMessage
from . import property_names as props
from .sys_flag import INNER_BATCH

MAX_COUNT = (1 << 15) - 1
"""Most messages in a batch: its queue entry counts them in 16 bits."""

HEADER = struct.Struct(">iiiii")
PROPERTIES_SIZE = struct.Struct(">h")
LEAST_SIZE = HEADER.size + PROPERTIES_SIZE.size
assert LEAST_SIZE == 22


class InnerMessage(NamedTuple):
    """Where one message of a batch is, as positions in the buffer that holds the record."""

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


def encode_inner(body: bytes, flag: int, properties_raw: bytes) -> bytes:
    """Encode one message of a batch."""
    size = LEAST_SIZE + len(body) + len(properties_raw)
    return HEADER.pack(size, 0, 0, flag, len(body)) + body + PROPERTIES_SIZE.pack(len(properties_raw)) + properties_raw


def inner_count(properties: dict[str, str]) -> int:
    """Number of messages of a batch, from its properties; 0 if RocketMQ would not understand them."""
    text = properties.get(props.INNER_COUNT, "")
    count = int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
    return count if count <= MAX_COUNT else 0


def unwrapped(record: StoredMessage) -> list[StoredMessage]:
    """The messages of a record: the messages of its inner batch, or else the record itself. Messages of a batch have
    the record's physical offset and their index as `batch_index`; `size` and `body_crc` are their own. Raises
    CorruptBodyError for a body that is not an inner batch.
    """
    if not record.sys_flag & INNER_BATCH:
        return [record]
    record = record.decompressed()
    body = record.body
    found: list[StoredMessage] = []
    try:
        if sum(1 for _ in islice(inner_messages(body, 0, len(body)), MAX_COUNT + 1)) > MAX_COUNT:
            raise CorruptBodyError(
                f"the record at physical offset {record.physical_offset} claims to be an inner batch of more than "
                f"{MAX_COUNT} messages, which no queue entry can count"
            )
        for place, inner in enumerate(inner_messages(body, 0, len(body))):
            own = body[inner.body_position : inner.body_position + inner.body_size]
            found.append(
                replace(
                    record,
                    queue_offset=record.queue_offset + place,
                    batch_index=place,
                    size=inner.size,
                    flag=inner.flag,
                    body=own,
                    body_crc=native.masked_crc32(own),
                    properties_raw=body[inner.properties_position : inner.properties_position + inner.properties_size],
                )
            )
    except NotABatchError:
        raise CorruptBodyError(
            f"the record at physical offset {record.physical_offset} claims to be an inner batch, and its body is no "
            f"sequence of messages (the first {len(found)} are whole)"
        ) from None
    return found
