"""Messages in Python: from queue entries to the messages that they stand for, and from a record to its fields.

The log may change meanwhile. So a record is copied first, and what is checked is the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..format.frame import FRAME_DTYPE, MAGIC_V2
from .pure_arguments import integer, readable, writable
from .pure_bulk import leading
from .pure_columns import gather, share, walk_places
from .pure_frame import (
    AFTER_BORN_HOST,
    AFTER_STORE_HOST,
    BORN_HOST_V6,
    FIXED_SIZE,
    HEAD,
    HOST_V6_EXTRA,
    HOSTS_AT,
    INT16,
    STORE_HOST_V6,
    UP_TO_BORN_HOST,
    examine,
)
from .pure_walk import BULK_FROM, walk

if TYPE_CHECKING:
    from typing_extensions import Buffer

UNIT: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
"""An entry of a queue; index/queue/queue_unit.py has more about it."""
INNER_BATCH: Final = 0x80
REST_MAX_SIZE: Final = (1 << 31) - 1

_Message = TypeVar("_Message")

set_field = object.__setattr__
"""For messages, which are frozen."""


def messages(
    buffer: Buffer,
    units: Buffer,
    queue_offsets: Buffer,
    topic: Buffer,
    physical_base: int,
    queue_id: int,
    max_size: int,
    message_type: type[_Message],
    /,
) -> list[_Message]:
    """The messages of the leading entries. See `native.messages`."""
    physical_base = integer(physical_base, "physical_base", 64)
    queue_id = integer(queue_id, "queue_id", 32)
    max_size = integer(max_size, "max_size", 64)
    if not isinstance(message_type, type):
        raise TypeError("message_type is no type")
    data, unit_view, offset_view, topic_view = (readable(each) for each in (buffer, units, queue_offsets, topic))
    count, beyond = divmod(len(unit_view), UNIT.itemsize)
    if beyond or len(offset_view) != 8 * count:
        raise ValueError("units must be whole entries, and queue_offsets an int64 column as long")
    wanted: list[int] = np.frombuffer(offset_view, np.int64).tolist()
    topic_raw = bytes(topic_view)
    places = _places(np.frombuffer(unit_view, UNIT, count), len(data), physical_base, max_size)
    found: list[_Message] = []
    for row, raw in _records(data, places, physical_base):
        body_at, body_end = row[6], row[6] + row[16]
        is_it = row[2] == wanted[len(found)] and row[12] == queue_id and not row[14] & INNER_BATCH
        if not is_it or not row[19] or raw[row[7] : row[7] + row[17]] != topic_raw:
            break
        message = object.__new__(message_type)
        set_field(message, "_rest", raw[row[0] : body_at] + raw[body_end : row[0] + row[9]])
        set_field(message, "body", raw[body_at:body_end])
        found.append(message)
    return found


def _places(units: NDArray[Any], data_size: int, physical_base: int, max_size: int) -> list[tuple[int, int]]:
    """(position, size) of the leading entries' records, as far as they lie in the data and in `max_size` bytes."""
    places = []
    left = max_size
    for physical_offset, size, _ in units.tolist():
        position = physical_offset - physical_base
        if position < 0 or not HEAD.size <= size <= left or position > data_size - size:
            break
        left -= size
        places.append((position, size))
    return places


def _records(data: memoryview, places: list[tuple[int, int]], physical_base: int) -> Any:
    """(row, bytes that hold the record at the row's position) of the leading places that hold one right record."""
    done = 0
    if len(places) > BULK_FROM:
        start = places[0][0]
        stop = start
        for position, size in places:  # one behind the other, as in a log of a single queue
            if position != stop:
                break
            stop += size
        raw = bytes(data[start:stop])
        rows: Any = np.empty(len(places), FRAME_DTYPE)
        count, _, _ = walk(raw, 0, len(raw), physical_base + start, True, rows)
        for row in rows[:count].tolist():
            if row[9] != places[done][1]:
                break
            yield row, raw
            done += 1
    for position, size in places[done:]:
        raw = bytes(data[position : position + size])
        one = examine(memoryview(raw), 0, size, physical_base + position, True)
        if not isinstance(one, tuple) or one[9] != size:
            return
        yield one, raw


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
    row_bytes = writable(rows, "rows")
    room = None if bodies is None else writable(bodies, "bodies")
    count, beyond = divmod(len(unit_view), UNIT.itemsize)
    if beyond or len(offset_view) != 8 * count:
        raise ValueError("units must be whole entries, and queue_offsets an int64 column as long")
    if len(row_bytes) % FRAME_DTYPE.itemsize:
        raise ValueError(f"rows has {len(row_bytes)} bytes, which is no multiple of {FRAME_DTYPE.itemsize}")
    given = [data, unit_view, offset_view, topic_view]
    if any(share(row_bytes, view) for view in given) or (
        room is not None and any(share(room, view) for view in [*given, row_bytes])
    ):
        raise ValueError("rows or bodies share memory with the others")

    table: NDArray[Any] = np.ndarray(len(row_bytes) // FRAME_DTYPE.itemsize, FRAME_DTYPE, row_bytes)
    entries = np.frombuffer(unit_view, UNIT, min(count, len(table)))
    physical, sizes = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
    positions = physical - physical_base  # what is beyond 64 bits becomes negative, or is not at or behind the base
    good = (physical >= physical_base) & (positions >= 0) & (sizes > 0) & (positions <= len(data) - sizes)
    good &= np.cumsum(np.maximum(sizes, 0)) <= max_size
    stop = leading(good)
    stop, _ = walk_places(data, positions[:stop], sizes[:stop], physical_base, True, table[:stop])
    found = table[:stop]
    good = (found["crc_ok"] != 0) & (found["sys_flag"] & INNER_BATCH == 0) & (found["queue_id"] == queue_id)
    good &= found["queue_offset"] == np.frombuffer(offset_view, np.int64)[:stop]
    good &= found["topic_size"] == len(topic_view)
    found = found[: leading(good)]
    topics = np.empty((len(found), len(topic_view)), np.uint8)
    gather(data, column(found, "topic_position"), column(found, "topic_size"), topics)
    found = found[: leading((topics == np.frombuffer(topic_view, np.uint8)).all(axis=1))]
    if room is None:
        return len(found), 0
    ends = np.cumsum(column(found, "body_size"))
    found = found[: leading(ends <= len(room))]
    copied = int(ends[len(found) - 1]) if len(found) else 0
    gather(data, column(found, "body_position"), column(found, "body_size"), room[:copied])
    return len(found), copied


def column(rows: NDArray[Any], name: str) -> NDArray[np.int64]:
    """A field of the rows, as the kernel takes columns."""
    return np.ascontiguousarray(rows[name], np.int64)


def record_fields(rest: bytes) -> tuple[Any, ...] | None:
    """The fields in the order of `pure_fields.NAMES`; None unless it is a whole record but for its body."""
    if not min(FIXED_SIZE.values()) <= len(rest) <= REST_MAX_SIZE:
        return None
    head = UP_TO_BORN_HOST.unpack_from(rest)
    size, magic, sys_flag = head[0], head[1], head[7]
    if magic not in FIXED_SIZE:
        return None
    after_born = HOSTS_AT + 8 + (HOST_V6_EXTRA if sys_flag & BORN_HOST_V6 else 0)
    store_host_at = after_born + AFTER_BORN_HOST.size
    after_store = store_host_at + 8 + (HOST_V6_EXTRA if sys_flag & STORE_HOST_V6 else 0)
    length_at = after_store + AFTER_STORE_HOST.size
    topic_at = length_at + (2 if magic == MAGIC_V2 else 1)
    variable_size = len(rest) - topic_at - INT16.size
    if variable_size < 0:
        return None
    reconsume_times, prepared_transaction_offset, body_size = AFTER_STORE_HOST.unpack_from(rest, after_store)
    if body_size < 0 or size != len(rest) + body_size:
        return None
    topic_size = INT16.unpack_from(rest, length_at)[0] if magic == MAGIC_V2 else rest[length_at]
    if not 0 <= topic_size <= variable_size:
        return None
    properties_at = topic_at + topic_size + INT16.size
    if INT16.unpack_from(rest, properties_at - INT16.size)[0] != variable_size - topic_size:
        return None
    return (
        *head,
        *AFTER_BORN_HOST.unpack_from(rest, after_born),
        rest[store_host_at:after_store],
        reconsume_times,
        prepared_transaction_offset,
        rest[topic_at : topic_at + topic_size].decode("utf-8", "replace"),
        rest[properties_at:],
        None,
    )


def decode_properties(raw: Buffer, /) -> dict[str, str]:
    """Name to value. See `native.decode_properties`."""
    found: dict[str, str] = {}
    for pair in bytes(readable(raw)).decode("utf-8", "replace").split("\x02"):
        name, separator, value = pair.partition("\x01")
        if name and separator and value:
            found[name] = value
    return found
