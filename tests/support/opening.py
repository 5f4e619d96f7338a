"""The cost of opening a store: time and bytes read.

The page cache is cold. Bytes are counted twice: those that the store requests with read calls, and those of the log
that are in the page cache afterwards, which include reads through mappings and the kernel's readahead.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flightlog.consume.store import Store, open_store
from flightlog.engine.read_only import ReadOnlyStore, open_read_only
from flightlog.store.message import Message
from flightlog.store.segments.log_files import COMMIT_LOG_FOLDER
from flightlog.store.settings import StoreSettings
from flightlog.tests.support.cached import cached_size
from flightlog.tools.bench.machine.page_cache import forget
from flightlog.tools.counting_disk import CountingDisk

QUEUES_A_TOPIC = 20
BATCH = 5000
BODY_SIZE = 100
SEED = 1
PROCESS_IO = Path("/proc/self/io")
HELD_BACK_MS = 3_600_000
"""A flush interval longer than any test."""


@dataclass(frozen=True)
class OpeningCost:
    """The cost of one open. Sizes in bytes."""

    time_s: float
    asked_size: int
    """Bytes requested with read calls."""
    fetched_size: int
    """Bytes that the kernel read from the disk for this process; 0 where it does not report them."""
    cached_log_size: int
    """Bytes of the commit log in the page cache afterwards."""
    log_size: int
    """Bytes of the whole commit log, for comparison."""
    queues: int
    records_scanned: int


def settings_of(segment_size: int, **changes: object) -> StoreSettings:
    """Default settings except for the segment size, and without background flushes unless `changes` enable them."""
    held_back = {"flush_interval_ms": HELD_BACK_MS, "queue_flush_interval_ms": HELD_BACK_MS}
    return StoreSettings(segment_size=segment_size, **(held_back | changes))  # type: ignore[arg-type]


def batches(count: int, queues: int) -> Iterator[list[Message]]:
    """`count` messages in `queues` queues. A few busy queues get half of the messages. A tenth of the queues fall
    silent one after the other, so that their last messages are spread over the log."""
    body = random.Random(SEED).randbytes(BODY_SIZE)
    dice = random.Random(SEED)
    places = [(f"topic-{i // QUEUES_A_TOPIC:03d}", i % QUEUES_A_TOPIC) for i in range(queues)]
    silent, busy = queues // 10, max(queues // 100, 1)
    for start in range(0, count, BATCH):
        batch = []
        for number in range(start, min(start + BATCH, count)):
            lowest = queues - busy if dice.random() < 0.5 else silent * number // count
            topic, queue_id = places[dice.randrange(lowest, queues)]
            batch.append(Message(topic, body, "tag", f"key-{number}", queue_id=queue_id))
        yield batch


def put(store: Store, count: int, queues: int) -> None:
    """Append all batches."""
    for batch in batches(count, queues):
        store.put_many(batch)


def build(path: Path, count: int, queues: int, settings: StoreSettings) -> float:
    """Create a cleanly closed store of `count` messages. Returns the seconds that it took."""
    started_s = time.perf_counter()
    with open_store(path, settings) as store:
        put(store, count, queues)
    return time.perf_counter() - started_s


def open_cold(path: Path, settings: StoreSettings, *, for_writing: bool) -> tuple[ReadOnlyStore | Store, OpeningCost]:
    """Open a store that is not in the page cache. The caller closes it."""
    forget(path)
    before = cached_size(path / COMMIT_LOG_FOLDER)
    disk = CountingDisk(may_write=for_writing)
    fetched_before = _fetched_size()
    started_s = time.perf_counter()
    store: ReadOnlyStore | Store
    if for_writing:
        store = open_store(path, settings, disk=disk)
        report = store.recovery_report
    else:
        store = open_read_only(path, settings, disk=disk)
        report = store.report
    time_s = time.perf_counter() - started_s
    cost = OpeningCost(
        time_s,
        disk.read_size,
        _fetched_size() - fetched_before,
        cached_size(path / COMMIT_LOG_FOLDER) - before,
        report.end,
        len(store.queues()),
        report.records_scanned,
    )
    return store, cost


def _fetched_size() -> int:
    try:
        counters = PROCESS_IO.read_text()
    except OSError:
        return 0
    return int(counters.split("\nread_bytes: ")[1].split()[0])
