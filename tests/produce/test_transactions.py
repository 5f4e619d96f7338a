"""Transactions as a sender sees them: what is visible when, how they end, and the records that they leave."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, MessageQueue, Producer, PutStatus, Store, StoreSettings, Transaction
from flightlog import TransactionResolution as Resolution
from flightlog.produce.faults import FaultRules
from flightlog.produce.transaction.half_message import IMMUNITY_S, OP_MAX_SIZE, OP_TOPIC
from flightlog.produce.transaction.op_batch import INTERVAL_S
from flightlog.schedule.delivered import HALF_TOPIC
from flightlog.store.errors import (
    DiskFullError,
    InvalidMessageError,
    StoreClosedError,
    StorePoisonedError,
    TopicPermissionError,
    UsageError,
)
from flightlog.testing import log_positions
from flightlog.testing.clock import ManualClock
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.tests.produce.conftest import Stores

TOPIC = "orders"
SMALL_STEPS = StoreSettings(segment_size=16 << 10, queue_file_entries=50, allocate_step_size=4096)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with flightlog.open(tmp_path / "store", StoreSettings.small(), clock=ManualClock()) as opened:
        yield opened
    with flightlog.open_read_only(tmp_path / "store") as view:
        assert view.verify().is_clean


@pytest.fixture
def producer(store: Store) -> Producer:
    return Producer(store, producer_group="billing")


def bodies(store: Store, topic: str = TOPIC) -> list[bytes]:
    return sorted(m.body for name, queue in store.queues() if name == topic for m in store.read(topic, queue))


def test_a_message_is_seen_once_it_is_committed(store: Store, producer: Producer) -> None:
    with store.subscribe(TOPIC, "group") as member:
        with producer.transaction(Message(TOPIC, b"one", keys="k")) as tx:
            assert tx.resolution is None and tx.half.status is PutStatus.PUT_OK and "open" in repr(tx)
            assert bodies(store) == [] and store.query(TOPIC, "k").messages == [] and member.poll(1) == []
        assert tx.resolution is Resolution.COMMIT and "COMMIT" in repr(tx)
        received = member.receive(process.LIMIT_S)
        assert received is not None and received.body == b"one" and received.ack()
    [found] = store.query(TOPIC, "k").messages
    assert tx.committed is not None and found.physical_offset == tx.committed.physical_offset


def test_the_records_are_those_of_a_broker(store: Store, producer: Producer) -> None:
    message = Message(TOPIC, b"body", tags="paid", keys="k", properties={"a": "b"}, flag=7, reconsume_times=2)
    with producer.transaction(message, group="customer-1") as tx:
        pass
    [half] = store.read(HALF_TOPIC)
    [committed] = (m for name, queue in store.queues() if name == TOPIC for m in store.read(TOPIC, queue))
    properties = {
        "TRAN_MSG": "true", "PGROUP": "billing", "__transactionId__": tx.transaction_id, "UNIQ_KEY": tx.transaction_id,
        "REAL_TOPIC": TOPIC, "REAL_QID": str(committed.queue_id), "TAGS": "paid", "KEYS": "k", "a": "b",
        "__SHARDINGKEY": "customer-1",
    }  # fmt: skip
    assert half.properties == committed.properties == properties
    assert (half.queue_id, half.queue_offset, half.sys_flag, half.prepared_transaction_offset) == (0, 0, 0, 0)
    assert committed.sys_flag == 8 and committed.prepared_transaction_offset == half.physical_offset
    for name in ("body", "flag", "reconsume_times", "born_timestamp_ms", "born_host", "store_host"):
        assert getattr(half, name) == getattr(committed, name)
    assert store.topic(TOPIC) is not None and store.topics().keys() == {TOPIC}


def test_a_compressed_body_stays_compressed(store: Store, producer: Producer) -> None:
    with producer.transaction(Message(TOPIC, b"x" * 1000, compress=flightlog.CompressionType.ZLIB)):
        pass
    [committed] = (m for name, queue in store.queues() if name == TOPIC for m in store.read(TOPIC, queue))
    assert committed.size < 800 and committed.decompressed_body() == b"x" * 1000


def interrupt(*_: object) -> object:
    raise KeyboardInterrupt


def fail(*_: object) -> object:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("act", "resolution"),
    [
        (lambda tx: None, Resolution.COMMIT),
        (lambda tx: tx.commit(), Resolution.COMMIT),
        (lambda tx: fail(tx.commit()), Resolution.COMMIT),
        (lambda tx: tx.rollback(), Resolution.ROLLBACK),
        (lambda tx: tx.rollback() or interrupt(), Resolution.ROLLBACK),
        (lambda tx: tx.unknown(), Resolution.UNKNOWN),
        (lambda tx: tx.unknown() or fail(), Resolution.UNKNOWN),
        (fail, Resolution.ROLLBACK),
        (interrupt, Resolution.UNKNOWN),
    ],
)
def test_how_a_block_ends(
    store: Store, producer: Producer, act: Callable[[Transaction], object], resolution: Resolution
) -> None:
    tx = producer.transaction(Message(TOPIC, b"one"))
    try:
        with tx:
            act(tx)
    except (ZeroDivisionError, KeyboardInterrupt) as e:
        assert not getattr(e, "__notes__", ())
    assert tx.resolution is resolution
    assert bodies(store) == [b"one"] * (resolution is Resolution.COMMIT)


def test_a_transaction_ends_once(store: Store, producer: Producer) -> None:
    ends: dict[Resolution, Callable[[Transaction], object]] = {
        Resolution.COMMIT: Transaction.commit,
        Resolution.ROLLBACK: Transaction.rollback,
        Resolution.UNKNOWN: Transaction.unknown,
    }
    for resolution, end in ends.items():
        tx = producer.transaction(Message(TOPIC, resolution.name.encode()))
        assert end(tx) == end(tx), "twice is once"
        for other, another_end in ends.items():
            if other is not resolution:
                with pytest.raises(UsageError, match=f"ended with {resolution.name}"):
                    another_end(tx)
    assert bodies(store) == [b"COMMIT"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"delay_level": 3}, "delay_level=3"),
        ({"properties": {"DELAY": "2"}}, "delay_level=2"),
        ({"properties": {"TIMER_DELAY_MS": "5"}}, "TIMER_DELAY_MS"),
        ({"sys_flag": 0x80}, "inner batch"),
        ({"properties": {"INNER_NUM": "2"}}, "inner batch"),
        ({"sys_flag": 8}, "sys_flag=8"),
        ({"properties": {"INNER_MULTI_DISPATCH": "%LMQ%a"}}, "INNER_MULTI_DISPATCH"),
        ({"prepared_transaction_offset": 5}, "prepared_transaction_offset"),
        ({"properties": {IMMUNITY_S: "451"}}, "at most 450"),
        ({"properties": {IMMUNITY_S: "soon"}}, "'soon'"),
        ({"tags": 5}, "tags=5"),
        ({"body": b"x" * (4 << 20)}, "the record takes"),
    ],
)
def test_what_a_transaction_cannot_have(store: Store, producer: Producer, fields: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidMessageError, match=why):
        producer.transaction(Message(**({"topic": TOPIC, "body": b"x"} | fields)))  # type: ignore[arg-type]
    assert log_positions(store).appended == 0


def test_topics_that_take_no_transactions(store: Store, producer: Producer) -> None:
    with pytest.raises(TopicPermissionError, match="RocketMQ's own"):
        producer.transaction(Message(OP_TOPIC, b"x"))
    with pytest.raises(InvalidMessageError, match=HALF_TOPIC):
        producer.transaction(Message(HALF_TOPIC, b"x"))
    store.put_batch([Message("batches", b"1")])
    with pytest.raises(InvalidMessageError, match="put_batch"):
        producer.transaction(Message("batches", b"2"))


def test_properties_that_leave_no_room_for_those_of_checks(store: Store, producer: Producer) -> None:
    """Else a half message could be put and not be put back."""
    producer.transaction(Message(TOPIC, b"x", properties={"a": "x"})).rollback()
    [half] = store.read(HALF_TOPIC)
    before, room = log_positions(store).appended, 32_767 - len(half.properties_raw)
    with pytest.raises(InvalidMessageError, match="properties"):
        producer.transaction(Message(TOPIC, b"x", properties={"a": "x" * (room - 20)}))
    assert log_positions(store).appended == before
    with producer.transaction(Message(TOPIC, b"x", properties={"a": "x" * (room - 100)})):
        pass


def test_a_store_with_a_hook_of_its_own(tmp_path: Path) -> None:
    with (
        flightlog.open(tmp_path / "store", StoreSettings.small(), pre_put_hook=lambda message: message) as store,
        pytest.raises(UsageError, match="pre_put_hook"),
    ):
        Producer(store).transaction(Message(TOPIC, b"x"))


def test_under_sync_flush_both_ends_are_durable(tmp_path: Path) -> None:
    settings = StoreSettings.small(flush_mode=FlushMode.SYNC, sync_flush_timeout_ms=240_000)
    with flightlog.open(tmp_path / "store", settings, clock=ManualClock()) as store:
        producer = Producer(store)
        tx = producer.transaction(Message(TOPIC, b"one"))
        assert log_positions(store).flushed >= tx.half.physical_offset + tx.half.size
        put = tx.commit()
        assert put.status is PutStatus.PUT_OK and log_positions(store).flushed >= put.physical_offset + put.size
        producer.transaction(Message(TOPIC, b"two")).rollback()
        [op] = store.read(OP_TOPIC)
        assert op.body == b"0,1," and log_positions(store).flushed >= op.physical_offset + op.size
        assert bodies(store) == [b"one"]


def test_op_messages_are_gathered(tmp_path: Path) -> None:
    clock = ManualClock()
    with flightlog.open(tmp_path / "store", StoreSettings.small(), clock=clock) as store:
        transactions, producer = inside.transactions_by_hand(store), Producer(store)
        for _ in range(3):
            producer.transaction(Message(TOPIC, b"x")).commit()
        assert transactions.run_due() == INTERVAL_S and not bodies(store, OP_TOPIC)
        clock.advance(3000)
        assert transactions.run_due() is None and bodies(store, OP_TOPIC) == [b"0,1,2,"]
        for _ in range(1100):
            producer.transaction(Message(TOPIC, b"x")).commit()
        ops = list(store.read(OP_TOPIC, 0, 1))
        assert len(ops) == 1 and OP_MAX_SIZE - 5 < len(ops[0].body) <= OP_MAX_SIZE
        assert all(op.tags == "d" and op.properties == {"WAIT": "true", "TAGS": "d"} for op in ops)
    with flightlog.open_read_only(tmp_path / "store") as view:
        named = [int(each) for op in view.read(OP_TOPIC) for each in op.body.decode().split(",") if each]
        assert named == list(range(1103)), "the rest was written at the close"


def test_a_full_disk_leaves_a_transaction_open(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with flightlog.open(tmp_path / "store", SMALL_STEPS, disk=disk) as store:
        producer = Producer(store)
        transactions = [producer.transaction(Message(TOPIC, b"%d" % i)) for i in range(3)]
        for operation in ("allocate", "create", "resize"):
            disk.fail(operation, "commitlog/", errno.ENOSPC)
        with pytest.raises(DiskFullError):
            while True:
                producer.transaction(Message(TOPIC, b"x" * 500)).unknown()
        with pytest.raises(DiskFullError):
            while True:
                store.put(Message("filler", b"x" * 50))
        with pytest.raises(DiskFullError):
            transactions[0].commit()
        assert transactions[0].resolution is None and bodies(store) == []
        with pytest.raises(ZeroDivisionError) as raised, transactions[1]:
            raise ZeroDivisionError
        assert transactions[1].resolution is Resolution.ROLLBACK
        assert "TransactionChecker" in raised.value.__notes__[0]
        disk.heal()
        transactions[0].commit()
        assert bodies(store) == [b"0"] and transactions[0].resolution is Resolution.COMMIT
        transactions[2].commit()


def test_another_store_takes_what_a_full_one_does_not(stores: Stores) -> None:
    for name in ("a", "b"):
        stores.add(name, SMALL_STEPS).create_topic(TOPIC, 1)
    for operation in ("allocate", "create", "resize"):
        stores.disks["a"].fail(operation, "commitlog/", errno.ENOSPC)
    producer = Producer(stores.open, fault_rules=FaultRules((1,), (0,)), timeout_s=process.LIMIT_S)
    for number in range(60):
        with producer.transaction(Message(TOPIC, b"%d" % number + bytes(700))):
            pass
    found = stores.bodies()
    committed = [body for body in found.elements() if body]
    assert {body.rstrip(b"\0") for body in committed} >= {b"%d" % number for number in range(60)}


def test_a_store_that_is_closed_or_poisoned(tmp_path: Path) -> None:
    disk = FaultyDisk()
    settings = StoreSettings.small(flush_mode=FlushMode.SYNC, sync_flush_timeout_ms=240_000)
    store = flightlog.open(tmp_path / "store", settings, disk=disk)
    producer = Producer(store)
    first, second, third = (producer.transaction(Message(TOPIC, b"%d" % i)) for i in range(3))
    disk.fail_syncs()
    with pytest.raises(flightlog.DiskError):
        first.commit()
    assert first.resolution is Resolution.COMMIT, "it may become visible"
    with pytest.raises(StorePoisonedError):
        second.commit()
    store.close()
    for end in (third.commit, third.rollback, third.unknown):
        with pytest.raises(StoreClosedError):
            end()
    with pytest.raises(ZeroDivisionError) as raised, third:
        raise ZeroDivisionError
    assert "was left to its TransactionChecker" in raised.value.__notes__[0]


def test_a_selector_and_a_store_without_its_groups(store: Store) -> None:
    producer = Producer(store.message_store)
    chosen = MessageQueue(TOPIC, "store", 2)
    with producer.transaction(Message(TOPIC, b"one"), selector=lambda queues, message: chosen) as tx:
        pass
    assert tx.committed is not None and (tx.committed.topic, tx.committed.queue_id) == (TOPIC, 2)
