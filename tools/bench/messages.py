"""The messages of the bench, identical in every run: one topic, four queues, a tag and a key each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from ...engine.message_store import open_store
from ...store.format.record import prepare
from ...store.message import Message
from ...store.settings import StoreSettings

TOPIC, TAG, QUEUES, SEED = "bench", "tag", 4, 1
BATCH = 256
SEGMENT_SIZE = 64 << 20
ROWS_MAX = 200_000
"""Larger rounds repeat these rows, so that they fit into memory."""
HELD_BACK_MS = 3_600_000
"""A flush interval longer than any round."""
KEPT = StoreSettings(
    segment_size=SEGMENT_SIZE,
    queue_file_entries=100_000,
    flush_interval_ms=HELD_BACK_MS,
    queue_flush_interval_ms=HELD_BACK_MS,
)
"""Settings of stores that are written to be read."""
T = TypeVar("T")


class Row(NamedTuple):
    """One message; all rows of a size share one body object."""

    key: str
    queue_id: int
    body: bytes

    def message(self) -> Message:
        return Message(TOPIC, self.body, TAG, self.key, queue_id=self.queue_id)


_made: dict[int, list[Row]] = {}
"""Rows by body size, cached: making them takes longer than putting them."""


def make_rows(body_size: int, count: int) -> list[Row]:
    """At most ROWS_MAX rows, keys `key-00000000` and so on, over QUEUES queues in turn."""
    count = min(count, ROWS_MAX)
    rows = _made.setdefault(body_size, [])
    body = rows[0].body if rows else random.Random(SEED).randbytes(body_size)
    rows += [_row(i, body) for i in range(len(rows), count)]
    return rows[:count]


def _row(number: int, body: bytes) -> Row:
    return Row(f"key-{number:08d}", number % QUEUES, body)


@cache
def record_size(body_size: int) -> int:
    """Bytes of one of these messages in the log."""
    return prepare(_row(0, bytes(body_size)).message(), KEPT, SEGMENT_SIZE).size


def parts(rows: Sequence[T], batch: int = BATCH) -> list[Sequence[T]]:
    """The rows, or the units made from them, split by call."""
    return [rows[i : i + batch] for i in range(0, len(rows), batch)]


def fill(path: Path, settings: StoreSettings, body_size: int, count: int) -> Path:
    """A closed store of `count` different messages, written at the first call."""
    if not path.exists():
        body = random.Random(SEED).randbytes(body_size)
        with open_store(path, settings) as store:
            for numbers in parts(range(count)):
                store.put_many([_row(number, body).message() for number in numbers])
    return path
