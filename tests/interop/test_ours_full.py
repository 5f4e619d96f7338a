"""Real sizes: three 1 GiB segments and a queue of two files, written by flightlog, read by RocketMQ, by Spark and by
flightlog.

Every queue is compared by its digests (see `QueueDigest` in harness.py): those of what was put, with the records' bytes
taken from the files at the places that the puts answered; those of what flightlog reads; those of what RocketMQ reads.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import functions

import flightlog
from flightlog import Message, StoreSettings
from flightlog.tests.interop import harness
from flightlog.tests.interop.harness import QueueDigest, QueueName, RocketMq

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]

GIB = 1 << 30
LONG_QUEUE = ("orders", 0)  # every second message
OTHER_QUEUES = [("orders", 1), ("payments", 0), ("%RETRY%" + "g" * 150, 0)]
MESSAGES = 700_000
BODY_SIZES = (0, 100, 1024, 4096, 12_000)
LARGEST_BODY_SIZE = 4 << 20
LARGEST_BODY_EVERY = 100_000
BATCH = 400
SEED = 61
AGGREGATES = (
    "count(*)",
    "sum(length(value))",
    "sum(crc32(value))",
    "min(offset)",
    "max(offset)",
    "count(DISTINCT offset)",
)


class Digests:
    """The digests of all queues while their messages come by, each queue's in order."""

    def __init__(self, path: Path) -> None:
        self._interop, self._folder = harness, path / "commitlog"
        self._files: dict[int, int] = {}
        self._queues: dict[QueueName, tuple[list[int], hashlib._Hash, hashlib._Hash]] = {}

    def add(self, queue: QueueName, queue_offset: int, physical_offset: int, size: int, body: bytes) -> None:
        if queue not in self._queues:
            self._queues[queue] = [0], hashlib.sha1(), hashlib.sha1()
        count, messages, records = self._queues[queue]
        count[0] += 1
        messages.update(
            self._interop.DIGEST_LINE.pack(queue_offset, physical_offset, size, hashlib.sha1(body).digest())
        )
        records.update(self._bytes(physical_offset, size))

    def _bytes(self, physical_offset: int, size: int) -> bytes:
        """What the file holds there; nothing of flightlog is asked."""
        base = physical_offset - physical_offset % GIB
        if base not in self._files:
            self._files[base] = os.open(self._folder / f"{base:020d}", os.O_RDONLY)
        return os.pread(self._files[base], size, physical_offset - base)

    def finish(self) -> dict[QueueName, QueueDigest]:
        for descriptor in self._files.values():
            os.close(descriptor)
        return {
            queue: self._interop.QueueDigest(count[0], messages.hexdigest(), records.hexdigest())
            for queue, (count, messages, records) in self._queues.items()
        }


@dataclass
class LargeStore:
    """The folder, where its log ends, and what must be read from it."""

    path: Path
    end: int
    digests: dict[QueueName, QueueDigest]


def messages() -> Iterator[Message]:
    dice = random.Random(SEED)
    noise = dice.randbytes(LARGEST_BODY_SIZE + 4096)
    for number in range(MESSAGES):
        topic, queue_id = dice.choice(OTHER_QUEUES) if number % 2 else LONG_QUEUE
        size = dice.choice(BODY_SIZES) if number % LARGEST_BODY_EVERY else LARGEST_BODY_SIZE
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


@pytest.fixture(scope="module")
def large_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LargeStore]:
    """Written by flightlog at default sizes, and closed."""
    path = tmp_path_factory.mktemp("large") / "store"
    digests, end, put_s = Digests(path), 0, 0.0
    source = messages()
    with flightlog.open(path, StoreSettings(rocketmq_strict=False)) as store:
        while batch := [message for _, message in zip(range(BATCH), source, strict=False)]:
            began = time.perf_counter()
            results = store.put_many(batch)
            put_s += time.perf_counter() - began
            for message, result in zip(batch, results, strict=True):
                queue = message.topic, result.queue_id
                digests.add(queue, result.queue_offset, result.physical_offset, result.size, message.body)
            end = results[-1].physical_offset + results[-1].size
    print(f"\nput {MESSAGES} messages, {end / GIB:.2f} GiB: {put_s:.1f} s in put_many")
    yield LargeStore(path, end, digests.finish())
    shutil.rmtree(path)


def read_digests(store: flightlog.ReadOnlyStore) -> dict[QueueName, QueueDigest]:
    """What flightlog reads."""
    digests = Digests(store.path)
    for queue in store.queues():
        for message in store.read(*queue):
            digests.add(queue, message.queue_offset, message.physical_offset, message.size, message.body)
    return digests.finish()


def test_the_files_have_the_names_that_rocketmq_gives_them(large_store: LargeStore) -> None:
    segments = sorted(file.name for file in (large_store.path / "commitlog").iterdir())
    assert segments == ["00000000000000000000", "00000000001073741824", "00000000002147483648"]
    assert large_store.end >= 2.2 * GIB
    assert large_store.digests[LONG_QUEUE].count > 300_000
    queue = large_store.path / "consumequeue" / LONG_QUEUE[0] / str(LONG_QUEUE[1])
    assert sorted(file.name for file in queue.iterdir()) == ["00000000000000000000", "00000000000006000000"]


def test_spark_reads_every_message(large_store: LargeStore) -> None:
    """By queue: how many, which offsets, and the sums of the lengths and of the CRCs of the bodies."""
    expected: dict[tuple[str, int], list[int]] = {}
    for message in messages():
        totals = expected.setdefault((message.topic, message.queue_id or 0), [0, 0, 0])
        totals[0] += 1
        totals[1] += len(message.body)
        totals[2] += zlib.crc32(message.body)
    spark = flightlog.spark.session("large", master="local[2]")
    try:
        began = time.perf_counter()
        rows = (
            spark.read.format("flightlog")
            .load(str(large_store.path))
            .groupBy("topic", "partition")
            .agg(*map(functions.expr, AGGREGATES))
            .collect()
        )
        print(f"\nSpark read it in {time.perf_counter() - began:.1f} s")
    finally:
        spark.stop()
    found = {(row["topic"], row["partition"]): tuple(row)[2:] for row in rows}
    assert found == {queue: (count, size, crcs, 0, count - 1, count) for queue, (count, size, crcs) in expected.items()}


def test_flightlog_and_rocketmq_read_every_message(rocketmq: RocketMq, large_store: LargeStore) -> None:
    began = time.perf_counter()
    with flightlog.open_read_only(large_store.path) as view:
        assert view.report.records_scanned == 0
        assert read_digests(view) == large_store.digests
    print(f"\nflightlog read it in {time.perf_counter() - began:.1f} s, digests included")

    began = time.perf_counter()
    opened = rocketmq.open_store(
        large_store.path, digest=True, append=1000, topics=[LONG_QUEUE[0]], queues=2, timeout_s=1800
    )
    print(f"RocketMQ read it in {time.perf_counter() - began:.1f} s, digests and 1,000 appends included")
    assert not opened.store["abortFileBefore"]
    assert not opened.problems
    assert opened.digests == large_store.digests
    assert opened.bounds == {queue: (0, digest.count) for queue, digest in large_store.digests.items()}

    with flightlog.open(large_store.path) as store:
        assert store.queues() == opened.bounds_after
        appended = {(line["topic"], line["queueId"], line["queueOffset"]): line for line in opened.appended}
        for (topic, queue_id), (_, end) in opened.bounds.items():
            for message in store.read(topic, queue_id, end):
                line = appended.pop((topic, queue_id, message.queue_offset))
                assert hashlib.sha1(message.body).hexdigest() == line["bodySha1"]
                assert message.physical_offset == line["commitLogOffset"]
        assert not appended
    began = time.perf_counter()
    with flightlog.open_read_only(large_store.path) as view:
        report = view.verify()
    print(f"verify took {time.perf_counter() - began:.1f} s: {report.records} records, {report.sealed_segments} seals")
    assert report.is_clean, "\n".join(map(str, report.findings))
    assert report.records == MESSAGES + 1000
