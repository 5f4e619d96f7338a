"""Real sizes: three segments of 1 GiB and a queue of two files, written by flightlog, read by RocketMQ and by flightlog.

Every queue is compared by its digests (see `QueueDigest` in harness.py): what was put, what flightlog reads, what
RocketMQ reads, and the records' bytes at the places that the puts named.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message

if TYPE_CHECKING:
    from hashlib import _Hash

    from tests.interop.harness import Line, QueueDigest, QueueName, RocketMq

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]

LONG_QUEUE = ("orders", 0)
LONG_QUEUE_ENTRIES = 310_000
OTHER_QUEUES = [("orders", 1), ("payments", 0), ("%RETRY%" + "g" * 150, 0)]
MESSAGES = 620_000
BODY_SIZES = (0, 100, 1024, 4096, 12_000)
BATCH = 400
SEED = 61
GIB = 1 << 30


@dataclass
class Digest:
    """One queue's digests while its messages come by, in order."""

    count: int = 0
    messages: _Hash = field(default_factory=hashlib.sha1)
    records: _Hash = field(default_factory=hashlib.sha1)


@dataclass
class LargeStore:
    """The folder, and what must be read from it."""

    path: Path
    records_size: int
    digests: dict[QueueName, QueueDigest]


class Log:
    """The commit log's bytes, read by nobody's code but this."""

    def __init__(self, folder: Path) -> None:
        self._files = {int(file.name): os.open(file, os.O_RDONLY) for file in folder.iterdir()}

    def record(self, physical_offset: int, size: int) -> bytes:
        base = physical_offset - physical_offset % GIB
        return os.pread(self._files[base], size, physical_offset - base)

    def close(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)


def messages() -> Iterator[Message]:
    dice = random.Random(SEED)
    noise = dice.randbytes(4 << 20)
    others = MESSAGES - LONG_QUEUE_ENTRIES
    for number in range(MESSAGES):
        topic, queue_id = LONG_QUEUE if number * LONG_QUEUE_ENTRIES % MESSAGES >= others else dice.choice(OTHER_QUEUES)
        size = dice.choice(BODY_SIZES)
        start = dice.randrange(len(noise) - size)
        yield Message(
            topic,
            noise[start : start + size],
            tags=("create", "pay", "deduct")[number % 3],
            keys=f"order-{number // 3}",
            queue_id=queue_id,
            flag=number - MESSAGES // 2,
            born_timestamp_ms=1_700_000_000_000 + number,
            born_host=("2001:db8::7", 54321) if number % 5 == 0 else None,
        )


def add(interop: ModuleType, digest: Digest, queue_offset: int, physical_offset: int, record: bytes, body: bytes) -> None:
    digest.count += 1
    line = interop.DIGEST_LINE.pack(queue_offset, physical_offset, len(record), hashlib.sha1(body).digest())
    digest.messages.update(line)
    digest.records.update(record)


def finish(interop: ModuleType, digests: dict[QueueName, Digest]) -> dict[QueueName, QueueDigest]:
    return {
        queue: interop.QueueDigest(digest.count, digest.messages.hexdigest(), digest.records.hexdigest())
        for queue, digest in digests.items()
    }


def read_digests(
    interop: ModuleType, store: flightlog.MessageStore | flightlog.ReadOnlyStore
) -> dict[QueueName, QueueDigest]:
    """What flightlog reads."""
    digests: dict[QueueName, Digest] = {}
    log = Log(store.path / "commitlog")
    for queue in store.queues():
        digest = digests[queue] = Digest()
        for message in store.read(*queue):
            record = log.record(message.physical_offset, message.size)
            add(interop, digest, message.queue_offset, message.physical_offset, record, message.body)
    log.close()
    return finish(interop, digests)


@pytest.fixture(scope="module")
def large_store(interop: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LargeStore]:
    """Written by flightlog and closed; at default sizes all through."""
    path = tmp_path_factory.mktemp("large") / "store"
    digests: dict[QueueName, Digest] = {}
    began = time.perf_counter()
    batch: list[Message] = []
    with flightlog.open(path) as store:

        def put_batch() -> None:
            for message, result in zip(batch, store.put_many(batch), strict=True):
                digest = digests.setdefault((message.topic, message.queue_id), Digest())
                place = result.queue_offset, result.physical_offset
                digest.count += 1
                digest.messages.update(
                    interop.DIGEST_LINE.pack(*place, result.size, hashlib.sha1(message.body).digest())
                )
            batch.clear()

        for message in messages():
            batch.append(message)
            if len(batch) == BATCH:
                put_batch()
        put_batch()
        end = result_end(store)
    print(f"\nflightlog put {MESSAGES} messages, {end / GIB:.2f} GiB, in {time.perf_counter() - began:.1f} s")
    yield LargeStore(path, end, finish(interop, digests))
    shutil.rmtree(path)


def result_end(store: flightlog.MessageStore) -> int:
    """Physical offset where the log ends: that of one more message."""
    return store.put(Message("end", b"")).physical_offset


def test_three_segments_and_two_queue_files(large_store: LargeStore) -> None:
    log = sorted(file.name for file in (large_store.path / "commitlog").iterdir())
    assert log == [f"{number * GIB:020d}" for number in range(3)]
    assert large_store.records_size >= 2.2 * GIB
    topic, queue_id = LONG_QUEUE
    queue = sorted(file.name for file in (large_store.path / "consumequeue" / topic / str(queue_id)).iterdir())
    assert queue == ["00000000000000000000", "00000000000006000000"]
