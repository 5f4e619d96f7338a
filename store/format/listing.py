"""Arrays that `native.list_rows` fills: the queue entries of a walk's rows."""

from __future__ import annotations

from typing import Final

import numpy as np

UNIT_SIZE: Final = 20
"""An entry of a consume queue, as in its file; see index/queue/queue_unit.py."""

QUEUE_DTYPE: Final = np.dtype(
    [
        ("first_offset", "<i8"),  # queue offset of its first entry
        ("first_row", "<i4"),  # number of the row of its first entry, which has its topic
        ("queue_id", "<i4"),
        ("count", "<i4"),  # of its entries
        ("is_run", "<i4"),  # 1: each entry's queue offset is one above that before
    ]
)
"""A queue with entries of these rows, packed. The C kernel writes these bytes: a change here is a change of
`listing.h`."""

assert QUEUE_DTYPE.itemsize == 8 + 4 * 4 == 24
