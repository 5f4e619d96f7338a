"""Build the queue and key entries of the records of a walk in one pass.

A live store, recovery and the read-only view share this rule: `native.list_rows` implements it, and dispatch.py adds
the entries of the rows that it leaves to Python.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...store import native
from ...store.format.frame import Rows
from ...store.format.listing import QUEUE_DTYPE
from ..key.key_entries import KeyEntries
from ..queue.queue_unit import UNIT_DTYPE, Units

KEYS_A_ROW = 3
"""Initial room for keys per record: a uniq key and one or two keys are usual."""


class BuiltEntries(NamedTuple):
    """See `native.list_rows`. Rows are named by their numbers."""

    units: Units
    row_numbers: NDArray[np.int32]
    apart: NDArray[np.int32]
    """Rows left to Python: their queue entries are not among these."""
    queues: list[tuple[int, int, int, int, int]]
    """As QUEUE_DTYPE, in the order of their entries in `units`."""
    keys: KeyEntries
    batch_count: int
    """Number of rows that are inner batches."""


def build_entries(piece: bytes | memoryview, rows: Rows, apart_topic: bytes = b"") -> BuiltEntries:
    """The entries of the records in `rows`, whose positions count from the start of `piece`."""
    count = len(rows)
    units: Units = np.empty(count, UNIT_DTYPE)
    row_numbers = np.empty(count, np.int32)
    queues: NDArray[Any] = np.empty(count, QUEUE_DTYPE)
    room, found = 0, KEYS_A_ROW * count + 1
    while found > room:
        room = found
        hashes, offsets, times = np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
        unit_count, apart_count, queue_count, found, batch_count = native.list_rows(
            *(piece, rows, apart_topic, units, row_numbers, queues, hashes, offsets, times)
        )
    return BuiltEntries(
        units[:unit_count],
        row_numbers[:unit_count],
        row_numbers[unit_count : unit_count + apart_count],
        queues[:queue_count].tolist(),
        KeyEntries(hashes[:found], offsets[:found], times[:found]),
        batch_count,
    )


def key_entries(piece: bytes | memoryview, rows: Rows) -> KeyEntries:
    """The keys of the records in `rows`, whose positions count from the start of `piece`."""
    return build_entries(piece, rows).keys
