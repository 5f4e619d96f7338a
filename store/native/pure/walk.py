"""Walking over records: what stands at a position of the log, decided in the order of the rules."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from ...format.frame import (
    AFTER_STORE_HOST,
    BORN_HOST_AT,
    FIXED_SIZE,
    FRAME_ROW,
    HEAD,
    MAGIC_BLANK,
    PROPERTIES_SIZE,
    SIZE_AND_MAGIC,
    STORE_TIME,
    TOPIC_SIZE,
    WalkEnd,
)
from ...format.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from .arguments import column, integer, is_inside, readable, row_count, writable

if TYPE_CHECKING:
    from typing_extensions import Buffer

HOST_SIZES = 8, 20
"""Size of an IPv4 host and of an IPv6 host."""

Row = tuple[int, ...]
"""A row of `frame.FRAME_DTYPE`."""


def host_places(sys_flag: int) -> tuple[int, int, int]:
    """Bytes of a record where the store timestamp, the store host and what is behind it stand."""
    store_time_at = BORN_HOST_AT + HOST_SIZES[bool(sys_flag & BORN_HOST_V6)]
    store_host_at = store_time_at + STORE_TIME.size
    return store_time_at, store_host_at, store_host_at + HOST_SIZES[bool(sys_flag & STORE_HOST_V6)]


def examine(data: memoryview, position: int, stop: int, physical_base: int, check_crc: bool) -> Row | WalkEnd:
    """The record at `position` as a row of FRAME_DTYPE, or what stands there instead.

    At least eight bytes must lie between `position` and `stop`. The order of the checks is part of the contract.
    """
    size, magic = SIZE_AND_MAGIC.unpack_from(data, position)
    if size == 0 and magic == 0:
        return WalkEnd.EMPTY
    if magic == MAGIC_BLANK:
        return WalkEnd.BLANK if size >= SIZE_AND_MAGIC.size else WalkEnd.BAD_LENGTHS
    if magic not in FIXED_SIZE:
        return WalkEnd.BAD_MAGIC
    if size < FIXED_SIZE[magic]:
        return WalkEnd.BAD_LENGTHS
    if size > stop - position:
        return WalkEnd.TRUNCATED
    # A copy: another process may change the log meanwhile, and what was checked is what is used.
    record = bytes(data[position : position + size])
    _, _, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_ms = HEAD.unpack_from(record)
    store_time_at, _, after_hosts = host_places(sys_flag)
    body_at = after_hosts + AFTER_STORE_HOST.size
    topic_size_field = TOPIC_SIZE[magic]
    variable_size = size - body_at - topic_size_field.size - PROPERTIES_SIZE.size
    if variable_size < 0:
        return WalkEnd.BAD_LENGTHS
    (store_ms,) = STORE_TIME.unpack_from(record, store_time_at)
    reconsume_times, prepared_offset, body_size = AFTER_STORE_HOST.unpack_from(record, after_hosts)
    if not 0 <= body_size <= variable_size:
        return WalkEnd.BAD_LENGTHS
    body_end = body_at + body_size
    (topic_size,) = topic_size_field.unpack_from(record, body_end)
    if not 0 <= topic_size <= variable_size - body_size:
        return WalkEnd.BAD_LENGTHS
    topic_at = body_end + topic_size_field.size
    (properties_size,) = PROPERTIES_SIZE.unpack_from(record, topic_at + topic_size)
    if properties_size != variable_size - body_size - topic_size:  # which is not negative
        return WalkEnd.BAD_LENGTHS
    if physical_offset != physical_base + position:
        return WalkEnd.BAD_OFFSET
    crc_ok = not check_crc or zlib.crc32(record[body_at:body_end]) & 0x7FFFFFFF == body_crc
    return (
        *(position, physical_offset, queue_offset, born_ms, store_ms, prepared_offset),
        *(position + body_at, position + topic_at, position + topic_at + topic_size + PROPERTIES_SIZE.size),
        *(size, magic, body_crc, queue_id, flag, sys_flag, reconsume_times),
        *(body_size, topic_size, properties_size, int(crc_ok), 0),
    )


def walk(
    buffer: Buffer, start: int, stop: int, physical_base: int, check_crc: bool, rows: Buffer, /
) -> tuple[int, int, int]:
    """(rows filled, position of the first frame not consumed, WalkEnd). See `native.walk`."""
    position = integer(start, "start", 64)
    stop = integer(stop, "stop", 64)
    physical_base = integer(physical_base, "physical_base", 64)
    check_crc = bool(check_crc)
    data = readable(buffer)
    table = writable(rows, "rows")
    if not 0 <= position <= stop <= len(data):
        raise ValueError(f"start and stop must satisfy 0 <= start <= stop <= {len(data)} (bytes in the buffer)")
    room = row_count(table)
    filled = 0
    while stop - position >= SIZE_AND_MAGIC.size:
        if filled == room:
            return filled, position, int(WalkEnd.ROWS_FULL)
        found = examine(data, position, stop, physical_base, check_crc)
        if isinstance(found, WalkEnd):
            return filled, position, int(found)
        FRAME_ROW.pack_into(table, filled * FRAME_ROW.size, *found)
        filled += 1
        position += found[9]
    return filled, position, int(WalkEnd.END)


def look_at(data: memoryview, position: int, size: int, physical_base: int, check_crc: bool) -> Row | WalkEnd:
    """The record that takes up all of this place, or why there is none."""
    if size < SIZE_AND_MAGIC.size:
        return WalkEnd.BAD_LENGTHS
    found = examine(data, position, position + size, physical_base, check_crc)
    return WalkEnd.BAD_LENGTHS if isinstance(found, tuple) and found[9] != size else found


def walk_places(
    buffer: Buffer, positions: Buffer, sizes: Buffer, physical_base: int | Buffer, check_crc: bool, rows: Buffer, /
) -> tuple[int, int]:
    """(rows filled, WalkEnd). See `native.walk_places`."""
    base = integer(physical_base, "physical_base", 64) if isinstance(physical_base, int) else None
    check_crc = bool(check_crc)
    data, place_view, size_view = readable(buffer), readable(positions), readable(sizes)
    base_view = None if isinstance(physical_base, int) else readable(physical_base)
    table = writable(rows, "rows")
    places, lengths = column(place_view, 64), column(size_view, 64)
    bases = None if places is None else [base] * len(places) if base_view is None else column(base_view, 64)
    if places is None or lengths is None or bases is None or not len(places) == len(lengths) == len(bases):
        raise ValueError("positions, sizes and bases must be int64 columns of one length")
    room = row_count(table)
    if not all(map(is_inside, [data] * len(places), places, lengths)):
        raise ValueError("a place lies outside of the buffer")
    for filled, (position, size, its_base) in enumerate(zip(places, lengths, bases, strict=True)):
        if filled == room:
            return filled, int(WalkEnd.ROWS_FULL)
        found = look_at(data, position, size, its_base or 0, check_crc)
        if isinstance(found, WalkEnd):
            return filled, int(found)
        FRAME_ROW.pack_into(table, filled * FRAME_ROW.size, *found)
    return len(places), int(WalkEnd.END)
