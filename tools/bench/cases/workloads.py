"""What is measured of the store.

    put              one message a call, async flush
    put_many(256)    256 messages a call, async flush
    dispatch         from the log into the consume queues; the two above leave it to the flush service, held back here
    read             every message of every queue, body copied and checked, from the page cache
    read, all fields the same with every field of each message looked at: properties, hosts, times, flags
    query            a message by its key, keys drawn at random, from the page cache
    put, sync        one message a call, each acknowledged after its own fdatasync, one thread

Messages are made beforehand; opening and closing are not timed, unless they are the point.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ....engine.message_store import MessageStore, open_store
from ....engine.read_only import open_read_only
from ....store.format.record import prepare
from ....store.message import Message
from ....store.settings import FlushMode, StoreSettings
from .case import Work

TOPIC = "bench"
QUEUES = 4
BATCH = 256
SEED = 1
SEGMENT_SIZE = 64 << 20
HELD_BACK_MS = 3_600_000
"""A flush interval that no round lives to see."""

ASYNC = StoreSettings(
    segment_size=SEGMENT_SIZE,
    queue_file_entries=100_000,
    flush_interval_ms=HELD_BACK_MS,
    queue_flush_interval_ms=HELD_BACK_MS,
)
SYNC = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=100_000, flush_mode=FlushMode.SYNC)


def make_messages(body_size: int, count: int) -> list[Message]:
    """The same ones in every run."""
    body = random.Random(SEED).randbytes(body_size)
    return [Message(TOPIC, body, tags="tag", keys=f"key-{i:08d}", queue_id=i % QUEUES) for i in range(count)]


def record_size(body_size: int) -> int:
    """Bytes of one of these messages in the log."""
    return prepare(make_messages(body_size, 1)[0], ASYNC, SEGMENT_SIZE).size


@contextmanager
def new_store(folder: Path, settings: StoreSettings) -> Iterator[MessageStore]:
    """An empty store that is gone afterwards."""
    path = folder / "store"
    try:
        with open_store(path, settings) as store:
            yield store
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _batches(messages: Sequence[Message]) -> list[Sequence[Message]]:
    return [messages[i : i + BATCH] for i in range(0, len(messages), BATCH)]


@contextmanager
def put(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    with new_store(folder, ASYNC) as store:
        yield _puts(store, make_messages(body_size, count))


@contextmanager
def put_sync(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    with new_store(folder, SYNC) as store:
        yield _puts(store, make_messages(body_size, count))


def _puts(store: MessageStore, messages: Sequence[Message]) -> Work:
    def work() -> None:
        put = store.put
        for message in messages:
            put(message)

    return work


@contextmanager
def put_many(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    with new_store(folder, ASYNC) as store:
        batches = _batches(make_messages(body_size, count))

        def work() -> None:
            for batch in batches:
                store.put_many(batch)

        yield work


@contextmanager
def dispatch(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    with new_store(folder, ASYNC) as store:
        for batch in _batches(make_messages(body_size, count)):
            store.put_many(batch)
        yield store.queues  # the first one to ask for queues waits until they are up to date


@contextmanager
def read(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    with open_read_only(kept_store(folder, body_size, count)) as view:

        def work() -> None:
            found = 0
            for queue_id in range(QUEUES):
                for message in view.read(TOPIC, queue_id):
                    found += len(message.body)
            if found != body_size * count:
                raise RuntimeError(f"read {found} bytes of bodies, expected {body_size * count}")

        yield work


@contextmanager
def read_fields(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    with open_read_only(kept_store(folder, body_size, count)) as view:

        def work() -> None:
            found = 0
            for queue_id in range(QUEUES):
                for m in view.read(TOPIC, queue_id):
                    _ = m.topic, m.queue_id, m.queue_offset, m.physical_offset, m.size, m.flag, m.sys_flag
                    _ = m.born_timestamp_ms, m.store_timestamp_ms, m.born_host, m.store_host, m.properties
                    found += len(m.body)
            if found != body_size * count:
                raise RuntimeError(f"read {found} bytes of bodies, expected {body_size * count}")

        yield work


@contextmanager
def query(folder: Path, body_size: int, count: int) -> Iterator[Work]:
    keys = [str(message.keys) for message in make_messages(body_size, count)]
    random.Random(SEED).shuffle(keys)
    with open_read_only(kept_store(folder, body_size, count)) as view:

        def work() -> np.ndarray:
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


def kept_store(folder: Path, body_size: int, count: int) -> Path:
    """A closed store with these messages, made at the first call."""
    path = folder / f"read-{body_size}-{count}"
    if not path.exists():
        with open_store(path, ASYNC) as store:
            for batch in _batches(make_messages(body_size, count)):
                store.put_many(batch)
    return path
