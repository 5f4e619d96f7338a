"""Reads every message of a store, and queries each by its key.

read               every message of every queue, body copied and checked, from the page cache
read_all           the same messages as one stream, in the order of the log
read, all fields   the same with every field of each message looked at: properties, hosts, times, flags
read_batch         the same as Arrow batches of bodies and queue offsets; needs pyarrow
read, cold         open a view and read every message from the device; the queues abreast, as a consumer of all of
                   them does: the log is read in order, and once
query              a message by its key, keys drawn at random, from the page cache
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np

from ....engine.read_only import ReadOnlyStore, open_read_only
from ..case import Case, Work
from ..machine.page_cache import forget
from ..messages import BATCH, KEPT, QUEUES, SEED, TOPIC, fill, make_rows

READ, READ_ALL, READ_FIELDS, READ_BATCH = "read", "read_all", "read, all fields", "read_batch"
READ_COLD, QUERY = "read, cold", "query"


def kept_store(case: Case, folder: Path) -> Path:
    """A closed store with the case's messages, made at the first call."""
    return fill(folder / f"read-{case.body_size}-{case.count}", KEPT, case.body_size, case.count)


@contextmanager
def reading(case: Case, folder: Path) -> Iterator[Work]:
    with open_read_only(kept_store(case, folder)) as view:

        def work(stamps: bool) -> None:
            found = 0
            for queue_id in range(QUEUES):
                for message in view.read(TOPIC, queue_id):
                    found += len(message.body)
            _check(found, case)

        def work_on_all(stamps: bool) -> None:
            found = 0
            for message in view.read_all(TOPIC):
                found += len(message.body)
            _check(found, case)

        def work_on_fields(stamps: bool) -> None:
            found = 0
            for queue_id in range(QUEUES):
                for m in view.read(TOPIC, queue_id):
                    _ = m.topic, m.queue_id, m.queue_offset, m.physical_offset, m.size, m.flag, m.sys_flag
                    _ = m.born_timestamp_ms, m.store_timestamp_ms, m.born_host, m.store_host, m.properties
                    found += len(m.body)
            _check(found, case)

        yield {READ: work, READ_ALL: work_on_all, READ_FIELDS: work_on_fields}[case.task]


@contextmanager
def reading_batches(case: Case, folder: Path) -> Iterator[Work]:
    with open_read_only(kept_store(case, folder)) as view:

        def work(stamps: bool) -> None:
            found = 0
            for queue_id in range(QUEUES):
                offset, rows = 0, -1
                while rows:
                    batch = view.read_batch(TOPIC, queue_id, offset, columns=["value", "offset"])
                    rows = batch.num_rows
                    found += rows
                    offset = int(batch.schema.metadata[b"nextQueueOffset"])
            _check(found * case.body_size, case)

        yield work


@contextmanager
def reading_cold(case: Case, folder: Path) -> Iterator[Work]:
    store = kept_store(case, folder)
    forget(store)

    def work(stamps: bool) -> None:
        with open_read_only(store) as view:
            _check(_read_abreast(view), case)

    yield work


def _read_abreast(view: ReadOnlyStore) -> int:
    found, readers = 0, deque(view.read(TOPIC, queue_id) for queue_id in range(QUEUES))
    while readers:
        messages = list(islice(readers[0], BATCH))
        for message in messages:
            found += len(message.body)
        if messages:
            readers.rotate(-1)
        else:
            readers.popleft()
    return found


def _check(found: int, case: Case) -> None:
    if found != case.body_size * case.count:
        raise RuntimeError(f"read {found} bytes of bodies, expected {case.body_size * case.count}")


@contextmanager
def asking(case: Case, folder: Path) -> Iterator[Work]:
    keys = [row.key for row in make_rows(case.body_size, case.count)]
    random.Random(SEED).shuffle(keys)
    with open_read_only(kept_store(case, folder)) as view:

        def work(stamps: bool) -> np.ndarray:
            latencies_ns = np.zeros(len(keys), np.int64)
            now = time.perf_counter_ns
            for i, key in enumerate(keys):
                started_ns = now()
                found = view.query(TOPIC, key)
                latencies_ns[i] = now() - started_ns
                if len(found.messages) != 1:
                    raise RuntimeError(f"{key} was not found once")
            return latencies_ns

        yield work
