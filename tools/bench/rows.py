"""The messages that every writer gets: the same ones in every run, as plain rows."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .workloads import QUEUES, SEED

TAG = "tag"
ROWS_MAX = 200_000
"""More messages than that are the same rows over again, so that they fit into memory."""


@dataclass(frozen=True, slots=True)
class Row:
    """One message: all bodies are one object."""

    key: str
    queue_id: int
    body: bytes


def make_rows(body_size: int, count: int) -> list[Row]:
    """At most ROWS_MAX rows, keys `key-00000000` and so on, over QUEUES queues in turn."""
    body = random.Random(SEED).randbytes(body_size)
    return [Row(f"key-{i:08d}", i % QUEUES, body) for i in range(min(count, ROWS_MAX))]
