"""What queues and the key index are to say of the records of a walk, in Python: one by one, and from some dozens on by
the gross; then properties that are laid out alike together (pure_layouts.py), the others as one text
(pure_properties.py)."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ..format import property_names as props
from ..format.frame import FRAME_DTYPE, Rows
from ..format.listing import QUEUE_DTYPE, UNIT_SIZE
from ..format.sys_flag import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE, TRANSACTION_ROLLBACK
from .pure_arguments import readable, writable
from .pure_hashes import Bytes, Hashes, hash_key, hash_keys, hash_texts, tag_hash
from .pure_hashes import topic_hash as hash_topic
from .pure_layouts import different_sizes, find_alike, texts_at
from .pure_messages import decode_properties
from .pure_properties import LIGHT_OFFSETS_NAME, TAGS_NAME, Places, Properties

if TYPE_CHECKING:
    from typing_extensions import Buffer

FEW_ROWS: Final = 32
"""Up to here one by one is faster."""
UNIT_DTYPE: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
UNIT: Final = struct.Struct(">qiq")
ROW_BYTES: Final = np.dtype(f"V{FRAME_DTYPE.itemsize}")
QUEUE: Final = struct.Struct("<qiiii")
assert UNIT_DTYPE.itemsize == UNIT.size == UNIT_SIZE and QUEUE.size == QUEUE_DTYPE.itemsize

VALUE_END = props.VALUE_END.encode()
SEPARATOR = props.KEY_SEPARATOR.encode()
KEYS_MARK, UNIQ_KEY_MARK, TAGS_MARK, LIGHT_MARK = (
    (name + props.NAME_END).encode() for name in (props.KEYS, props.UNIQ_KEY, props.TAGS, props.MULTI_QUEUE_OFFSET)
)

OUTSIDE: Final = "topic or properties of a row lie outside of the buffer"


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
    data, row_bytes, apart = inputs
    count, rest = divmod(len(row_bytes), FRAME_DTYPE.itemsize)
    if rest or count >= 1 << 31:
        raise ValueError(f"rows has {len(row_bytes)} bytes, which is no number of rows of {FRAME_DTYPE.itemsize}")
    if any(len(outputs[i]) < size * count for i, size in enumerate((UNIT_SIZE, 4, QUEUE_DTYPE.itemsize))):
        raise ValueError("units, row_numbers and queues must have room for one a row")
    room = len(outputs[3]) // 4
    if any(len(output) < 8 * room for output in outputs[4:]):
        raise ValueError("key_offsets and key_times must have room for as many as key_hashes")
    check_no_overlap(inputs, outputs)
    table: Rows = np.frombuffer(bytes(row_bytes), FRAME_DTYPE, count)
    if count <= FEW_ROWS:
        return _list_few(data, table.tolist(), bytes(apart), outputs, room)
    for name in ("topic", "properties"):
        start, size = table[f"{name}_position"], table[f"{name}_size"]
        if not ((start >= 0) & (size >= 0) & (size <= len(data)) & (start <= len(data) - size)).all():
            raise ValueError(OUTSIDE)
    return _list_many(data, table, bytes(apart), outputs, room)


def check_no_overlap(inputs: tuple[memoryview, ...], outputs: list[memoryview]) -> None:
    """Raises ValueError if a buffer that is written to shares memory with any other."""
    written = [_span(view) for view in outputs if view.nbytes]
    spans = sorted([_span(view) for view in inputs if view.nbytes] + written)
    free_from, written_to = 0, 0
    for start, stop in spans:
        if start < written_to or (start < free_from and (start, stop) in written):
            raise ValueError("a buffer that is written to shares memory with another")
        free_from = max(free_from, stop)
        if (start, stop) in written:
            written_to = max(written_to, stop)


def _span(view: memoryview) -> tuple[int, int]:
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address, address + view.nbytes


# -- one by one


def _list_few(
    data: memoryview, rows: list[tuple[int, ...]], apart_topic: bytes, outputs: list[memoryview], room: int
) -> tuple[int, int, int, int, int]:
    queues: dict[tuple[bytes, int], list[tuple[int, int, int, int, int]]] = {}
    apart, batches, size = [], 0, len(data)
    keys: list[tuple[int, int, int]] = []
    for number, row in enumerate(rows):
        sys_flag, queue_id = row[14], row[12]
        if not (0 <= row[7] <= size - row[17] and 0 <= row[8] <= size - row[18]) or row[17] < 0 or row[18] < 0:
            raise ValueError(OUTSIDE)
        transaction = sys_flag & TRANSACTION_MASK
        topic = bytes(data[row[7] : row[7] + row[17]])
        properties = bytes(data[row[8] : row[8] + row[18]])
        if properties and transaction != TRANSACTION_ROLLBACK:
            keys += [(hash_key(topic, key), row[1], row[4]) for key in index_keys(properties)]
        batches += sys_flag & INNER_BATCH != 0
        if transaction not in (TRANSACTION_NONE, TRANSACTION_COMMIT) or sys_flag & INNER_BATCH or queue_id < 0:
            continue
        if topic == apart_topic or not topic.isascii() or _has_pair(properties, LIGHT_MARK):
            apart.append(number)
            continue
        tag = _value(properties, TAGS_MARK) if TAGS_MARK in properties else b""
        entry = (row[1], row[9], _signed(tag_hash(tag)) if tag else 0, number, row[2])
        queues.setdefault((topic, queue_id), []).append(entry)
    # Nothing is written before every row was looked at.
    units, numbers, listed, at = outputs[0], outputs[1].cast("i"), outputs[2], 0
    for place, ((_, queue_id), entries) in enumerate(queues.items()):
        _, _, _, first_row, first = entries[0]
        is_run = all(entry[4] == first + i for i, entry in enumerate(entries))
        QUEUE.pack_into(listed, place * QUEUE.size, first, first_row, queue_id, len(entries), is_run)
        for physical_offset, record_size, code, number, _ in entries:
            UNIT.pack_into(units, at * UNIT_SIZE, physical_offset, record_size, code)
            numbers[at] = number
            at += 1
    for i, number in enumerate(apart, at):
        numbers[i] = number
    if keys and room:
        hashes, offsets, times = outputs[3].cast("i"), outputs[4].cast("q"), outputs[5].cast("q")
        for i, (key_hash, physical_offset, store_timestamp_ms) in enumerate(keys[:room]):
            hashes[i], offsets[i], times[i] = key_hash, physical_offset, store_timestamp_ms
    return at, len(apart), len(queues), len(keys), batches


def index_keys(properties_raw: bytes) -> list[bytes]:
    """The keys in a record's properties: UNIQ_KEY first, then the tokens of KEYS. One that stands there twice is there
    twice, as in RocketMQ's files."""
    keys = []
    if UNIQ_KEY_MARK in properties_raw:
        uniq_key = _value(properties_raw, UNIQ_KEY_MARK)
        if uniq_key:
            keys.append(uniq_key)
    if KEYS_MARK in properties_raw:
        text = _value(properties_raw, KEYS_MARK)
        if SEPARATOR in text:
            keys += filter(None, text.split(SEPARATOR))
        elif text:
            keys.append(text)
    return keys


def _value(raw: bytes, mark: bytes) -> bytes:
    """The value of a property whose name and separator occur in the text; empty if it has none."""
    at = raw.find(mark)
    if (at == 0 or raw.startswith(VALUE_END, at - 1)) and raw.find(mark, at + 1) < 0:
        start = at + len(mark)
        stop = raw.find(VALUE_END, start)
        return raw[start:] if stop < 0 else raw[start:stop]
    # Another name that ends alike, or a name that occurs twice.
    return decode_properties(raw).get(mark[:-1].decode(), "").encode()


def _has_pair(raw: bytes, mark: bytes) -> bool:
    return mark in raw and (raw.startswith(mark) or VALUE_END + mark in raw)


@lru_cache(maxsize=4096)
def _signed(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits


# -- by the gross


def _list_many(
    data: memoryview, rows: Rows, apart_topic: bytes, outputs: list[memoryview], room: int
) -> tuple[int, int, int, int, int]:
    buffer = np.frombuffer(data, np.uint8)
    topics, topic_of = _topics(buffer, rows)
    topic_hashes = np.array([hash_topic(topic) for topic in topics], np.uint32)
    sys_flags, queue_ids = rows["sys_flag"], rows["queue_id"]
    transaction = sys_flags & TRANSACTION_MASK
    is_batch = (sys_flags & INNER_BATCH) != 0

    owners, hashes, lengths, tags_codes, is_light = _in_properties(buffer, rows)
    is_indexed = transaction != TRANSACTION_ROLLBACK
    if not is_indexed.all():
        chosen = is_indexed[owners]
        owners, hashes, lengths = owners[chosen], hashes[chosen], lengths[chosen]
    key_hashes = hash_keys(topic_hashes[topic_of[owners]], hashes, lengths)

    is_listed = ((transaction == TRANSACTION_NONE) | (transaction == TRANSACTION_COMMIT)) & ~is_batch & (queue_ids >= 0)
    is_apart = np.array([topic == apart_topic or not topic.isascii() for topic in topics], np.bool_)[topic_of]
    is_apart |= is_light

    at, queues = _grouped(rows, topic_of, np.flatnonzero(is_listed & ~is_apart))
    units: NDArray[Any] = np.empty(len(at), UNIT_DTYPE)
    units["physical_offset"], units["size"] = rows["physical_offset"][at], rows["size"][at]
    units["tags_code"] = tags_codes[at]
    apart = np.flatnonzero(is_listed & is_apart)
    owners = owners[:room]
    _fill(outputs[0], UNIT_DTYPE, units)
    _fill(outputs[1], np.dtype(np.int32), np.concatenate((at, apart)))
    _fill(outputs[2], QUEUE_DTYPE, queues)
    _fill(outputs[3], np.dtype(np.int32), key_hashes[:room])
    _fill(outputs[4], np.dtype(np.int64), rows["physical_offset"][owners])
    _fill(outputs[5], np.dtype(np.int64), rows["store_timestamp_ms"][owners])
    return len(at), len(apart), len(queues), len(key_hashes), int(np.count_nonzero(is_batch))


def _in_properties(buffer: Bytes, rows: Rows) -> tuple[Places, Hashes, Places, NDArray[np.int32], NDArray[np.bool_]]:
    """The rows of all keys, ascending, their hashes and lengths; each row's tags code, and whether light queues list
    it."""
    tags_codes, is_light = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.bool_)
    no_keys = np.empty(0, np.int64)
    parts: list[tuple[Places, Hashes, Places]] = [(no_keys, np.empty(0, np.uint32), no_keys)]
    alike, others = find_alike(buffer, rows)
    for some in alike:
        at = some.row_numbers
        if some.keys:
            hashes = np.stack([hashes for hashes, _ in some.keys], axis=1).ravel()
            lengths = np.tile(np.array([length for _, length in some.keys], np.int64), len(at))
            parts.append((np.repeat(at, len(some.keys)), hashes, lengths))
        if some.tags_codes is not None:
            tags_codes[at] = some.tags_codes
        is_light[at] = some.is_light
    if len(others):
        properties = Properties(buffer, rows.view(ROW_BYTES)[others].view(FRAME_DTYPE))
        keys, tags = properties.keys(), properties.values(TAGS_NAME)
        hashes, lengths = hash_texts(properties.text, keys.starts, keys.stops)
        parts.append((others[keys.owners], hashes, lengths))
        tags_codes[others[tags.owners]] = hash_texts(properties.text, tags.starts, tags.stops)[0].view(np.int32)
        is_light[others[properties.named(LIGHT_OFFSETS_NAME).owners]] = True
    owners, hashes, lengths = parts[1] if len(parts) == 2 else map(np.concatenate, zip(*parts, strict=True))
    if len(parts) > 2:  # a row's own keys are in order
        order = np.argsort(owners, kind="stable")
        owners, hashes, lengths = owners[order], hashes[order], lengths[order]
    return owners, hashes, lengths, tags_codes, is_light


def _fill(target: memoryview, dtype: np.dtype[Any], values: Any) -> None:
    if len(values):  # as plain bytes: numpy copies items that have fields field by field
        target[: len(values) * dtype.itemsize] = np.ascontiguousarray(values, dtype).view(np.uint8).data


def _topics(buffer: NDArray[np.uint8], rows: Rows) -> tuple[list[bytes], NDArray[np.int64]]:
    """The topics that occur, and which of them each row has."""
    topics: list[bytes] = []
    topic_of = np.zeros(len(rows), np.int64)
    sizes = rows["topic_size"]
    for size in different_sizes(sizes):
        at = np.flatnonzero(sizes == size)
        if size == 0:
            topic_of[at] = len(topics)
            topics.append(b"")
            continue
        texts = texts_at(buffer, rows["topic_position"][at], size)
        if (texts == texts[0]).all():
            topic_of[at] = len(topics)
            topics.append(texts[0].tobytes())
            continue
        different, which = np.unique(texts.view(f"V{size}").ravel(), return_inverse=True)
        topic_of[at] = len(topics) + which
        topics += [text.tobytes() for text in different]
    return topics, topic_of


def _grouped(rows: Rows, topic_of: Places, at: Places) -> tuple[Places, NDArray[Any]]:
    """These rows by queue, queues in the order in which they come up; and the queues."""
    names, most = topic_of[at] << 32 | rows["queue_id"][at], 1 << 16
    if len(names) and names.max() < most:  # one topic: numbers that are sorted in two steps
        names = names.astype(np.uint16)
    order = np.argsort(names, kind="stable")
    starts = np.flatnonzero(_changes(names[order]))
    stops = np.append(starts[1:], len(order))
    firsts = order[starts]
    if (firsts[1:] < firsts[:-1]).any():
        come_up = np.argsort(firsts)
        parts = zip(starts[come_up].tolist(), stops[come_up].tolist(), strict=True)
        order = np.concatenate([order[start:stop] for start, stop in parts])
        counts = (stops - starts)[come_up]
        starts = np.cumsum(counts) - counts
    else:
        counts = stops - starts
    at = at[order]
    offsets = rows["queue_offset"][at]
    follows = np.ones(len(at), np.bool_)
    follows[1:] = (np.diff(offsets) == 1) & (offsets[1:] > offsets[:-1])
    follows[starts] = True
    queues: NDArray[Any] = np.empty(len(starts), QUEUE_DTYPE)
    first_rows = at[starts]
    queues["first_offset"], queues["first_row"], queues["count"] = offsets[starts], first_rows, counts
    queues["queue_id"] = rows["queue_id"][first_rows]
    queues["is_run"] = np.logical_and.reduceat(follows, starts) if len(starts) else True
    return at, queues


def _changes(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a number differs from the one before; at the first one, too."""
    changes = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=changes[1:])
    return changes
