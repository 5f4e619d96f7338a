"""What queues and the key index are to say of the records of a walk."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ...format import property_names as props
from ...format.frame import FRAME_ROW
from ...format.java_hash import java_hash
from ...format.listing import QUEUE_DTYPE
from ...format.sys_flag import INNER_BATCH, TRANSACTION_MASK, TRANSACTION_ROLLBACK, has_queue_entry
from .arguments import INT32_MAX, check_no_overlap, is_inside, readable, writable
from .messages import UNIT, decode_properties

if TYPE_CHECKING:
    from typing_extensions import Buffer

QUEUE = struct.Struct("<qiiii")
"""A row of QUEUE_DTYPE."""
assert QUEUE.size == QUEUE_DTYPE.itemsize

LIGHT_PAIR = (props.MULTI_QUEUE_OFFSET + props.NAME_END).encode()
PAIR_END = props.VALUE_END.encode()

Entry = tuple[int, int, int, int, int]
"""Physical offset, size, tags code; number of its row, queue offset."""


def list_rows(
    buffer: Buffer,
    rows: Buffer,
    apart_topic: Buffer,
    units: Buffer,
    row_numbers: Buffer,
    queues: Buffer,
    key_hashes: Buffer,
    key_offsets: Buffer,
    key_times: Buffer,
    /,
) -> tuple[int, int, int, int, int]:
    """(units, rows apart, queues, keys, inner batches). See `native.list_rows`."""
    inputs = readable(buffer), readable(rows), readable(apart_topic)
    names = ("units", "row_numbers", "queues", "key_hashes", "key_offsets", "key_times")
    given = (units, row_numbers, queues, key_hashes, key_offsets, key_times)
    outputs = [writable(output, name) for output, name in zip(given, names, strict=True)]
    data, table, apart_view = inputs
    count, rest = divmod(len(table), FRAME_ROW.size)
    if rest or count > INT32_MAX:
        raise ValueError(f"rows has {len(table)} bytes, which is no number of rows of {FRAME_ROW.size}")
    if any(len(outputs[i]) < size * count for i, size in enumerate((UNIT.size, 4, QUEUE.size))):
        raise ValueError("units, row_numbers and queues must have room for one a row")
    room = len(outputs[3]) // 4
    if any(len(output) < 8 * room for output in outputs[4:]):
        raise ValueError("key_offsets and key_times must have room for as many as key_hashes")
    check_no_overlap(inputs, outputs)

    apart_raw = bytes(apart_view)
    by_queue: dict[tuple[bytes, int], list[Entry]] = {}
    apart: list[int] = []
    keys: list[tuple[int, int, int]] = []
    batches = 0
    for number, row in enumerate(FRAME_ROW.iter_unpack(bytes(table))):
        physical_offset, queue_offset, store_ms = row[1], row[2], row[4]
        topic_at, properties_at, size, queue_id, sys_flag = row[7], row[8], row[9], row[12], row[14]
        topic_size, properties_size = row[17], row[18]
        if not is_inside(data, topic_at, topic_size) or not is_inside(data, properties_at, properties_size):
            raise ValueError("topic or properties of a row lie outside of the buffer")
        topic = bytes(data[topic_at : topic_at + topic_size])
        properties_raw = bytes(data[properties_at : properties_at + properties_size])
        properties = decode_properties(properties_raw)
        if sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK:
            keys += [(key_hash(topic, key), physical_offset, store_ms) for key in index_keys(properties)]
        batches += sys_flag & INNER_BATCH != 0
        if not has_queue_entry(sys_flag) or sys_flag & INNER_BATCH or queue_id < 0:
            continue
        if topic == apart_raw or not topic.isascii() or (PAIR_END + properties_raw).find(PAIR_END + LIGHT_PAIR) >= 0:
            apart.append(number)
            continue
        tags_code = java_hash(properties[props.TAGS]) if props.TAGS in properties else 0
        entry = physical_offset, size, tags_code, number, queue_offset
        by_queue.setdefault((topic, queue_id), []).append(entry)

    # Nothing is written before every row was looked at.
    unit_view, listed = outputs[0], outputs[2]
    numbers: list[int] = []
    for place, ((_, queue_id), entries) in enumerate(by_queue.items()):
        _, _, _, first_row, first = entries[0]
        is_run = [entry[4] for entry in entries] == list(range(first, first + len(entries)))
        QUEUE.pack_into(listed, place * QUEUE.size, first, first_row, queue_id, len(entries), is_run)
        for physical_offset, size, tags_code, number, _ in entries:
            UNIT.pack_into(unit_view, len(numbers) * UNIT.size, physical_offset, size, tags_code)
            numbers.append(number)
    struct.pack_into(f"={len(numbers) + len(apart)}i", outputs[1], 0, *numbers, *apart)
    for place, (hashed, physical_offset, store_ms) in enumerate(keys[:room]):
        struct.pack_into("=i", outputs[3], 4 * place, hashed)
        struct.pack_into("=q", outputs[4], 8 * place, physical_offset)
        struct.pack_into("=q", outputs[5], 8 * place, store_ms)
    return len(numbers), len(apart), len(by_queue), len(keys), batches


def index_keys(properties: dict[str, str]) -> list[str]:
    """The keys of a record: UNIQ_KEY first, then the tokens of KEYS. One that stands there twice is there twice, as in
    RocketMQ's files."""
    uniq_key = [properties[props.UNIQ_KEY]] if props.UNIQ_KEY in properties else []
    return uniq_key + props.split_keys(properties.get(props.KEYS, ""))


def key_hash(topic: bytes, key: str) -> int:
    """What an index entry keeps of a key: the same as `index_file.key_hash`."""
    hashed = abs(java_hash(f"{topic.decode('utf-8', 'replace')}#{key}"))
    return hashed if hashed <= INT32_MAX else 0  # of the one number without an absolute value
