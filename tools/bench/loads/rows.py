"""The messages that every writer gets: the same ones in every run, as plain rows."""

from __future__ import annotations

import random
from typing import NamedTuple

from ..cases.workloads import QUEUES, SEED

TAG = "tag"
ROWS_MAX = 200_000
"""More messages than that are the same rows over again, so that they fit into memory."""


class Row(NamedTuple):
    """One message: all bodies are one object."""

    key: str
    queue_id: int
    body: bytes


_made: dict[int, list[Row]] = {}
"""By body size. Kept for the next round: to make them takes longer than to put them."""


def make_rows(body_size: int, count: int) -> list[Row]:
    """At most ROWS_MAX rows, keys `key-00000000` and so on, over QUEUES queues in turn."""
    count = min(count, ROWS_MAX)
    rows = _made.setdefault(body_size, [])
    body = rows[0].body if rows else random.Random(SEED).randbytes(body_size)
    rows += [Row(f"key-{i:08d}", i % QUEUES, body) for i in range(len(rows), count)]
    return rows[:count]
