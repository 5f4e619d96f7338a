"""Messages on the wire: those that are sent together, and stored ones as the records that they are in the log.

A batch is, for each message, big-endian:

    total size i32, magic i32 (0), body CRC i32 (0), flag i32, body i32 + n, properties i16 + n
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from ....store.format.frame import (
    AFTER_STORE_HOST,
    HEAD,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_MAX_SIZE,
    PROPERTIES_SIZE,
    STORE_TIME,
    TOPIC_SIZE,
)
from ....store.format.host import raw_host
from ....store.format.properties import decode_properties
from ....store.format.sys_flag import INNER_BATCH, NEED_UNWRAP
from ....store.stored_message import StoredMessage
from .command import InvalidFrameError

BATCH_HEAD = struct.Struct(">5i")
LONGEST_V1_TOPIC = 127
CRC_MASK = 0x7FFFFFFF


def popped_record_of(message: StoredMessage, handle: str) -> bytes:
    """The record of a popped message, with its handle as a property where there is room for it."""
    properties = message.properties_raw
    separator = b"" if not properties or properties.endswith(b"\x02") else b"\x02"
    longer = b"".join([properties, separator, b"POP_CK\x01", handle.encode(), b"\x02"])
    return record_of(message, longer if len(longer) <= PROPERTIES_MAX_SIZE else properties)


def record_of(message: StoredMessage, properties: bytes | None = None) -> bytes:
    """The record, as clients decode it, with `properties` if they are given. One out of an inner batch becomes a record
    of its own."""
    body, topic = message.body, message.topic.encode()
    properties = message.properties_raw if properties is None else properties
    magic = MAGIC_V1 if len(topic) <= LONGEST_V1_TOPIC else MAGIC_V2
    crc, sys_flag = message.body_crc, message.sys_flag
    if message.batch_index is not None:
        crc, sys_flag = zlib.crc32(body) & CRC_MASK, sys_flag & ~(INNER_BATCH | NEED_UNWRAP)
    behind = b"".join(
        [
            raw_host(message.born_host),
            STORE_TIME.pack(message.store_timestamp_ms),
            message.store_host_raw,
            AFTER_STORE_HOST.pack(message.reconsume_times, message.prepared_transaction_offset, len(body)),
            body,
            TOPIC_SIZE[magic].pack(len(topic)),
            topic,
            PROPERTIES_SIZE.pack(len(properties)),
            properties,
        ]
    )
    head = HEAD.pack(
        HEAD.size + len(behind),
        magic,
        crc,
        message.queue_id,
        message.flag,
        message.queue_offset,
        message.physical_offset,
        sys_flag,
        message.born_timestamp_ms,
    )
    return head + behind


def batch_messages(raw: bytes) -> Iterator[tuple[int, bytes, dict[str, str]]]:
    """Flag, body and properties of each message that was sent together. Raises InvalidFrameError."""
    position = 0
    while position < len(raw):
        if len(raw) - position < BATCH_HEAD.size:
            raise InvalidFrameError("the batch ends within a message")
        size, _, _, flag, body_size = BATCH_HEAD.unpack_from(raw, position)
        end = position + size
        body_end = position + BATCH_HEAD.size + body_size
        if body_size < 0 or end > len(raw) or body_end + PROPERTIES_SIZE.size > end:
            raise InvalidFrameError("a message of the batch has lengths that do not fit")
        (properties_size,) = PROPERTIES_SIZE.unpack_from(raw, body_end)
        if body_end + PROPERTIES_SIZE.size + properties_size != end:
            raise InvalidFrameError("a message of the batch has lengths that do not fit")
        properties = raw[body_end + PROPERTIES_SIZE.size : end]
        yield flag, raw[position + BATCH_HEAD.size : body_end], decode_properties(properties)
        position = end
