"""From queue entries to the messages that they stand for, and from a record to its fields."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ...format.frame import (
    AFTER_STORE_HOST,
    FIXED_SIZE,
    FRAME_ROW,
    HEAD,
    PROPERTIES_SIZE,
    STORE_TIME,
    TOPIC_SIZE,
    WalkEnd,
)
from ...format.listing import UNIT_SIZE
from ...format.property_names import NAME_END, VALUE_END
from ...format.sys_flag import INNER_BATCH
from .arguments import INT32_MAX, check_no_overlap, column, integer, is_inside, readable, row_count, writable
from .walk import Row, host_places, look_at

if TYPE_CHECKING:
    from typing_extensions import Buffer

UNIT = struct.Struct(">qiq")
"""An entry of a queue: physical offset, size, tags code."""
assert UNIT.size == UNIT_SIZE

_Message = TypeVar("_Message")

set_field = object.__setattr__
"""For messages, which are frozen."""


def _found(
    data: memoryview,
    units: memoryview,
    queue_offsets: memoryview,
    topic: bytes,
    queue_ids: int | memoryview,
    physical_base: int,
    max_size: int,
) -> Iterator[tuple[Row, bytes]]:
    """The rows and the records of the leading entries, up to the first that is odd; a row's positions are in `data`."""
    offsets = column(queue_offsets, 64)
    if len(units) % UNIT.size or offsets is None or len(offsets) != len(units) // UNIT.size:
        raise ValueError("units must be whole entries, and queue_offsets an int64 column as long")
    ids = [queue_ids] * len(offsets) if isinstance(queue_ids, int) else column(queue_ids, 32)
    if ids is None or len(ids) != len(offsets):
        raise ValueError("queue_ids must be an int32, or an int32 column as long as units")
    entries = zip(UNIT.iter_unpack(bytes(units)), offsets, ids, strict=True)
    for (physical_offset, size, _), queue_offset, queue_id in entries:
        position = physical_offset - physical_base
        max_size -= size
        if size <= 0 or max_size < 0 or not is_inside(data, position, size):
            return
        record = bytes(data[position : position + size])  # the log may change meanwhile: what is checked is used
        row = look_at(memoryview(record), 0, size, physical_offset, True)
        if isinstance(row, WalkEnd) or not row[19] or row[14] & INNER_BATCH:
            return
        if (row[2], row[12], record[row[7] : row[7] + row[17]]) != (queue_offset, queue_id, topic):
            return
        yield row, record


def messages(
    buffer: Buffer,
    units: Buffer,
    queue_offsets: Buffer,
    topic: Buffer,
    queue_ids: int | Buffer,
    physical_base: int,
    max_size: int,
    message_type: type[_Message],
    /,
) -> list[_Message]:
    """The messages of the leading entries. See `native.messages`."""
    physical_base = integer(physical_base, "physical_base", 64)
    wanted = integer(queue_ids, "queue_ids", 32) if isinstance(queue_ids, int) else readable(queue_ids)
    max_size = integer(max_size, "max_size", 64)
    if not isinstance(message_type, type):
        raise TypeError("message_type is no type")
    data, unit_view, offset_view, topic_view = (readable(each) for each in (buffer, units, queue_offsets, topic))
    made: list[_Message] = []
    for row, record in _found(data, unit_view, offset_view, bytes(topic_view), wanted, physical_base, max_size):
        body_at, body_end = row[6], row[6] + row[16]
        message = object.__new__(message_type)
        set_field(message, "_rest", record[:body_at] + record[body_end:])
        set_field(message, "body", record[body_at:body_end])
        made.append(message)
    return made


def entry_rows(
    buffer: Buffer,
    units: Buffer,
    queue_offsets: Buffer,
    topic: Buffer,
    rows: Buffer,
    bodies: Buffer | None,
    physical_base: int,
    queue_id: int,
    max_size: int,
    /,
) -> tuple[int, int]:
    """(rows filled, bytes of bodies copied). See `native.entry_rows`."""
    physical_base = integer(physical_base, "physical_base", 64)
    queue_id = integer(queue_id, "queue_id", 32)
    max_size = integer(max_size, "max_size", 64)
    data, unit_view, offset_view, topic_view = (readable(each) for each in (buffer, units, queue_offsets, topic))
    table = writable(rows, "rows")
    room = None if bodies is None else writable(bodies, "bodies")
    capacity = row_count(table)
    check_no_overlap((data, unit_view, offset_view, topic_view), [table] if room is None else [table, room])
    found = _found(data, unit_view, offset_view, bytes(topic_view), queue_id, physical_base, max_size)
    filled = copied = 0
    for row, record in found:
        body_size = row[16]
        if filled == capacity or (room is not None and copied + body_size > len(room)):
            break
        if room is not None:
            room[copied : copied + body_size] = record[row[6] : row[6] + body_size]
            copied += body_size
        position = row[1] - physical_base
        in_data = (position, *row[1:6], position + row[6], position + row[7], position + row[8], *row[9:])
        FRAME_ROW.pack_into(table, filled * FRAME_ROW.size, *in_data)
        filled += 1
    return filled, copied


def record_fields(rest: bytes) -> tuple[Any, ...] | None:
    """The fields in the order of `fields.NAMES`; None unless it is a whole record but for its body."""
    if not min(FIXED_SIZE.values()) <= len(rest) <= INT32_MAX:
        return None
    head = HEAD.unpack_from(rest)
    size, magic, sys_flag = head[0], head[1], head[7]
    if magic not in FIXED_SIZE:
        return None
    store_time_at, store_host_at, after_hosts = host_places(sys_flag)
    topic_size_at = after_hosts + AFTER_STORE_HOST.size
    topic_at = topic_size_at + TOPIC_SIZE[magic].size
    variable_size = len(rest) - topic_at - PROPERTIES_SIZE.size
    if variable_size < 0:
        return None
    reconsume_times, prepared_transaction_offset, body_size = AFTER_STORE_HOST.unpack_from(rest, after_hosts)
    if body_size < 0 or size != len(rest) + body_size:
        return None
    (topic_size,) = TOPIC_SIZE[magic].unpack_from(rest, topic_size_at)
    if not 0 <= topic_size <= variable_size:
        return None
    properties_at = topic_at + topic_size + PROPERTIES_SIZE.size
    if PROPERTIES_SIZE.unpack_from(rest, properties_at - PROPERTIES_SIZE.size)[0] != variable_size - topic_size:
        return None
    return (
        *head,
        *STORE_TIME.unpack_from(rest, store_time_at),
        rest[store_host_at:after_hosts],
        reconsume_times,
        prepared_transaction_offset,
        rest[topic_at : topic_at + topic_size].decode("utf-8", "replace"),
        rest[properties_at:],
        None,
    )


def decode_properties(raw: Buffer, /) -> dict[str, str]:
    """Name to value. See `native.decode_properties`."""
    found: dict[str, str] = {}
    for pair in bytes(readable(raw)).decode("utf-8", "replace").split(VALUE_END):
        name, separator, value = pair.partition(NAME_END)
        if name and separator and value:
            found[name] = value
    return found
