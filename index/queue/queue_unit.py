"""One entry of a consume queue.

    0    physical offset   i64   of the record in the commit log
    8    size              i32   of the record
    12   tags code         i64   Java hash of the tag, sign-extended; 0 without a tag.
                                 In SCHEDULE_TOPIC_XXXX: the time of delivery in ms

Entry i of a queue stands at byte 20 * i of the logical file. (0, 7FFFFFFF, 0) is filler: RocketMQ writes it into the
first file of a queue that does not start at a file's first entry.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

UNIT = struct.Struct(">qiq")
UNIT_SIZE = UNIT.size
assert UNIT_SIZE == 20

UNIT_DTYPE = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
assert UNIT_DTYPE.itemsize == UNIT_SIZE

HIGHEST_EXTENSION_ADDRESS = -(1 << 31) - 1
"""A tags code at or below this is no hash: it is the address of a unit in RocketMQ's `consumequeue_ext`."""

FILLER_SIZE_FIELD = 0x7FFFFFFF
FILLER = UNIT.pack(0, FILLER_SIZE_FIELD, 0)

Units = NDArray[Any]
"""An array of UNIT_DTYPE."""


class QueueUnit(NamedTuple):
    """An entry, decoded."""

    physical_offset: int
    size: int
    tags_code: int

    def encode(self) -> bytes:
        return UNIT.pack(*self)

    @property
    def is_valid(self) -> bool:
        """Whether the entry points at a record: never-written bytes are zero, and filler is none."""
        return self.physical_offset >= 0 and self.size > 0 and not self.is_filler

    @property
    def is_filler(self) -> bool:
        return self.physical_offset == 0 and self.size == FILLER_SIZE_FIELD


def decode_unit(raw: bytes) -> QueueUnit:
    """The entry in 20 bytes."""
    return QueueUnit(*UNIT.unpack(raw))


def decode_units(raw: bytes) -> Units:
    """The whole entries in `raw`."""
    return np.frombuffer(raw, UNIT_DTYPE, len(raw) // UNIT_SIZE)


def valid_mask(units: Units) -> NDArray[np.bool_]:
    """Which entries point at a record."""
    is_filler = (units["physical_offset"] == 0) & (units["size"] == FILLER_SIZE_FIELD)
    mask: NDArray[np.bool_] = (units["physical_offset"] >= 0) & (units["size"] > 0) & ~is_filler
    return mask


def filler_mask(units: Units) -> NDArray[np.bool_]:
    """Which entries are filler."""
    mask: NDArray[np.bool_] = (units["physical_offset"] == 0) & (units["size"] == FILLER_SIZE_FIELD)
    return mask


def same_message(there: Units, units: Units) -> NDArray[np.bool_]:
    """Which entries say the same; an address in a queue extension stands for whatever tags code it hides."""
    place = (there["physical_offset"] == units["physical_offset"]) & (there["size"] == units["size"])
    code = (there["tags_code"] == units["tags_code"]) | (there["tags_code"] <= HIGHEST_EXTENSION_ADDRESS)
    same: NDArray[np.bool_] = place & code
    return same


def search(
    units: Callable[[int, int], Units], is_past: Callable[[Units], NDArray[np.bool_]], low: int, high: int
) -> int:
    """The first index in [low, high) whose entry is past a border, or `high`; the entries before it are not.

    `units` is a queue's way to its entries. An entry that cannot be read any more counts as past.
    """
    while low < high:
        middle = (low + high) // 2
        unit = units(middle, 1)
        if not len(unit) or bool(is_past(unit)[0]):
            high = middle
        else:
            low = middle + 1
    return low


def search_offset(units: Callable[[int, int], Units], physical_offset: int, low: int, high: int) -> int:
    """The first index in [low, high) whose entry points at a record at or after `physical_offset`, or `high`."""

    def is_past(unit: Units) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = valid_mask(unit) & (unit["physical_offset"] >= physical_offset)
        return mask

    if low < high and is_past(units(low, 1)).any():
        return low  # nothing has expired: the usual case, and one read instead of a dozen
    return search(units, is_past, low, high)
