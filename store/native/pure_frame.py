"""What stands at one position of the log: the plain statement of the rules, in the order in which they are applied."""

from __future__ import annotations

import struct
import zlib
from typing import Final

from ..format.frame import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, WalkEnd

HEAD: Final = struct.Struct(">ii")
"""size, magic"""
UP_TO_BORN_HOST: Final = struct.Struct(">iiiiiqqiq")
"""size, magic, body CRC, queue id, flag, queue offset, physical offset, system flags, born time"""
HOSTS_AT: Final = UP_TO_BORN_HOST.size
AFTER_BORN_HOST: Final = struct.Struct(">q")
"""store time"""
AFTER_STORE_HOST: Final = struct.Struct(">iqi")
"""reconsume times, prepared transaction offset, body size"""
INT16: Final = struct.Struct(">h")

FIXED_SIZE: Final = {MAGIC_V1: 91, MAGIC_V2: 92}
"""Bytes of a record besides body, topic and properties, both hosts IPv4."""
HOST_V6_EXTRA: Final = 12
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
assert HOSTS_AT + 8 + AFTER_BORN_HOST.size + 8 + AFTER_STORE_HOST.size + 1 + 2 == FIXED_SIZE[MAGIC_V1]

Row = tuple[int, ...]


def examine(data: memoryview, position: int, stop: int, physical_base: int, check_crc: bool) -> Row | WalkEnd:
    """The record at `position` as a row of FRAME_DTYPE, or what stands there instead.

    At least eight bytes must lie between `position` and `stop`. The order of the checks is part of the contract.
    """
    size, magic = HEAD.unpack_from(data, position)
    if size == 0 and magic == 0:
        return WalkEnd.EMPTY
    if magic == MAGIC_BLANK:
        return WalkEnd.BLANK if size >= HEAD.size else WalkEnd.BAD_LENGTHS
    if magic not in FIXED_SIZE:
        return WalkEnd.BAD_MAGIC
    fixed_size = FIXED_SIZE[magic]
    if size < fixed_size:
        return WalkEnd.BAD_LENGTHS
    if size > stop - position:
        return WalkEnd.TRUNCATED
    _, _, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp_ms = (
        UP_TO_BORN_HOST.unpack_from(data, position)
    )
    after_born = position + HOSTS_AT + 8 + (HOST_V6_EXTRA if sys_flag & BORN_HOST_V6 else 0)
    after_store = after_born + AFTER_BORN_HOST.size + 8 + (HOST_V6_EXTRA if sys_flag & STORE_HOST_V6 else 0)
    body_position = after_store + AFTER_STORE_HOST.size
    topic_length_size = 2 if magic == MAGIC_V2 else 1
    variable_size = position + size - body_position - topic_length_size - INT16.size
    if variable_size < 0:
        return WalkEnd.BAD_LENGTHS
    (store_timestamp_ms,) = AFTER_BORN_HOST.unpack_from(data, after_born)
    reconsume_times, prepared_transaction_offset, body_size = AFTER_STORE_HOST.unpack_from(data, after_store)
    if not 0 <= body_size <= variable_size:
        return WalkEnd.BAD_LENGTHS
    body_end = body_position + body_size
    topic_size = INT16.unpack_from(data, body_end)[0] if magic == MAGIC_V2 else data[body_end]
    if not 0 <= topic_size <= variable_size - body_size:
        return WalkEnd.BAD_LENGTHS
    topic_position = body_end + topic_length_size
    (properties_size,) = INT16.unpack_from(data, topic_position + topic_size)
    if properties_size != variable_size - body_size - topic_size:  # which is not negative
        return WalkEnd.BAD_LENGTHS
    if physical_offset != physical_base + position:
        return WalkEnd.BAD_OFFSET
    crc_ok = not check_crc or zlib.crc32(data[body_position:body_end]) & 0x7FFFFFFF == body_crc
    return (
        position,
        physical_offset,
        queue_offset,
        born_timestamp_ms,
        store_timestamp_ms,
        prepared_transaction_offset,
        body_position,
        topic_position,
        topic_position + topic_size + INT16.size,
        size,
        magic,
        body_crc,
        queue_id,
        flag,
        sys_flag,
        reconsume_times,
        body_size,
        topic_size,
        properties_size,
        int(crc_ok),
        0,
    )
