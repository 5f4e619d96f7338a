"""Columns in Python: records at known places, ranges gathered into one run, records encoded from columns.

Columns are copied before they are checked, so what was checked is what is used.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..format.frame import FRAME_DTYPE, WalkEnd
from .pure_arguments import integer, readable, writable
from .pure_bulk import AFTER_SIZE_FIELDS, AFTER_STORE_HOST_FIELDS, walk_places_bulk
from .pure_encode import (
    BORN_HOST_V6,
    FIXED,
    HOST_BITS,
    PACK_PROPERTIES_SIZE,
    PACK_TOPIC_SIZE,
    PROPERTIES_MAX_SIZE,
    RECORD_MAX_SIZE,
    TOPIC_MAX_SIZE,
)
from .pure_frame import HEAD, examine

if TYPE_CHECKING:
    from typing_extensions import Buffer

PIECE: Final = 16_384
"""Records looked at at once."""
SMALL_SIZE: Final = 48
"""Mean bytes of a range below which picking bytes one by one in numpy is quicker than joining slices."""
SMALL_PIECE: Final = 1 << 16
LARGE_SIZE: Final = 4096
"""Mean bytes of a range from which copying each by itself is quicker than joining slices."""
INT64_MAX: Final = (1 << 63) - 1

Integers = NDArray[np.int64]


def walk_places(
    buffer: Buffer, positions: Buffer, sizes: Buffer, physical_base: int | Buffer, check_crc: bool, rows: Buffer, /
) -> tuple[int, int]:
    """(rows filled, WalkEnd). See `native.walk_places`."""
    base = integer(physical_base, "physical_base", 64) if isinstance(physical_base, int) else 0
    check_crc = bool(check_crc)
    data, place_view, size_view = readable(buffer), readable(positions), readable(sizes)
    base_view = None if isinstance(physical_base, int) else readable(physical_base)
    row_bytes = writable(rows, "rows")
    if base_view is None:
        places, lengths = _columns("positions and sizes", place_view, size_view)
        bases = np.full(len(places), base, np.int64)
    else:
        places, lengths, bases = _columns("positions, sizes and bases", place_view, size_view, base_view)
    if len(row_bytes) % FRAME_DTYPE.itemsize:
        raise ValueError(f"rows has {len(row_bytes)} bytes, which is no multiple of {FRAME_DTYPE.itemsize}")
    if _ranges_size(data, places, lengths) is None:
        raise ValueError("a place lies outside of the buffer")
    table: NDArray[Any] = np.ndarray(len(row_bytes) // FRAME_DTYPE.itemsize, FRAME_DTYPE, row_bytes)
    filled = 0
    while filled < min(len(places), len(table)):
        piece = slice(filled, min(filled + PIECE, len(table)))
        filled += walk_places_bulk(data, places[piece], lengths[piece], bases[piece], check_crc, table[piece])
        if filled < min(piece.stop, len(places)):  # something is wrong here: what?
            position, size = int(places[filled]), int(lengths[filled])
            if size < HEAD.size:
                return filled, int(WalkEnd.BAD_LENGTHS)
            found = examine(data, position, position + size, int(bases[filled]), check_crc)
            if isinstance(found, WalkEnd):
                return filled, int(found)
            if found[9] != size:
                return filled, int(WalkEnd.BAD_LENGTHS)
            table[filled] = found  # another process has finished writing it meanwhile
            filled += 1
    return filled, int(WalkEnd.END if filled == len(places) else WalkEnd.ROWS_FULL)


def gather(buffer: Buffer, starts: Buffer, sizes: Buffer, out: Buffer, /) -> int:
    """Bytes written. See `native.gather`."""
    data, start_view, size_view = readable(buffer), readable(starts), readable(sizes)
    target = writable(out, "out")
    places, lengths = _columns("starts and sizes", start_view, size_view)
    if any(share(target, view) for view in (data, start_view, size_view)):
        raise ValueError("out shares memory with what is gathered")
    size = _ranges_size(data, places, lengths)
    if size is None:
        raise ValueError("a range lies outside of the buffer")
    if size != len(target):
        raise ValueError(f"the ranges take {size} bytes, out has {len(target)}")
    if size < SMALL_SIZE * len(places):
        _gather_small(_bytes(data), places, lengths, _bytes(target))
    elif size >= LARGE_SIZE * len(places):
        _gather_large(_bytes(data), places, lengths, _bytes(target))
    else:
        ends = places + lengths
        target[:] = b"".join([data[i:j] for i, j in zip(places.tolist(), ends.tolist(), strict=True)])
    return size


def _gather_small(data: NDArray[np.uint8], starts: Integers, sizes: Integers, out: NDArray[np.uint8]) -> None:
    done = 0
    for first in range(0, len(starts), SMALL_PIECE):
        some = slice(first, first + SMALL_PIECE)
        ends = np.cumsum(sizes[some])
        size = int(ends[-1])
        from_byte = np.repeat(starts[some] - (ends - sizes[some]), sizes[some])
        from_byte += np.arange(size)
        out[done : done + size] = data[from_byte]
        done += size


def _gather_large(data: NDArray[np.uint8], starts: Integers, sizes: Integers, out: NDArray[np.uint8]) -> None:
    """Other threads run while numpy copies; none does while slices of a buffer are joined."""
    done = 0
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        out[done : done + size] = data[start : start + size]
        done += size


def number_rows(queue_ids: Buffer, ids: Buffer, next_offsets: Buffer, queue_offsets: Buffer, /) -> None:
    """See `native.number_rows`."""
    id_view, table_view = readable(queue_ids), readable(ids)
    next_view, out_view = writable(next_offsets, "next_offsets"), writable(queue_offsets, "queue_offsets")
    (queues,) = _columns("queue_ids", id_view, kind=np.int32)
    (table,) = _columns("ids", table_view, kind=np.int32)
    if len(next_view) != 8 * len(table) or len(out_view) != 8 * len(queues):
        raise ValueError("next_offsets must be an int64 column as long as ids, queue_offsets one as long as queue_ids")
    before = (id_view, table_view, next_view, out_view)
    if any(share(before[out], view) for out in (2, 3) for view in before[:out]):
        raise ValueError("a column that is written to shares memory with another")
    places = np.maximum(np.searchsorted(table, queues, side="right") - 1, 0)
    if (table[1:] <= table[:-1]).any() or (len(queues) and (not len(table) or (table[places] != queues).any())):
        raise ValueError("ids do not ascend, or a queue id is not among them")
    counts = np.bincount(places, minlength=len(table))
    order = np.argsort(places, kind="stable")
    rank = np.empty(len(queues), np.int64)
    rank[order] = np.arange(len(queues)) - np.repeat(np.cumsum(counts) - counts, counts)
    following: Integers = np.ndarray(len(table), np.int64, next_view)
    np.ndarray(len(queues), np.int64, out_view)[:] = following[places] + rank
    following += counts


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
    numbers32 = [readable(each) for each in (queue_ids, flags)]
    numbers64 = [readable(each) for each in (queue_offsets, born_timestamps_ms)]
    body_parts = [readable(each) for each in (bodies, body_starts, body_sizes)]
    properties_parts = [readable(each) for each in (properties, properties_starts, properties_sizes)]

    queues, marks = _columns("queue_ids and flags", *numbers32, kind=np.int32)
    offsets, born, first, length, properties_first, properties_length = _columns(
        "the other columns", *numbers64, *body_parts[1:], *properties_parts[1:]
    )
    if len(queues) != len(offsets):
        raise ValueError("the columns must be of one length")
    body_data, properties_data = body_parts[0], properties_parts[0]
    for data, starts, sizes in ((body_data, first, length), (properties_data, properties_first, properties_length)):
        if _ranges_size(data, starts, sizes) is None:
            raise ValueError("a body or properties lie outside of their buffer")
    record_sizes = _record_sizes(magic, sys_flag, shared, length, properties_length)
    size = int(record_sizes.sum())
    if physical_offset + size > INT64_MAX:
        raise ValueError("the records reach beyond the last physical offset")
    if not 0 <= position <= len(target) - size:
        raise ValueError(f"records of {size} bytes at {position} do not fit into a buffer of {len(target)} bytes")
    place = target[position : position + size]
    if any(share(place, view) for view in (*shared, *numbers32, *numbers64, *body_parts, *properties_parts)):
        raise ValueError("a column shares memory with where the records are going to stand")

    born_host_raw, store_host_raw, topic_raw = (bytes(view) for view in shared)
    found = _slices(body_data, first, length)
    texts = _slices(properties_data, properties_first, properties_length)
    fixed = np.zeros(len(record_sizes), _before_body(len(born_host_raw), len(store_host_raw)))
    fixed["size"], fixed["magic"], fixed["sys_flag"] = record_sizes, magic, sys_flag
    fixed["body_crc"] = np.fromiter(map(zlib.crc32, found), np.uint32, len(found)) & 0x7FFFFFFF
    fixed["queue_id"], fixed["flag"], fixed["queue_offset"] = queues, marks, offsets
    starts = np.cumsum(record_sizes) - record_sizes
    fixed["physical_offset"] = physical_offset + starts
    fixed["born_timestamp_ms"], fixed["store_timestamp_ms"] = born, store_timestamp_ms
    fixed["born_host"], fixed["store_host"] = np.void(born_host_raw), np.void(store_host_raw)
    fixed["body_size"] = length
    _write(place, starts, fixed, found, PACK_TOPIC_SIZE[magic](len(topic_raw)) + topic_raw if found else b"", texts)
    return size


def _slices(data: memoryview, starts: Integers, sizes: Integers) -> list[bytes]:
    return [bytes(data[i:j]) for i, j in zip(starts.tolist(), (starts + sizes).tolist(), strict=True)]


@lru_cache(maxsize=4)
def _before_body(born_host_size: int, store_host_size: int) -> np.dtype[Any]:
    """A record up to its body."""
    born_host = ("born_host", f"V{born_host_size}"), ("store_timestamp_ms", ">i8")
    store_host = ("store_host", f"V{store_host_size}")
    return np.dtype([("size", ">i4"), *AFTER_SIZE_FIELDS, *born_host, store_host, *AFTER_STORE_HOST_FIELDS])


def _write(
    place: memoryview, starts: Integers, fixed: NDArray[Any], bodies: list[bytes], topic: bytes, texts: list[bytes]
) -> None:
    """Write records one behind the other; their first bytes last and in order, so that none looks like one before all
    of it and all before it are there."""
    if not bodies:
        return
    width = fixed.dtype.itemsize
    table = fixed.view(np.uint8).reshape(len(fixed), width)
    heads = table[:, : HEAD.size].copy().view(f"V{HEAD.size}").ravel()
    table[:, : HEAD.size] = 0
    raw = table.tobytes()
    behind_body = {size: topic + PACK_PROPERTIES_SIZE(size) for size in {len(text) for text in texts}}
    parts: list[bytes] = []
    for at, body, text in zip(range(0, len(raw), width), bodies, texts, strict=True):
        parts += raw[at : at + width], body, behind_body[len(text)], text
    place[:] = b"".join(parts)
    windows: NDArray[Any] = np.ndarray(len(place) - HEAD.size + 1, heads.dtype, place, strides=(1,))
    windows[starts] = heads


def _record_sizes(
    magic: int, sys_flag: int, shared: list[memoryview], body_sizes: Integers, properties_sizes: Integers
) -> Integers:
    """Bytes of every record. Raises ValueError where there can be no such record."""
    if not len(body_sizes):
        return body_sizes
    born_host, store_host, topic = shared
    if magic not in TOPIC_MAX_SIZE:
        raise ValueError("magic is neither that of a V1 nor that of a V2 record")
    fixed = FIXED.get((sys_flag & HOST_BITS, len(born_host), len(store_host)))
    if fixed is None:
        raise ValueError(f"a host must have 8 bytes, or 20 with bit {BORN_HOST_V6:#x} or its neighbour of sys_flag")
    if len(topic) > TOPIC_MAX_SIZE[magic]:
        raise ValueError("topic exceeds 127 bytes (V1) or 32767 bytes (V2)")
    if (properties_sizes > PROPERTIES_MAX_SIZE).any():
        raise ValueError("properties exceed 32767 bytes")
    topic_length_size = 1 if TOPIC_MAX_SIZE[magic] == TOPIC_MAX_SIZE_V1 else 2
    sizes = body_sizes + properties_sizes + (HEAD.size + fixed.size + topic_length_size + len(topic) + 2)
    if (sizes > RECORD_MAX_SIZE).any():
        raise ValueError("the record exceeds 2147483647 bytes")
    return sizes


TOPIC_MAX_SIZE_V1: Final = min(TOPIC_MAX_SIZE.values())


def _columns(names: str, *views: memoryview, kind: DTypeLike = np.int64) -> list[NDArray[Any]]:
    """Copies of columns of one length. Raises ValueError if they are none."""
    item_size = np.dtype(kind).itemsize
    if any(len(view) % item_size or len(view) != len(views[0]) for view in views):
        raise ValueError(f"{names} must be columns of {8 * item_size}-bit integers, all of one length")
    return [np.frombuffer(bytes(view), kind) if len(view) else np.empty(0, kind) for view in views]


def _ranges_size(data: memoryview, starts: Integers, sizes: Integers) -> int | None:
    """The sum of all sizes; None if a range lies outside of the data."""
    if not len(starts):
        return 0
    if starts.min() < 0 or sizes.min() < 0 or sizes.max() > len(data) or (starts > len(data) - sizes).any():
        return None
    return int(sizes.sum())


def _bytes(view: memoryview) -> NDArray[np.uint8]:
    return np.ndarray(len(view), np.uint8, view)


def share(one: memoryview, other: memoryview) -> bool:
    return bool(len(one) and len(other)) and bool(np.may_share_memory(_bytes(one), _bytes(other)))
