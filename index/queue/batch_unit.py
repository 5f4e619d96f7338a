"""One entry of a batch consume queue: the place of one inner batch.

    0    physical offset    i64   of the record in the commit log
    8    size               i32   of the record
    12   tags code          i64   Java hash of the record's own tag, which is not one of its messages'
    20   store timestamp    i64   ms
    28   base               i64   queue offset of its first message
    36   count              i16   messages in it
    38   compacted offset   i32   -1
    42   reserved           i32   0

Entries stand one behind the other and are found by a search for the base; 46 bytes each.

(RocketMQ's `BatchConsumeQueue`.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BATCH_UNIT_DTYPE = np.dtype(
    [
        ("physical_offset", ">i8"),
        ("size", ">i4"),
        ("tags_code", ">i8"),
        ("store_timestamp_ms", ">i8"),
        ("base", ">i8"),
        ("count", ">i2"),
        ("compacted_offset", ">i4"),
        ("reserved", ">i4"),
    ]
)
BATCH_UNIT_SIZE = BATCH_UNIT_DTYPE.itemsize
assert BATCH_UNIT_SIZE == 46

NOT_COMPACTED = -1

BatchUnits = NDArray[Any]
"""An array of BATCH_UNIT_DTYPE."""


def valid_count(units: BatchUnits) -> int:
    """How many of the first entries point at records and follow each other: what comes behind was never written, or is
    garbage."""
    good = (units["physical_offset"] >= 0) & (units["size"] > 0) & (units["base"] >= 0) & (units["count"] > 0)
    # Of garbage, the sum may wrap around; a base below the end before it is wrong whichever way that comes.
    ends = units["base"].astype(np.int64) + units["count"]
    good[1:] &= (units["base"][1:] >= ends[:-1]) & (units["physical_offset"][1:] > units["physical_offset"][:-1])
    return len(units) if good.all() else int(good.argmin())


def same_batches(there: BatchUnits, units: BatchUnits) -> NDArray[np.bool_]:
    """Which entries say the same."""
    same = np.ones(len(units), np.bool_)
    for name in ("physical_offset", "size", "tags_code", "store_timestamp_ms", "base", "count"):
        same &= there[name] == units[name]
    return same
