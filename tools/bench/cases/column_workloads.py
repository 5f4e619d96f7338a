"""What is measured of columns.

    append_columns   the messages of the other cases, 8,192 a call: bodies, tags, keys and queue ids as arrays
    read_batch       what `read` reads, as Arrow batches of bodies and queue offsets; needs pyarrow

The columns are made beforehand: numpy arrays, with keys as an array of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ....engine.read_only import open_read_only
from .case import Work
from .workloads import ASYNC, QUEUES, TOPIC, kept_store, make_messages, new_store

ROWS = 8192


def can_read_batches() -> bool:
    return find_spec("pyarrow") is not None


@contextmanager
def append_columns(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    messages = make_messages(body_size, count)
    bodies = np.frombuffer(b"".join(message.body for message in messages), np.uint8).reshape(count, body_size)
    keys = np.array([message.keys for message in messages], "S")
    queue_ids = np.arange(count) % QUEUES
    parts = [
        {"body": bodies[i : i + ROWS], "tags": "tag", "keys": keys[i : i + ROWS], "queue_id": queue_ids[i : i + ROWS]}
        for i in range(0, count, ROWS)
    ]
    with new_store(folder, ASYNC) as store:

        def work() -> None:
            for part in parts:
                store.append_columns(TOPIC, part)

        yield work


@contextmanager
def read_batch(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    with open_read_only(kept_store(folder, body_size, count)) as view:

        def work() -> None:
            found = 0
            for queue_id in range(QUEUES):
                offset, rows = 0, -1
                while rows:
                    batch = view.read_batch(TOPIC, queue_id, offset, columns=["value", "offset"])
                    rows = batch.num_rows
                    found += rows
                    offset = int(batch.schema.metadata[b"nextQueueOffset"])
            if found != count:
                raise RuntimeError(f"read {found} messages, expected {count}")

        yield work
