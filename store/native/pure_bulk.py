"""Walking many frames at once: the sizes lead from frame to frame, numpy then checks and gathers all other fields.

Fields lie at any position, so they are read through *windows*: an array with one overlapping item at every byte. Every
field is read once, and what was read is what is checked and used, even if another process changes the log meanwhile.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..format.frame import MAGIC_V1, MAGIC_V2
from .pure_frame import BORN_HOST_V6, FIXED_SIZE, HOST_V6_EXTRA, HOSTS_AT, STORE_HOST_V6

SIZE: Final = struct.Struct(">i")
LEAST_SIZE: Final = FIXED_SIZE[MAGIC_V1]
INT64_MAX: Final = (1 << 63) - 1

AFTER_SIZE_FIELDS: Final = [
    ("magic", ">i4"),
    ("body_crc", ">i4"),
    ("queue_id", ">i4"),
    ("flag", ">i4"),
    ("queue_offset", ">i8"),
    ("physical_offset", ">i8"),
    ("sys_flag", ">i4"),
    ("born_timestamp_ms", ">i8"),
]
AFTER_SIZE: Final = np.dtype(AFTER_SIZE_FIELDS)
AFTER_STORE_HOST_FIELDS: Final = [
    ("reconsume_times", ">i4"),
    ("prepared_transaction_offset", ">i8"),
    ("body_size", ">i4"),
]
AFTER_STORE_HOST: Final = np.dtype(AFTER_STORE_HOST_FIELDS)
BEFORE_BODY: Final = np.dtype(
    [
        *AFTER_SIZE_FIELDS,
        *[("born_host", "V8"), ("store_timestamp_ms", ">i8"), ("store_host", "V8")],
        *AFTER_STORE_HOST_FIELDS,
    ]
)
"""Both hosts IPv4. Every record is at least that long."""
assert SIZE.size + AFTER_SIZE.itemsize == HOSTS_AT
assert HOSTS_AT + 8 + 8 + 8 + AFTER_STORE_HOST.itemsize + 1 + 2 == LEAST_SIZE
assert SIZE.size + BEFORE_BODY.itemsize + 1 + 2 == LEAST_SIZE

RUN: Final = 64
"""Frames that are asked whether they have one size."""
SHORT_RUN: Final = 16
"""Below this one by one would have been quicker; so it is done for the next ONE_BY_ONE frames."""
ONE_BY_ONE: Final = 512

Columns = dict[str, NDArray[Any]]
Integers = NDArray[np.int64]


def walk_bulk(
    data: memoryview, position: int, stop: int, physical_base: int, check_crc: bool, rows: NDArray[Any]
) -> tuple[int, int]:
    """Fill rows up to the first frame that is no whole, right record, or all of them: (rows filled, next position)."""
    positions = _follow_sizes(data, position, stop, len(rows))
    while len(positions) > 1:
        columns, good = _gather(data, positions[:-1], np.diff(positions), stop, physical_base)
        if good == len(positions) - 1:
            _fill(rows[:good], data, columns, check_crc)
            return good, int(positions[-1])
        positions = positions[: good + 1]
    return 0, position


def walk_places_bulk(
    data: memoryview, positions: Integers, sizes: Integers, bases: Integers, check_crc: bool, rows: NDArray[Any]
) -> int:
    """Fill rows from these places, all inside the data and each with its physical base, up to the first that does not
    hold just one right record."""
    count = leading(sizes >= LEAST_SIZE)
    if count:
        count = leading(_windows(data, len(data), ">i4")[positions[:count]] == sizes[:count])
    while count:
        columns, good = _gather(data, positions[:count], sizes[:count], len(data), bases[:count])
        if good == count:
            _fill(rows[:count], data, columns, check_crc)
            break
        count = good
    return count


def _fill(rows: NDArray[Any], data: memoryview, columns: Columns, check_crc: bool) -> None:
    if check_crc:
        columns["crc_ok"] = _check_crcs(data, columns)
    for name, column in columns.items():
        rows[name] = column


def _follow_sizes(data: memoryview, position: int, stop: int, limit: int) -> Integers:
    """Where up to `limit` frames would stand if every size were right, and where the last of them would end."""
    parts: list[Integers] = []
    wanted = RUN
    while limit > 0 and stop - position >= LEAST_SIZE:
        (size,) = SIZE.unpack_from(data, position)
        if not LEAST_SIZE <= size <= stop - position:
            break
        # Frames of one size stand at equal distances.
        run = min(limit, wanted, (stop - position) // size)
        same = leading(np.ndarray(run, ">i4", data, position, (size,)) == size)
        parts.append(position + size * np.arange(same))
        position += size * same
        limit -= same
        wanted = 2 * wanted if same == wanted else RUN
        if same < SHORT_RUN:
            found, position = _follow_one_by_one(data, position, stop, min(limit, ONE_BY_ONE))
            if not found:
                break
            parts.append(np.array(found, np.int64))
            limit -= len(found)
    return np.concatenate([*parts, np.array([position], np.int64)])


def _follow_one_by_one(data: memoryview, position: int, stop: int, limit: int) -> tuple[list[int], int]:
    """The same: where they would stand, and where the last of them would end."""
    unpack = SIZE.unpack_from
    positions: list[int] = []
    add = positions.append
    for _ in range(limit):
        if stop - position < LEAST_SIZE:
            break
        (size,) = unpack(data, position)
        if not LEAST_SIZE <= size <= stop - position:
            break
        add(position)
        position += size
    return positions, position


def _gather(
    data: memoryview, position: Integers, size: Integers, stop: int, physical_base: int | Integers
) -> tuple[Columns, int]:
    """The columns of FRAME_DTYPE for the frames at these places, and how many of the frames are right.

    The columns are complete only if all are: a field is not looked for where the fields before it make no sense.
    """
    columns: Columns = {"position": position, "size": size}
    columns |= {"crc_ok": np.ones(len(size), np.int32), "reserved": np.zeros(len(size), np.int32)}
    # As plain bytes: numpy copies items that have fields field by field.
    fields = _windows(data, stop, f"V{BEFORE_BODY.itemsize}")[position + SIZE.size].view(BEFORE_BODY)
    columns |= {name: fields[name] for name, _ in AFTER_SIZE_FIELDS}
    magic, sys_flag = fields["magic"], fields["sys_flag"]
    v2 = magic == MAGIC_V2
    topic_length_size = np.where(v2, 2, 1)
    after_born = position + HOSTS_AT + np.where(sys_flag & BORN_HOST_V6, 8 + HOST_V6_EXTRA, 8)
    after_store = after_born + 8 + np.where(sys_flag & STORE_HOST_V6, 8 + HOST_V6_EXTRA, 8)
    body_position = after_store + AFTER_STORE_HOST.itemsize
    variable_size = position + size - body_position - topic_length_size - 2
    # The difference may wrap around, and then equals the base only where the place itself is beyond 64 bits.
    in_place = (fields["physical_offset"] - position == physical_base) & (
        position <= INT64_MAX - np.maximum(physical_base, 0)
    )
    good = leading((v2 | (magic == MAGIC_V1)) & in_place & (variable_size >= 0))
    if good < len(position):
        return columns, good

    if (sys_flag & (BORN_HOST_V6 | STORE_HOST_V6)).any():
        columns["store_timestamp_ms"] = _windows(data, stop, ">i8")[after_born]
        fields = _windows(data, stop, AFTER_STORE_HOST)[after_store]
    else:
        columns["store_timestamp_ms"] = fields["store_timestamp_ms"]
    columns |= {name: fields[name] for name, _ in AFTER_STORE_HOST_FIELDS}
    body_size = fields["body_size"].astype(np.int64)
    good = leading((body_size >= 0) & (body_size <= variable_size))
    if good < len(position):
        return columns, good

    int16 = _windows(data, stop, ">i2")
    body_end = body_position + body_size
    topic_size = _windows(data, stop, "u1")[body_end].astype(np.int64)
    if v2.any():
        topic_size = np.where(v2, int16[body_end], topic_size)
    good = leading((topic_size >= 0) & (topic_size <= variable_size - body_size))
    if good < len(position):
        return columns, good

    topic_position = body_end + topic_length_size
    topic_end = topic_position + topic_size
    properties_size = int16[topic_end].astype(np.int64)
    columns |= {
        "body_position": body_position,
        "topic_position": topic_position,
        "properties_position": topic_end + 2,
        "topic_size": topic_size,
        "properties_size": properties_size,
    }
    return columns, leading(properties_size == variable_size - body_size - topic_size)


def _windows(data: memoryview, stop: int, dtype: DTypeLike) -> NDArray[Any]:
    """One item at every byte before `stop` at which a whole one lies."""
    kind = np.dtype(dtype)
    return np.ndarray(stop - kind.itemsize + 1, kind, data, strides=(1,))


def leading(good: NDArray[np.bool_]) -> int:
    """How many hold before the first that does not."""
    return len(good) if good.all() else int(good.argmin())


def _check_crcs(data: memoryview, columns: Columns) -> NDArray[np.bool_]:
    first = columns["body_position"]
    last = first + columns["body_size"]
    crc32 = zlib.crc32
    found = [crc32(data[i:j]) for i, j in zip(first.tolist(), last.tolist(), strict=True)]
    checked: NDArray[np.bool_] = (np.array(found, np.int64) & 0x7FFFFFFF) == columns["body_crc"]
    return checked
