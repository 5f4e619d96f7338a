"""What a walk over the commit log yields: one row a record, and the reason why the walk stopped.

A *frame* is a record seen from outside: its position, its fixed fields, and the positions of body, topic and
properties. Nothing is copied out of the log. The layout of a record, all integers big-endian and signed, with B and S
as the sizes of the born and the store host (8 bytes for IPv4, 20 for IPv6: the address, then the port as four bytes)::

    0      4       8         12       16     20            28               36        40            48
    ┌──────┬───────┬─────────┬────────┬──────┬─────────────┬────────────────┬─────────┬─────────────┬─────────────┐
    │ size │ magic │ bodyCRC │ queueId│ flag │ queueOffset │ physicalOffset │ sysFlag │ bornTime ms │ bornHost: B │
    │ i32  │ i32   │ i32     │ i32    │ i32  │ i64         │ i64            │ i32     │ i64         │             │
    └──────┴───────┴─────────┴────────┴──────┴─────────────┴────────────────┴─────────┴─────────────┴─────────────┘
    48+B           56+B           56+B+S           60+B+S                      68+B+S     72+B+S
    ┌──────────────┬──────────────┬────────────────┬───────────────────────────┬──────────┬────────────────────────┐
    │ storeTime ms │ storeHost: S │ reconsumeTimes │ preparedTransactionOffset │ bodySize │ body: bodySize         │
    │ i64          │              │ i32            │ i64                       │ i32      │                        │
    └──────────────┴──────────────┴────────────────┴───────────────────────────┴──────────┴────────────────────────┘
    72+B+S+bodySize
    ┌──────────────────────┬──────────────────┬────────────────┬────────────────────────────┐
    │ topicSize            │ topic: topicSize │ propertiesSize │ properties: propertiesSize │
    │ V1: u8, V2: i16      │                  │ i16            │                            │
    └──────────────────────┴──────────────────┴────────────────┴────────────────────────────┘

`size` counts the whole record, itself included. The topic size of V1 is read as unsigned because RocketMQ writes topics
of 128 to 255 bytes that way. Bits 0x10 and 0x20 of `sysFlag` say that the born and the store host are IPv6.

Source of the layout: `MessageExtEncoder` and `MessageDecoder` of Apache RocketMQ 5.3.3.
"""

from __future__ import annotations

import enum
import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAGIC_V1: Final = 0xDAA320A7 - (1 << 32)
"""Magic of a record with one byte of topic length; signed, as every integer of the format."""

MAGIC_V2: Final = 0xDAA320AB - (1 << 32)
"""Magic of a record with two bytes of topic length (RocketMQ 5.1 and later)."""

MAGIC_BLANK: Final = 0xCBD43194 - (1 << 32)
"""Magic of the filler at the end of a segment: its four bytes of size come first, as in a record."""

SIZE_AND_MAGIC: Final = struct.Struct(">ii")
HEAD: Final = struct.Struct(">5i2qiq")
"""A record up to its born host."""
BORN_HOST_AT: Final = HEAD.size
"""Byte of a record where its born host starts."""
STORE_TIME: Final = struct.Struct(">q")
"""The field between the hosts."""
AFTER_STORE_HOST: Final = struct.Struct(">iqi")
"""Reconsume times, prepared transaction offset, body size."""
TOPIC_SIZE: Final = {MAGIC_V1: struct.Struct(">B"), MAGIC_V2: struct.Struct(">h")}
PROPERTIES_SIZE: Final = struct.Struct(">h")

FIXED_V1_V4_SIZE: Final = 91
"""Bytes of a V1 record with two IPv4 hosts besides body, topic and properties."""
FIXED_SIZE: Final = {MAGIC_V1: FIXED_V1_V4_SIZE, MAGIC_V2: FIXED_V1_V4_SIZE + 1}
"""Bytes of a record with two IPv4 hosts besides body, topic and properties, by magic."""
TOPIC_MAX_SIZE: Final = {MAGIC_V1: 127, MAGIC_V2: 32_767}
"""Longest topic in bytes that writers store, by magic."""
PROPERTIES_MAX_SIZE: Final = 32_767

assert BORN_HOST_AT == 48
assert BORN_HOST_AT + STORE_TIME.size + AFTER_STORE_HOST.size + 2 * 8 + 1 + 2 == FIXED_V1_V4_SIZE

FRAME_DTYPE: Final = np.dtype(
    [
        ("position", "<i8"),  # of the record's first byte, in the buffer handed in
        ("physical_offset", "<i8"),  # as stored; the walk checked it
        ("queue_offset", "<i8"),  # in queue units
        ("born_timestamp_ms", "<i8"),
        ("store_timestamp_ms", "<i8"),
        ("prepared_transaction_offset", "<i8"),
        ("body_position", "<i8"),  # this and the next two: of the first byte, in the buffer handed in
        ("topic_position", "<i8"),
        ("properties_position", "<i8"),
        ("size", "<i4"),  # bytes of the whole record
        ("magic", "<i4"),
        ("body_crc", "<i4"),  # as stored
        ("queue_id", "<i4"),
        ("flag", "<i4"),
        ("sys_flag", "<i4"),
        ("reconsume_times", "<i4"),
        ("body_size", "<i4"),
        ("topic_size", "<i4"),
        ("properties_size", "<i4"),
        ("crc_ok", "<i4"),  # 1: right, or not checked; 0: the body does not match its CRC
        ("reserved", "<i4"),  # 0; makes the row a multiple of eight bytes
    ]
)
"""One row a record, packed, little-endian. The C kernel writes these bytes: a change here is a change of `walk.h`."""

assert FRAME_DTYPE.itemsize == 9 * 8 + 12 * 4 == 120

FRAME_ROW: Final = struct.Struct("<9q12i")
"""One row as a tuple, for single records, where an array would cost more than the read."""

assert FRAME_ROW.size == FRAME_DTYPE.itemsize

Rows = NDArray[Any]
"""Rows of FRAME_DTYPE; their positions count from the start of the piece that they came with."""


class WalkEnd(enum.IntEnum):
    """Why a walk stopped. In every case the position returned with it is that of the first frame not consumed."""

    END = 0
    """`stop` is reached, or fewer than the eight bytes are left that a frame's size and magic need."""
    ROWS_FULL = 1
    """No row is free; call again from the position returned."""
    BLANK = 2
    """Here is the filler that ends a segment. Its length is at least 8; nothing else about it was checked."""
    EMPTY = 3
    """Size and magic are zero: never written."""
    TRUNCATED = 4
    """The frame's size reaches past `stop`."""
    BAD_MAGIC = 5
    """Neither a record nor a filler."""
    BAD_LENGTHS = 6
    """The size is below the least possible one, a length is negative, or the lengths do not add up to the size."""
    BAD_OFFSET = 7
    """The stored physical offset differs from the record's position: stale bytes, or bytes of another place."""
