"""What stands in a broker's way: each finding on a store that shows it, and none on one that does not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import flightlog
from flightlog import CompressionType, Message, Producer, StoreSettings, handover
from flightlog.handover import HandoverFinding
from flightlog.store.errors import InvalidSettingsError, StoreNotFoundError
from flightlog.testing import kill


@pytest.fixture
def names(tmp_path: Path) -> Callable[..., dict[str, HandoverFinding]]:
    """Findings and notes by name, with the conf that fits the store (but for `conf`'s lines behind it)."""

    def check(path: Path, conf: str = "", settings: StoreSettings | None = None) -> dict[str, HandoverFinding]:
        file = tmp_path / "broker.conf"
        file.write_text(handover.broker_conf(path, settings) + conf)
        report = handover.check(path, file, settings=settings)
        assert report.conf == file and report.path == path
        return {found.name: found for found in report.findings + report.notes}

    return check


def test_a_store_with_its_own_conf_is_fit(small_store: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    assert names(small_store) == {}


def test_defaults_are_found_where_there_is_no_conf(small_store: Path) -> None:
    report = handover.check(small_store)
    assert not report.is_fit and report.records == 100
    assert [found.name for found in report.findings] == ["file-sizes"]
    assert [found.name for found in report.notes] == ["store-host"]
    [sizes] = report.findings
    assert "mappedFileSizeCommitLog is 1,048,576 here and 1,073,741,824 there" in sizes.found
    assert "mappedFileSizeConsumeQueue is 20,000 here and 6,000,000 there" in sizes.found
    assert "mappedFileSizeConsumeQueueExt" not in sizes.found and "broker-conf" in sizes.mend


def test_another_size_in_the_conf(small_store: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    found = names(small_store, "maxIndexNum=5000\n")
    assert list(found) == ["file-sizes"] and found["file-sizes"].found == "maxIndexNum is 4,000 here and 5,000 there"


def test_a_store_in_use(small_store: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    with flightlog.open(small_store):
        assert list(names(small_store)) == ["in-use"]
    assert names(small_store) == {}


def test_a_writer_that_was_killed(tmp_path: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    path = tmp_path / "killed"
    store = flightlog.open(path, StoreSettings.small())
    store.put(Message("orders", b"x"))
    kill(store)
    assert list(names(path)) == ["not-closed"]
    flightlog.open(path).close()
    assert names(path) == {}


def fill(path: Path, segments: int) -> None:
    with flightlog.open(path, StoreSettings.small()) as store:
        while len(list((path / "commitlog").iterdir())) < segments:
            store.put(Message("orders", b"x" * 100_000))


def test_segments_that_a_broker_would_delete(
    tmp_path: Path, names: Callable[..., dict[str, HandoverFinding]], assert_clean: Callable[[Path], object]
) -> None:
    path = tmp_path / "store"
    fill(path, 3)
    assert names(path) == {}
    # a conf that says nothing of age: 72 hours, and room is made by force
    found = names(path, "fileReservedTime=72\ncleanFileForciblyEnable=true\n")
    assert list(found) == ["retention"] and "here nothing is deleted" in found["retention"].found
    oldest = min((path / "commitlog").iterdir())
    four_days_ago = time.time() - 4 * 86_400
    os.utime(oldest, (four_days_ago, four_days_ago))
    found = names(path, "fileReservedTime=72\n")
    assert "1 of 3 segments were last written more than 72 hours ago" in found["retention"].found
    assert names(path, "fileReservedTime=100\n") == {}
    assert "2 of 3 segments" in names(path, "fileReservedTime=0\n")["retention"].found
    # the same age as here is no surprise
    assert names(path, "", StoreSettings(retention_hours=72)) == {}
    assert "retention" in names(path, "fileReservedTime=71\n", StoreSettings(retention_hours=72))
    assert_clean(path)


def test_names_that_clients_refuse(small_store: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    with flightlog.open(small_store, StoreSettings(rocketmq_strict=False)) as store:
        store.put(Message("dotted.topic", b"x"))
        store.commit_offset("bill.ing", "orders", 0, 1)
        store.commit_offset("billing", "orders", 0, 1)
    found = names(small_store)
    assert list(found) == ["topic-names", "group-names"]
    assert found["topic-names"].found == "1 topic with a name that RocketMQ's clients refuse: 'dotted.topic'"
    assert "1 consumer group with a name" in found["group-names"].found and "'bill.ing'" in found["group-names"].found


def test_messages_without_a_body(small_store: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    with flightlog.open(small_store, StoreSettings(rocketmq_strict=False)) as store:
        at = store.put(Message("orders", b"")).physical_offset
        store.put(Message("audit", b""))
    note = names(small_store)["empty-bodies"]
    assert note.found == (
        f"2 messages without a body in 2 topics ('audit', 'orders'), the first at physical offset {at:,}"
    )


def test_records_of_other_hosts(tmp_path: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    path = tmp_path / "store"
    for host, count in ((("2001:db8::1", 10911), 3), (("10.1.2.3", 10911), 5)):
        with flightlog.open(path, StoreSettings.small(store_host=host)) as store:
            for _ in range(count):
                store.put(Message("orders", b"x", born_host=("2001:db8::2", 5)))
    note = names(path)["store-host"]
    assert note.found == "3 records with '[2001:db8::1]:10911', not 10.1.2.3:10911"
    found = names(path, "brokerIP1=10.1.2.4\n")
    assert found["store-host"].found.startswith("8 records with ") and "10.1.2.4:10911" in found["store-host"].found


def test_topics_with_attributes_and_batch_queues(
    small_store: Path, names: Callable[..., dict[str, HandoverFinding]]
) -> None:
    with flightlog.open(small_store) as store:
        store.create_topic("fifo", 2, attributes={"message.type": "FIFO"})
        store.create_topic("batches", 2, attributes={"queue.type": "BatchCQ"})
    found = names(small_store)
    assert list(found) == ["topic-attributes", "batch-queues", "rocketmq-4.9"]
    assert "2 topics with attributes: 'batches', 'fifo'" in found["topic-attributes"].found
    assert "1 topic with batch queues: 'batches'" in found["batch-queues"].found


def test_topics_that_were_deleted(small_store: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    with flightlog.open(small_store) as store:
        store.put(Message("gone", b"x"))
        store.delete_topic("gone")
        store.delete_topic("orders")
        store.put(Message("orders", b"new"))
    note = names(small_store)["deleted-topics"]
    assert note.found == "2 deleted topics with records in the log; 'orders' of them made again"


def test_damage(small_store: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    [segment] = (small_store / "commitlog").iterdir()
    was = segment.read_bytes()
    with flightlog.open_read_only(small_store) as view:
        [message] = view.query("orders", "k50").messages
        at = message.physical_offset
    with segment.open("r+b") as file:
        file.seek(at + 4)
        file.write(b"\0\0\0\0")
    found = names(small_store)
    assert list(found) == ["damage"] and "1 place of the log" in found["damage"].found
    assert f"physical offset {at:,}" in found["damage"].found
    segment.write_bytes(was)


def test_a_broker_with_rocksdb(small_store: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    (small_store / "consumequeue" / "CURRENT").write_text("MANIFEST-000004\n")
    (small_store / "consumequeue" / "MANIFEST-000004").write_bytes(b"")
    assert "rocksdb" in names(small_store)
    for name in ("CURRENT", "MANIFEST-000004"):
        (small_store / "consumequeue" / name).unlink()


def test_golden_stores_with_their_own_conf(
    golden: Callable[[str], Path], names: Callable[..., dict[str, HandoverFinding]]
) -> None:
    """What RocketMQ wrote with its own sizes and with others: the conf fits both."""
    assert names(golden("rollover") / "store").keys().isdisjoint({"damage", "file-sizes"})
    default = handover.check(golden("default-sizes") / "store")
    assert {found.name for found in default.findings}.isdisjoint({"damage", "file-sizes"})


def test_wrong_calls(tmp_path: Path, small_store: Path) -> None:
    with pytest.raises(StoreNotFoundError):
        handover.check(tmp_path / "nothing")
    with pytest.raises(InvalidSettingsError):
        handover.check(small_store, tmp_path / "no.conf")


def test_a_broker_of_another_name(small_store: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    """Open check points are counted; what was acknowledged concerns no broker."""
    assert "broker-name" not in names(small_store, "brokerName=broker-a\n")
    with flightlog.open(small_store, StoreSettings.small()) as store:
        taken = store.receive("billing", "orders", 3)
        store.ack(taken[0].handle)
        assert store.receive("audit", "orders", 1)
    assert "broker-name" not in names(small_store, "brokerName=store\n")
    assert "broker-name" not in names(small_store)
    found = names(small_store, "brokerName=broker-a\n")["broker-name"]
    assert found.found.startswith("3 messages that 2 groups ('audit', 'billing') received")
    assert "'store'" in found.found and "brokerName=broker-a" in found.found and "brokerName=store" in found.mend


def test_messages_that_were_all_acknowledged(
    small_store: Path, names: Callable[..., dict[str, HandoverFinding]]
) -> None:
    with flightlog.open(small_store, StoreSettings.small()) as store:
        store.ack(*(each.handle for each in store.receive("billing", "orders", 3)))
    assert "broker-name" not in names(small_store, "brokerName=broker-a\n")


def test_timers_that_were_cancelled(small_store: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    at_ms = time.time_ns() // 1_000_000 + 3_600_000
    with flightlog.open(small_store, StoreSettings.small()) as store:
        store.put(Message("orders", b"timer", properties={"UNIQ_KEY": "u1"}).deliver_at_ms(at_ms))
        store.cancel_timer("orders", "u1", at_ms)
    assert "cancelled-timers" not in names(small_store), "the conf that fits the store names the topic"
    found = names(small_store, "appendTopicForTimerDeleteKey=false\n")["cancelled-timers"]
    assert found.found.startswith("1 cancelled timer that") and "true" in found.mend
    assert "cancelled-timers" in {each.name for each in handover.check(small_store).notes}


def test_a_broker_of_49(small_store: Path, names: Callable[..., dict[str, HandoverFinding]]) -> None:
    """Everything that it does not take is counted, and nothing that it takes."""
    with flightlog.open(small_store, StoreSettings.small()) as store:
        store.put(Message("orders", b"later", delay_level=18))
        with store.subscribe("orders", "concurrent", idle_s=0) as member:
            assert next(iter(member)).send_back()
        assert "rocketmq-4.9" not in names(small_store)
        store.put(Message("orders", b"packed " * 100, compress=CompressionType.ZSTD))
        store.put(Message("orders", b"timer").deliver_after_ms(3_600_000))
        assert len(store.receive("billing", "orders", 2, invisible_ms=3_600_000)) == 2
        Producer(store, producer_group="payers").transaction(Message("orders", b"half")).unknown()
    found = names(small_store)["rocketmq-4.9"].found
    for expected in (
        "2 timers",
        "2 messages that were popped and not acknowledged",
        "1 open transactions",
        "1 bodies in LZ4 or Zstandard",
    ):
        assert expected in found, found
