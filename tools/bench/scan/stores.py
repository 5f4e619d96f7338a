"""The stores that `flightlog bench scan` reads: distinct bodies, keys and tags, four queues of each topic."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from ....engine.message_store import open_store
from ....engine.read_only import open_read_only
from ....store.settings import StoreSettings

SHARES = (1, 10, 30)
"""Percent of the messages in each of these topics, spread over the log."""
WINDOW = (0.7, 0.8)
"""The window of time, as fractions of a store of two segments."""

TOPICS, QUEUES, SEED = 4, 4, 1
POOL_SIZE = 64 << 20
"""Random bytes from which consecutive bodies are cut, so that no two nearby bodies are alike."""
TAGS = ("create", "pay", "deduct")
RECORD_OVERHEAD = 160
"""Estimated bytes of a record besides its body."""


@dataclass(frozen=True)
class ScanStore:
    """A written store, with the facts that queries need."""

    path: Path
    body_size: int
    size: int
    """Bytes of records in its log."""
    count: int
    window_ms: tuple[int, int]
    """Store times of WINDOW: of its first message, and of the first message after it."""


def share_topic(share: int) -> str:
    return f"share-{share}"


def write_plain(path: Path, body_size: int, size: int) -> ScanStore:
    """Four topics in turn, in one segment of `size` bytes."""
    queues = [(f"topic-{i % TOPICS}", i // TOPICS) for i in range(TOPICS * QUEUES)]
    return _write(path, body_size, size, size, queues)


def write_shares(path: Path, body_size: int, size: int) -> ScanStore:
    """A topic for each of SHARES and one with the rest, well mixed, in two segments that have `size` bytes together."""
    topics = [share_topic(share) for share in SHARES for _ in range(share)]
    topics += ["rest"] * (100 - len(topics))
    random.Random(SEED).shuffle(topics)
    queues = [(topic, i) for i in range(QUEUES) for topic in topics]
    return _write(path, body_size, size, size // 2, queues)


def _write(path: Path, body_size: int, size: int, segment_size: int, queues: Sequence[tuple[str, int]]) -> ScanStore:
    pool = random.Random(SEED).randbytes(max(POOL_SIZE, 2 * body_size))
    count = max(size // (body_size + RECORD_OVERHEAD) * 99 // 100, 100)
    marks = {int(part * count): part for part in WINDOW}
    times_ms = []
    with open_store(path, StoreSettings(segment_size=segment_size)) as store:
        appends = cycle([store.queue(*queue).append for queue in queues])
        position = 0
        for i, append in enumerate(islice(appends, count)):
            if i in marks:
                times_ms.append(_next_ms())
            append(pool[position : position + body_size], TAGS[i % len(TAGS)], f"order-{i // len(TAGS)}")
            position += body_size
            if position + body_size > len(pool):
                position = 0
    os.sync()  # so that no query is charged for writeback
    with open_read_only(path) as view:
        written = view.end_physical_offset - view.min_physical_offset
    return ScanStore(path, body_size, written, count, (times_ms[0], times_ms[1]))


def _next_ms() -> int:
    """Wait for the next millisecond and return it: later messages have this store time or a later one."""
    now_ms = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == now_ms:
        pass
    return now_ms + 1
