"""Encoding records: one, or one for each row of columns."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from ...format.frame import (
    AFTER_STORE_HOST,
    HEAD,
    PROPERTIES_MAX_SIZE,
    PROPERTIES_SIZE,
    SIZE_AND_MAGIC,
    STORE_TIME,
    TOPIC_MAX_SIZE,
    TOPIC_SIZE,
)
from ...format.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from .arguments import INT32_MAX, INT64_MAX, column, integer, is_inside, readable, share, writable
from .walk import HOST_SIZES

if TYPE_CHECKING:
    from typing_extensions import Buffer


def record_size(
    magic: int, sys_flag: int, born_host: int, store_host: int, body: int, topic: int, properties: int
) -> int:
    """Bytes of a record whose parts have these sizes. Raises ValueError if there can be no such record."""
    if magic not in TOPIC_MAX_SIZE:
        raise ValueError("magic is neither that of a V1 nor that of a V2 record")
    for size, bit in ((born_host, BORN_HOST_V6), (store_host, STORE_HOST_V6)):
        if size != HOST_SIZES[bool(sys_flag & bit)]:
            raise ValueError(f"a host must have 8 bytes, or 20 with bit {bit:#x} of sys_flag")
    if topic > TOPIC_MAX_SIZE[magic]:
        raise ValueError("topic exceeds 127 bytes (V1) or 32767 bytes (V2)")
    if properties > PROPERTIES_MAX_SIZE:
        raise ValueError("properties exceed 32767 bytes")
    fixed = HEAD.size + STORE_TIME.size + AFTER_STORE_HOST.size + TOPIC_SIZE[magic].size + PROPERTIES_SIZE.size
    size = fixed + born_host + store_host + body + topic + properties
    if size > INT32_MAX:
        raise ValueError("the record exceeds 2147483647 bytes")
    return size


def encoded(
    magic: int,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: bytes,
    store_timestamp_ms: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: bytes,
    topic: bytes,
    properties: bytes,
) -> bytes:
    """The record of values that were checked."""
    size = record_size(magic, sys_flag, *map(len, (born_host, store_host, body, topic, properties)))
    crc = zlib.crc32(body) & 0x7FFFFFFF
    return b"".join(
        (
            HEAD.pack(size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp_ms),
            born_host,
            STORE_TIME.pack(store_timestamp_ms),
            store_host,
            AFTER_STORE_HOST.pack(reconsume_times, prepared_transaction_offset, len(body)),
            body,
            TOPIC_SIZE[magic].pack(len(topic)),
            topic,
            PROPERTIES_SIZE.pack(len(properties)),
            properties,
        )
    )


def store(target: memoryview, position: int, record: bytes) -> None:
    """Write a record, its size and magic last: half of one never looks like a whole one."""
    behind = position + SIZE_AND_MAGIC.size
    target[behind : position + len(record)] = record[SIZE_AND_MAGIC.size :]
    target[position:behind] = record[: SIZE_AND_MAGIC.size]


def encode_record(
    buffer: Buffer,
    position: int,
    magic: int,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: Buffer,
    store_timestamp_ms: int,
    store_host: Buffer,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: Buffer,
    topic: Buffer,
    properties: Buffer,
    /,
) -> int:
    """Write one record; return its size in bytes. See `native.encode_record`."""
    position = integer(position, "position", 64)
    magic = integer(magic, "magic", 32)
    queue_id = integer(queue_id, "queue_id", 32)
    flag = integer(flag, "flag", 32)
    queue_offset = integer(queue_offset, "queue_offset", 64)
    physical_offset = integer(physical_offset, "physical_offset", 64)
    sys_flag = integer(sys_flag, "sys_flag", 32)
    born_timestamp_ms = integer(born_timestamp_ms, "born_timestamp_ms", 64)
    store_timestamp_ms = integer(store_timestamp_ms, "store_timestamp_ms", 64)
    reconsume_times = integer(reconsume_times, "reconsume_times", 32)
    prepared_transaction_offset = integer(prepared_transaction_offset, "prepared_transaction_offset", 64)
    target = writable(buffer, "buffer")
    parts = [readable(part) for part in (born_host, store_host, body, topic, properties)]
    size = record_size(magic, sys_flag, *map(len, parts))
    if not is_inside(target, position, size):
        raise ValueError(
            f"a record of {size} bytes at position {position} does not fit into a buffer of {len(target)} bytes"
        )
    # Copies: the parts may change meanwhile, or lie where the record is going to stand.
    born_raw, store_raw, body_raw, topic_raw, properties_raw = map(bytes, parts)
    record = encoded(
        *(magic, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp_ms, born_raw),
        *(store_timestamp_ms, store_raw, reconsume_times, prepared_transaction_offset),
        *(body_raw, topic_raw, properties_raw),
    )
    store(target, position, record)
    return size


def encode_columns(
    buffer: Buffer,
    position: int,
    magic: int,
    sys_flag: int,
    physical_offset: int,
    store_timestamp_ms: int,
    born_host: Buffer,
    store_host: Buffer,
    topic: Buffer,
    queue_ids: Buffer,
    flags: Buffer,
    queue_offsets: Buffer,
    born_timestamps_ms: Buffer,
    bodies: Buffer,
    body_starts: Buffer,
    body_sizes: Buffer,
    properties: Buffer,
    properties_starts: Buffer,
    properties_sizes: Buffer,
    /,
) -> int:
    """Bytes of all records. See `native.encode_columns`."""
    position = integer(position, "position", 64)
    magic = integer(magic, "magic", 32)
    sys_flag = integer(sys_flag, "sys_flag", 32)
    physical_offset = integer(physical_offset, "physical_offset", 64)
    store_timestamp_ms = integer(store_timestamp_ms, "store_timestamp_ms", 64)
    target = writable(buffer, "buffer")
    shared = [readable(each) for each in (born_host, store_host, topic)]
    narrow = [readable(each) for each in (queue_ids, flags)]
    wide = [readable(each) for each in (queue_offsets, born_timestamps_ms, body_starts, body_sizes)]
    wide += [readable(each) for each in (properties_starts, properties_sizes)]
    body_data, properties_data = readable(bodies), readable(properties)

    columns = [column(view, 32) for view in narrow] + [column(view, 64) for view in wide]
    if any(one is None or len(one) != len(columns[0] or ()) for one in columns):
        raise ValueError("queue_ids and flags must be int32 columns, the others int64 columns, all of one length")
    rows = list(zip(*(one for one in columns if one is not None), strict=True))
    size = 0
    for *_, body_start, body_size, text_start, text_size in rows:
        if not is_inside(body_data, body_start, body_size) or not is_inside(properties_data, text_start, text_size):
            raise ValueError("a body or properties lie outside of their buffer")
        size += record_size(magic, sys_flag, len(shared[0]), len(shared[1]), body_size, len(shared[2]), text_size)
    if physical_offset + size > INT64_MAX:
        raise ValueError("the records reach beyond the last physical offset")
    if not is_inside(target, position, size):
        raise ValueError(f"records of {size} bytes at {position} do not fit into a buffer of {len(target)} bytes")
    place = target[position : position + size]
    if any(share(place, view) for view in (*shared, *narrow, *wide, body_data, properties_data)):
        raise ValueError("a column shares memory with where the records are going to stand")

    born_raw, store_raw, topic_raw = map(bytes, shared)
    at = 0
    for queue_id, flag, queue_offset, born_ms, body_start, body_size, text_start, text_size in rows:
        record = encoded(
            *(magic, queue_id, flag, queue_offset, physical_offset + at, sys_flag, born_ms, born_raw),
            *(store_timestamp_ms, store_raw, 0, 0, bytes(body_data[body_start : body_start + body_size])),
            *(topic_raw, bytes(properties_data[text_start : text_start + text_size])),
        )
        store(place, at, record)
        at += len(record)
    return size
