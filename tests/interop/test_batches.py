"""Inner batches, compressed bodies and the CRC property: what flightlog wrote, RocketMQ reads, and the reverse."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import CompressionType, Message, ReadOnlyStore, Store, StoreSettings
from flightlog.store.format.compression import compress, decompress
from flightlog.tests.interop.harness import Line, RocketMq
from flightlog.tests.support import unwrapped

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.ci

GEOMETRY: dict[str, Any] = {
    "segment_size": 64 << 10,
    "queue_entries": 50,
    "index_slots": 100,
    "index_entries": 400,
    "batch_topics": ("batches",),
}
SETTINGS = StoreSettings(
    segment_size=64 << 10, queue_file_entries=50, index_slots=100, index_entries=400, rocketmq_strict=False
)


def assert_clean(path: Path, settings: StoreSettings = SETTINGS) -> None:
    with flightlog.open_read_only(path, settings) as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))


def put_batches(store: Store, seed: int, count: int) -> None:
    draw = random.Random(seed)
    for number in range(count):
        store.put_batch(
            Message("batches", draw.randbytes(draw.randrange(200)), "tag", f"k{seed}-{number}-{i}", queue_id=number % 4)
            for i in range(1 + draw.randrange(8))
        )
        store.put(Message("single", b"%d" % number, keys=f"s{seed}-{number}"))


def check(store: Store | ReadOnlyStore, messages: list[Line], records_of: Callable[..., Any]) -> None:
    """What RocketMQ found in the batch queues is what flightlog finds."""
    theirs = {(m["queueId"], m["cqOffset"]): m for m in messages if m["topic"] == "batches"}
    ours: dict[tuple[int, int], Any] = {}
    for queue_id in range(4):
        read = list(store.read("batches", queue_id))
        assert [m.queue_offset for m in read] == list(range(len(read)))
        ours |= {(queue_id, record.queue_offset): record for record in records_of(store, read)}
    assert ours.keys() == theirs.keys()
    for place, record in ours.items():
        line = theirs[place]
        assert (record.physical_offset, record.size) == (line["cqPos"], line["cqSize"])
        assert hashlib.sha1(record.body).hexdigest() == line["bodySha1"]
        assert record.properties == line["properties"]
        assert line["cqBatchNum"] == int(record.properties["INNER_NUM"])


def test_batch_queues_go_to_and_fro(rocketmq: RocketMq, tmp_path: Path) -> None:
    path, records_of = tmp_path / "store", unwrapped.records_of
    with flightlog.open(path, SETTINGS) as store:
        put_batches(store, 1, 150)
        keyed = [m for m in store.read("batches", 2) if m.keys]
    assert_clean(path)
    queries = [("batches", m.keys[0]) for m in keyed[:20]]
    opened = rocketmq.open_store(path, append=200, features=("inner",), queries=queries, **GEOMETRY)
    assert not opened.problems and not opened.summary["failedPuts"]
    with flightlog.open_read_only(path, SETTINGS) as view:
        for queue_id in range(4):
            assert opened.bounds_after["batches", queue_id] == view.queues()["batches", queue_id]
    for message, (topic, key) in zip(keyed, queries, strict=False):
        assert message.physical_offset in opened.queries[topic, key]
    appended = [{**line, "cqOffset": line["queueOffset"], "cqPos": line["commitLogOffset"]} for line in opened.appended]
    theirs = [
        {**line, "cqSize": line["size"], "cqBatchNum": int(line["properties"].get("INNER_NUM", "1"))}
        for line in appended
    ]
    assert sum(line["topic"] == "batches" for line in theirs) > 5
    with flightlog.open(path, SETTINGS) as store:
        check(store, opened.messages + theirs, records_of)
        put_batches(store, 2, 50)
        assert store.verify().is_clean
    assert_clean(path)
    again = rocketmq.open_store(path, **GEOMETRY)
    assert not again.problems
    with flightlog.open_read_only(path, SETTINGS) as view:
        check(view, again.messages, records_of)
    assert_clean(path)


def test_compressors(rocketmq: RocketMq, tmp_path: Path) -> None:
    noise = random.Random(3).randbytes(70_000)
    bodies = [b"", b"a", b"order created " * 9_000, noise, noise + bytes(1 << 20) + noise]
    for number, body in enumerate(bodies):
        (tmp_path / f"{number}.body").write_bytes(body)
        for kind in CompressionType:
            (tmp_path / f"{number}.{kind.name}.ours").write_bytes(compress(body, kind))
    rocketmq.compress(tmp_path)
    for number, body in enumerate(bodies):
        for kind in CompressionType:
            assert (tmp_path / f"{number}.{kind.name}.plain").read_bytes() == body
            theirs = (tmp_path / f"{number}.{kind.name}.theirs").read_bytes()
            assert decompress(theirs, kind, len(body)) == body


def test_crc_properties_go_to_and_fro(rocketmq: RocketMq, tmp_path: Path) -> None:
    path = tmp_path / "store"
    checked = StoreSettings(
        **{name: getattr(SETTINGS, name) for name in ("segment_size", "queue_file_entries", "rocketmq_strict")},
        index_slots=100,
        index_entries=400,
        append_crc_property=True,
        check_crc_property=True,
    )
    config = {"enabledAppendPropCRC": "true", "forceVerifyPropCRC": "true"}
    with flightlog.open(path, checked) as store:
        put_batches(store, 1, 60)
    assert_clean(path, checked)
    # A killed writer's store: RocketMQ checks every record that it recovers.
    (path / "abort").write_text("1")
    (path / "checkpoint").write_bytes(bytes(4096))
    opened = rocketmq.open_store(path, append=150, features=("batch", "v6", "inner"), config=config, **GEOMETRY)
    assert not opened.problems and not opened.summary["failedPuts"]
    with flightlog.open(path, checked) as store:
        assert not store.recovery_report.damage and not store.recovery_report.cut
        assert sum(1 for key in store.queues() for _ in store.read(*key)) > 60 + 60 + 150
        put_batches(store, 2, 20)
        assert store.verify().is_clean
    assert_clean(path, checked)
    assert not rocketmq.open_store(path, config=config, **GEOMETRY).problems
    assert_clean(path, checked)
