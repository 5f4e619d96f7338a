"""The source through Spark, over stores that flightlog wrote: columns, tasks, options, SQL, a live writer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoredMessage, StoreSettings
from flightlog.engine.columns.schema import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    Load = Callable[..., DataFrame]

ORDERS, SEGMENT_SIZE = 200, 48 << 10
STEPS = ("create", "pay", "deduct")
PREPARED, COMMIT, ROLLBACK = 0x4, 0x8, 0xC

DOCUMENTED = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
    ("tags", "string"),
    ("keys", "array<string>"),
    ("messageId", "string"),
    ("uniqKey", "string"),
    ("bornTimestamp", "timestamp"),
    ("bornHost", "string"),
    ("storeHost", "string"),
    ("physicalOffset", "bigint"),
    ("batchIndex", "int"),
    ("size", "int"),
    ("flag", "int"),
    ("sysFlag", "int"),
    ("bodyCrc", "int"),
    ("reconsumeTimes", "int"),
    ("preparedOffset", "bigint"),
    ("properties", "map<string,string>"),
]


def order_messages(order: int) -> list[Message]:
    """One order's way: three messages of one key, with everything that a message can carry."""
    return [
        Message(
            topic="orders" if order % 2 else "заказы",
            body=f"{step} ✓ {order}".encode() * (order % 30) if step != "pay" or order % 5 else b"",
            tags=step,
            keys=(f"order-{order}", "ключ") if order % 3 else f"order-{order}",
            properties={"step": str(i), "emoji": "🚀"} if order % 4 else None,
            queue_id=order % 4,
            flag=-order,
            uniq_key=f"{order:08X}{i}" if order % 2 else None,
            born_timestamp_ms=1_700_000_000_000 + order * 1001 + i,
            born_host=("2001:db8::1", 5000 + order) if order % 3 else ("10.0.0.1", order),
            sys_flag=COMMIT if order % 7 == 0 else 0,
            reconsume_times=order % 16,
            prepared_transaction_offset=order * 3 if order % 7 == 0 else 0,
        )
        for i, step in enumerate(STEPS)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """At least five segments of orders, under one IPv4 and then one IPv6 store host. Read it, never write."""
    path = tmp_path_factory.mktemp("source") / "store"
    for host, orders in (("10.9.8.7", range(ORDERS // 2)), ("fe80::9", range(ORDERS // 2, ORDERS))):
        settings = StoreSettings(segment_size=SEGMENT_SIZE, store_host=(host, 10911), rocketmq_strict=False)
        with flightlog.open(path, settings) as opened:
            opened.put_many([order_messages(order)[step] for step in range(3) for order in orders])
    assert len(list((path / "commitlog").iterdir())) >= 5
    return path


def messages_of(path: Path) -> dict[int, StoredMessage]:
    with flightlog.open_read_only(path) as view:
        return {message.physical_offset: message for queue in view.queues() for message in view.read(*queue)}


def time(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def expected(message: StoredMessage) -> dict[str, Any]:
    return {
        "key": message.keys[0].encode() if message.keys else None,
        "value": message.body,
        "topic": message.topic,
        "partition": message.queue_id,
        "offset": message.queue_offset,
        "timestamp": time(message.store_timestamp_ms),
        "timestampType": 1,
        "tags": message.tags,
        "keys": message.keys,
        "messageId": message.message_id,
        "uniqKey": message.uniq_key,
        "bornTimestamp": time(message.born_timestamp_ms),
        "bornHost": str(message.born_host),
        "storeHost": str(message.store_host),
        "physicalOffset": message.physical_offset,
        "batchIndex": None,
        "size": message.size,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bodyCrc": message.body_crc,
        "reconsumeTimes": message.reconsume_times,
        "preparedOffset": message.prepared_transaction_offset,
        "properties": message.properties,
    }


def found(row: Row) -> dict[str, Any]:
    """A row with its times in UTC, whatever zone the machine is in."""
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in row.asDict().items()
    }


# -- columns and tasks


def test_the_columns_are_the_documented_ones(store: Path, load: Load) -> None:
    fields = load(store).schema.fields
    assert [(field.name, field.dataType.simpleString()) for field in fields] == DOCUMENTED
    assert all(field.nullable for field in fields)
    assert [(column.name, column.type) for column in COLUMNS] == DOCUMENTED
    assert all(column.meaning for column in COLUMNS)


@pytest.mark.ci
def test_every_message_with_every_column_from_many_tasks(store: Path, load: Load) -> None:
    from pyspark.sql import functions as f

    messages = messages_of(store)
    assert len(messages) == 3 * ORDERS
    rows = load(store, splitBytes=20_000).withColumn("task", f.spark_partition_id()).collect()
    tasks = {row.task for row in rows}
    assert len(tasks) >= 4
    seen = [found(row) for row in rows]
    for row in seen:
        assert row.pop("task") in tasks
        assert row == expected(messages.pop(row["physicalOffset"]))
    assert not messages, "each message came once"


@pytest.mark.ci
def test_orders_go_to_parquet_by_key_and_each_is_in_order(
    store: Path, load: Load, spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    steps = f.transform(f.array_sort(f.collect_list(f.struct("physicalOffset", "tags"))), lambda step: step["tags"])
    grouped = load(store).groupBy(f.col("key").cast("string").alias("order")).agg(steps.alias("steps"))
    grouped.write.parquet(str(tmp_path / "orders"))
    read = {row.order: tuple(row.steps) for row in spark.read.parquet(str(tmp_path / "orders")).collect()}
    assert read == {f"order-{order}": STEPS for order in range(ORDERS)}


@pytest.mark.ci
def test_records_in_no_queue_are_shown_on_request(tmp_path: Path, load: Load) -> None:
    flags = {b"plain": 0, b"half": PREPARED, b"committed": COMMIT, b"back": ROLLBACK}
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as opened:
        for body, sys_flag in flags.items():
            opened.put(Message("orders", body, sys_flag=sys_flag))
        opened.put(Message("rmq_sys_wheel_timer", b"internal"))
        opened.put(Message("%DLQ%group", b"dead"))
    plain = load(tmp_path / "store").select("value", "offset").collect()
    assert {bytes(row.value): row.offset for row in plain} == {b"plain": 0, b"committed": 1, b"dead": 0}
    every = load(tmp_path / "store", includeInternal=True).select("value", "offset").collect()
    assert {bytes(row.value): row.offset for row in every} == {
        b"plain": 0,
        b"half": None,
        b"committed": 1,
        b"back": None,
        b"internal": 0,
        b"dead": 0,
    }


@pytest.mark.ci
def test_a_live_writer_is_read_up_to_what_it_has_put(tmp_path: Path, load: Load) -> None:
    with flightlog.open(tmp_path / "store", StoreSettings(segment_size=SEGMENT_SIZE)) as opened:
        assert load(tmp_path / "store").count() == 0
        for already in (0, 700, 1400):
            opened.put_many([Message("orders", b"x" * 100, queue_id=i % 4) for i in range(700)])
            assert load(tmp_path / "store", splitBytes=50_000).count() == already + 700


# -- fewer columns


@pytest.mark.ci
def test_columns_by_option_or_by_schema(store: Path, load: Load, spark: SparkSession) -> None:
    expected_pairs = sorted((message.topic, message.body) for message in messages_of(store).values())
    by_option = load(store, columns="topic, VALUE")
    assert by_option.columns == ["topic", "value"]
    reader = spark.read.format("flightlog")
    by_schema = reader.schema("Topic string, value binary").load(str(store))
    assert by_schema.columns == ["Topic", "value"]
    for frame in (by_option, by_schema):
        assert sorted((row[0], bytes(row[1])) for row in frame.collect()) == expected_pairs
    nested = reader.schema("properties map<string,string>, keys array<string>").load(str(store)).collect()
    assert {row.properties["KEYS"] for row in nested} == {" ".join(row["keys"]) for row in nested}


@pytest.mark.ci
def test_every_column_alone(store: Path, load: Load) -> None:
    everything = {row.physicalOffset: row.asDict() for row in load(store).collect()}
    for name, _ in DOCUMENTED:
        columns = name if name == "physicalOffset" else f"{name},physicalOffset"
        alone = {row.physicalOffset: row[name] for row in load(store, columns=columns).collect()}
        assert alone == {offset: row[name] for offset, row in everything.items()}, name


# -- SQL


@pytest.mark.ci
def test_sql_reads_a_view(store: Path, spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW seen USING flightlog "
        f"OPTIONS (path '{store}', columns 'topic,tags', splitBytes '20000')"
    )
    counts = {tuple(row) for row in spark.sql("SELECT tags, count(*) FROM seen GROUP BY tags").collect()}
    assert counts == {(step, ORDERS) for step in STEPS}
