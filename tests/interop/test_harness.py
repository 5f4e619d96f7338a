"""The harness itself: what RocketMQ says it wrote is what lies on disk and what RocketMQ reads back."""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from flightlog.tests.interop import harness
from flightlog.tests.interop.harness import Geometry, RocketMq

pytestmark = pytest.mark.ci

SEGMENT_SIZE = 1 << 16
SMALL: Geometry = {
    "segment_size": SEGMENT_SIZE,
    "queue_entries": 100,
    "index_slots": 100,
    "index_entries": 400,
}
FEATURES = ("v2", "v6", "unicode", "empty", "noprops", "batch")
V2_MAGIC = "0xdaa320ab"
BORN_IPV6, STORE_IPV6 = 0x10, 0x20
QUEUE_ENTRY_FIELDS = {"cqTopic", "cqQueueId", "cqOffset", "cqPos", "cqSize", "cqTagsCode", "cqBatchNum"}

Line = dict[str, Any]


def record_at(store: Path, offset: int) -> bytes:
    segment = store / "commitlog" / f"{offset - offset % SEGMENT_SIZE:020d}"
    with segment.open("rb") as file:
        file.seek(offset % SEGMENT_SIZE)
        (size,) = struct.unpack(">i", file.read(4))
        file.seek(-4, 1)
        return file.read(size)


def body_of(record: bytes, sys_flag: int) -> bytes:
    body_length_at = 84 + (12 if sys_flag & BORN_IPV6 else 0) + (12 if sys_flag & STORE_IPV6 else 0)
    (size,) = struct.unpack_from(">i", record, body_length_at)
    return record[body_length_at + 4 : body_length_at + 4 + size]


def by_queue(messages: Iterable[Line]) -> dict[tuple[str, int], list[Line]]:
    queues = defaultdict(list)
    for message in messages:
        queues[message["topic"], message["queueId"]].append(message)
    return dict(queues)


def record_fields(line: Line) -> Line:
    """What a line says about the record alone, whichever program printed it."""
    put_fields = {"i", "kind", "status", "propertiesString", "batchIndex", "batchSize"}
    put_fields |= {"wroteOffset", "wroteBytes", "putMsgId", "logicsOffset", "msgNum"}
    return {k: v for k, v in line.items() if k not in put_fields | QUEUE_ENTRY_FIELDS | {"type"}}


def test_written_messages_are_read_back_and_appended_to(rocketmq: RocketMq, tmp_path: Path) -> None:
    store = tmp_path / "store"
    written = rocketmq.write_store(store, seed=1, count=500, features=FEATURES, **SMALL)

    assert len(written) == 500
    assert {m["status"] for m in written} == {"PUT_OK"}
    assert any(m["magic"] == V2_MAGIC for m in written)
    assert {m["sysFlag"] & (BORN_IPV6 | STORE_IPV6) for m in written} == {0, BORN_IPV6, STORE_IPV6, 0x30}
    assert any(m["bodyLen"] == 0 for m in written)
    assert any(m["kind"] == "batch" for m in written)
    assert len(list((store / "commitlog").iterdir())) >= 2
    for message in written:
        record = record_at(store, message["commitLogOffset"])
        assert len(record) == message["size"]
        assert hashlib.sha1(record).hexdigest() == message["rawSha1"]
        assert hashlib.sha1(body_of(record, message["sysFlag"])).hexdigest() == message["bodySha1"]

    opened = rocketmq.open_store(store, append=100, queries="all", **SMALL)

    assert opened.store["loaded"] and not opened.store["abortFileBefore"]
    assert not opened.problems
    queues = by_queue(written)
    assert opened.bounds == {queue: (0, len(messages)) for queue, messages in queues.items()}
    read = by_queue(opened.messages)
    assert {q: [record_fields(m) for m in ms] for q, ms in read.items()} == {
        q: [record_fields(m) for m in ms] for q, ms in queues.items()
    }
    for message in opened.messages:
        assert (message["cqPos"], message["cqSize"]) == (message["commitLogOffset"], message["size"])
        assert message["cqOffset"] == message["queueOffset"]
        if message["uniqKey"] is not None:
            assert message["commitLogOffset"] in opened.queries[message["topic"], message["uniqKey"]]
    assert len(opened.appended) == 100
    assert not opened.closed["abortFileAfter"]

    reopened = rocketmq.open_store(store, **SMALL)

    assert len(reopened.messages) == 600
    assert reopened.bounds == opened.bounds_after
    assert sorted(m["rawSha1"] for m in reopened.messages) == sorted(m["rawSha1"] for m in written + opened.appended)


def test_a_halted_store_has_an_abort_file_and_loses_nothing(rocketmq: RocketMq, tmp_path: Path) -> None:
    store = tmp_path / "store"
    written = rocketmq.write_store(store, seed=2, count=200, orders=20, halt=True, lag=30, **SMALL)

    assert len(written) == 200 + 3 * 20
    assert (store / "abort").exists()
    entries = 0
    for file in store.glob("consumequeue/*/*/*"):
        entries += sum(size > 0 for _, size, _ in struct.iter_unpack(">qiq", file.read_bytes()))
    assert entries == len(written) - 30
    orders = defaultdict(list)
    for message in written:
        if message["topic"] == "orders":
            orders[message["keys"]].append((message["queueId"], message["tags"]))
    assert len(orders) == 20
    for steps in orders.values():
        assert [tag for _, tag in steps] == ["create", "pay", "deduct"]
        assert len({queue_id for queue_id, _ in steps}) == 1

    key = ("orders", "order-000007")
    opened = rocketmq.open_store(store, queries=[key, ("orders", "no such key")], **SMALL)

    assert opened.store["abortFileBefore"]
    assert sorted(m["rawSha1"] for m in opened.messages) == sorted(m["rawSha1"] for m in written)
    assert opened.queries == {
        key: [m["commitLogOffset"] for m in written if m["keys"] == key[1]],
        ("orders", "no such key"): [],
    }
    assert not (store / "abort").exists()


def test_digests_speak_of_the_same_bytes(rocketmq: RocketMq, tmp_path: Path) -> None:
    store = tmp_path / "store"
    written = rocketmq.write_digests(store, seed=3, count=1000, features=("v6", "batch"), **SMALL)
    opened = rocketmq.open_store(store, digest=True, append=1, **SMALL)
    read = rocketmq.open_store(store, **SMALL)

    assert sum(digest.count for digest in written.values()) == 1000
    assert opened.digests == written
    assert opened.messages == []
    before_append = [m for m in read.messages if m["rawSha1"] != opened.appended[0]["rawSha1"]]
    for queue, messages in by_queue(before_append).items():
        records = [record_at(store, m["commitLogOffset"]) for m in messages]
        assert (
            harness.QueueDigest(
                len(messages),
                harness.messages_sha1(
                    (m["queueOffset"], m["commitLogOffset"], m["size"], body_of(record, m["sysFlag"]))
                    for m, record in zip(messages, records, strict=True)
                ),
                harness.records_sha1(records),
            )
            == opened.digests[queue]
        )


def test_a_store_that_rocketmq_refuses_is_an_error_with_its_words(rocketmq: RocketMq, tmp_path: Path) -> None:
    store = tmp_path / "store"
    rocketmq.write_store(store, seed=4, count=10, halt=True, **SMALL)
    (store / "commitlog" / "stray").write_bytes(b"not a segment")
    with pytest.raises(harness.InteropError, match=r"load\(\) returned false"):
        rocketmq.open_store(store, **SMALL)


def test_a_program_that_takes_too_long_is_killed(rocketmq: RocketMq, tmp_path: Path) -> None:
    with pytest.raises(harness.InteropError, match=r"killed after 0\.01 s"):
        rocketmq.write_store(tmp_path / "store", seed=5, count=1, timeout_s=0.01, **SMALL)


def test_a_missing_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(harness.InteropUnavailableError, match="no java in JAVA_HOME"):
        harness.RocketMq()
