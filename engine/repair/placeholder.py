"""A record in the place of a lost one: it has its topic, queue and queue offset, a property that says what it is, and
an empty body or one of zeros.

Why not a gap: RocketMQ rebuilds a queue by appending an entry for each record that it finds. One missing record would
move every later message of that queue to another queue offset, and group offsets would point at the wrong messages.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ...store import native
from ...store.format.crc_property import CRC_PROPERTY_SIZE, EMPTY, put_crc_property, stored_crc
from ...store.format.frame import FRAME_DTYPE, PROPERTIES_MAX_SIZE, PROPERTIES_SIZE
from ...store.format.sys_flag import COMPRESSED, COMPRESSION_MASK, INNER_BATCH, NEED_UNWRAP

ABOUT_THE_BODY = COMPRESSED | COMPRESSION_MASK | INNER_BATCH | NEED_UNWRAP
LOST_PROPERTY = "FLIGHTLOG_LOST"
"""The property of a placeholder. Its value names what happened: `body`, or `record`."""
INT32, INT64 = struct.Struct(">i"), struct.Struct(">q")
CRC_AT, QUEUE_OFFSET_AT, PHYSICAL_OFFSET_AT, SYS_FLAG_AT = 8, 20, 28, 36
SEPARATOR = b"\x02"


def without_body(record: bytes) -> bytes:
    """A record of the same size, place, topic, queue, times and properties, with a body of zeros. It has the property
    LOST_PROPERTY if the body had room for that."""
    row = _row(record)
    properties, has_crc = _properties(record, row)
    mark = (b"" if not properties or properties.endswith(SEPARATOR) else SEPARATOR) + _mark("body")
    if len(mark) > row["body_size"] or row["properties_size"] + len(mark) > PROPERTIES_MAX_SIZE:
        mark = b""
    return _rebuilt(record, row, bytes(int(row["body_size"]) - len(mark)), properties + mark, has_crc)


def of_lost_record(following: bytes, queue_offset: int) -> bytes:
    """The smallest record in the queue of the one that follows it, at this queue offset."""
    row = _row(following)
    _, has_crc = _properties(following, row)
    built = bytearray(_rebuilt(following, row, b"", _mark("record"), has_crc=False))
    INT64.pack_into(built, QUEUE_OFFSET_AT, queue_offset)
    return _with_crc_property(built) if has_crc else bytes(built)


def moved(record: bytes | memoryview, physical_offset: int, queue_offset: int, properties_size: int) -> bytes:
    """The record for another place. A CRC property covers its place, and is written again."""
    built = bytearray(record)
    INT64.pack_into(built, QUEUE_OFFSET_AT, queue_offset)
    INT64.pack_into(built, PHYSICAL_OFFSET_AT, physical_offset)
    if properties_size >= CRC_PROPERTY_SIZE and stored_crc(bytes(built[-CRC_PROPERTY_SIZE:])) is not None:
        put_crc_property(built)
    return bytes(built)


def _row(record: bytes) -> Any:
    row: Any = np.empty(1, FRAME_DTYPE)
    (physical_offset,) = INT64.unpack_from(record, PHYSICAL_OFFSET_AT)
    count, _, _ = native.walk(record, 0, len(record), physical_offset, False, row)
    assert count == 1, "the caller walked over this record"
    return row[0]


def _mark(what: str) -> bytes:
    return f"{LOST_PROPERTY}\x01{what}\x02".encode()


def _properties(record: bytes, row: Any) -> tuple[bytes, bool]:
    """The properties without a CRC property, and whether there was one."""
    start = int(row["properties_position"])
    properties = record[start : start + int(row["properties_size"])]
    if len(properties) >= CRC_PROPERTY_SIZE and stored_crc(properties[-CRC_PROPERTY_SIZE:]) is not None:
        return properties[:-CRC_PROPERTY_SIZE], True
    return properties, False


def _rebuilt(record: bytes, row: Any, body: bytes, properties: bytes, has_crc: bool) -> bytes:
    properties += EMPTY if has_crc else b""
    body_at, body_end = int(row["body_position"]), int(row["body_position"] + row["body_size"])
    topic_end = int(row["topic_position"] + row["topic_size"])
    built = bytearray(record[: body_at - INT32.size])
    built += INT32.pack(len(body)) + body + record[body_end:topic_end]
    built += PROPERTIES_SIZE.pack(len(properties)) + properties
    INT32.pack_into(built, 0, len(built))
    INT32.pack_into(built, CRC_AT, native.masked_crc32(body))
    INT32.pack_into(built, SYS_FLAG_AT, int(row["sys_flag"]) & ~ABOUT_THE_BODY)
    if has_crc:
        put_crc_property(built)
    return bytes(built)


def _with_crc_property(record: bytearray) -> bytes:
    """The record with a CRC property added behind its properties."""
    row = _row(bytes(record))
    size_at = int(row["properties_position"]) - PROPERTIES_SIZE.size
    PROPERTIES_SIZE.pack_into(record, size_at, int(row["properties_size"]) + CRC_PROPERTY_SIZE)
    record += EMPTY
    INT32.pack_into(record, 0, len(record))
    put_crc_property(record)
    return bytes(record)
