"""What programs do with the public face. It never runs: mypy reads it, and pyright in tests/house/test_face.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import assert_type

import flightlog
import flightlog.spark
from flightlog.testing import FaultyDisk, ManualClock, open_small


def put_and_read(path: Path) -> None:
    with flightlog.open(path, flightlog.StoreSettings.small()) as store:
        assert_type(store, flightlog.Store)
        result = store.put(flightlog.Message("orders", b"created", tags="create", keys="order-1"))
        assert_type(result, flightlog.PutResult)
        assert_type(result.status, flightlog.PutStatus)
        assert_type(store.put_many([flightlog.Message("orders", b"paid")]), list[flightlog.PutResult])
        assert_type(store.put_async(flightlog.Message("orders", b"paid")).result(), flightlog.PutResult)
        assert_type(store.append_columns("orders", {"body": [b"paid"], "keys": "order-2"}), flightlog.AppendResult)
        assert_type(store.queue("orders", 1), flightlog.QueueHandle)
        for message in store.read("orders", 0, 0):
            assert_type(message, flightlog.StoredMessage)
            assert_type(message.queue_offset, int)
            assert_type(message.body, bytes)
        found = store.get("orders", 0, 0, tags="create || pay")
        assert_type(found.status, flightlog.GetStatus)
        assert_type(store.query("orders", "order-1").messages[0].tags, str | None)
        assert_type(store.topics(), dict[str, flightlog.Topic])
        assert_type(store.statistics(), flightlog.StoreStatistics)
    with flightlog.open_read_only(path) as view:
        assert_type(view, flightlog.ReadOnlyStore)


def consume(store: flightlog.Store) -> None:
    def handle(messages: Sequence[flightlog.ReceivedMessage]) -> None:
        for message in messages:
            assert_type(message.body, bytes)

    with store.subscribe("orders", group="billing", filter=flightlog.sql("amount > 100"), idle_s=0.1) as subscription:
        assert_type(subscription, flightlog.Subscription)
        for message in subscription:
            assert_type(message, flightlog.ReceivedMessage)
            message.ack()
    with flightlog.Consumer(store, "orders", group="billing", listener=handle) as consumer:
        assert_type(consumer, flightlog.Consumer)
    for popped in store.receive("orders", "workers"):
        assert_type(popped, flightlog.PoppedMessage)
        assert_type(store.ack(popped.handle), flightlog.PutStatus)
    assert_type(store.groups(), dict[str, flightlog.GroupState])


async def produce(store: flightlog.Store) -> None:
    producer = flightlog.Producer(store, producer_group="ordering")
    message = flightlog.Message("orders", b"created", keys="order-17")
    assert_type(producer.send(message, group="order-17"), flightlog.SendResult)
    assert_type(producer.send_async(message).result(), flightlog.SendResult)
    assert_type(await producer.send_coroutine(message), flightlog.SendResult)
    assert_type(producer.send_many([message], group=lambda one: one.uniq_key), list[flightlog.SendResult])
    with producer.transaction(message) as transaction:
        assert_type(transaction, flightlog.Transaction)


def serve(address: str) -> None:
    with flightlog.connect(address) as store:
        assert_type(store, flightlog.RemoteStore)
        with store.subscribe("orders", group="billing", idle_s=0) as subscription:
            assert_type(subscription, flightlog.RemoteSubscription)


def spark(path: Path) -> None:
    session = flightlog.spark.session()
    session.read.format("flightlog").load(str(path)).show()
    flightlog.spark.queues(path).groupBy("topic").sum("count").show()


def fail(path: Path) -> None:
    try:
        with open_small(path, disk=FaultyDisk(), clock=ManualClock(0)) as store:
            store.flush()
    except flightlog.StoreLockedError as e:
        assert_type(e.exit_code, int)
    except (flightlog.DataLossError, flightlog.CheckpointAheadError, flightlog.DiskError):
        assert_type(flightlog.kernel, str)
