"""The source through Spark, over stores that flightlog wrote: columns, tasks, options, SQL, a live writer, errors."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoredMessage, StoreSettings
from flightlog.spark.options import parse_options
from flightlog.spark.schema import COLUMNS
from flightlog.store.errors import InvalidSettingsError

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
        with flightlog.open(path, StoreSettings(segment_size=SEGMENT_SIZE, store_host=(host, 10911))) as opened:
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
        opened.put(Message("RMQ_SYS_TRANS_HALF_TOPIC", b"internal"))
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
def test_sql_reads_a_view_and_refuses_a_table(store: Path, spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW seen USING flightlog "
        f"OPTIONS (path '{store}', columns 'topic,tags', splitBytes '20000')"
    )
    counts = {tuple(row) for row in spark.sql("SELECT tags, count(*) FROM seen GROUP BY tags").collect()}
    assert counts == {(step, ORDERS) for step in STEPS}
    with pytest.raises(Exception, match=r"CREATE TABLE: Spark forgets such a table's path.*CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE kept USING flightlog OPTIONS (path '{store}')")


# -- wrong calls


@pytest.mark.ci
def test_wrong_calls_are_named_by_spark(store: Path, load: Load, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=f"StoreNotFoundError: {tmp_path}/none: no such folder"):
        load(tmp_path / "none")
    with pytest.raises(Exception, match=f"StoreNotFoundError: {tmp_path}: no commitlog/ in it"):
        load(tmp_path)
    with pytest.raises(Exception, match="option 'splitbyte': unknown; expected one of path, columns, includeInternal"):
        load(store, splitByte=1)
    with pytest.raises(Exception, match=r"no path: expected spark\.read"):
        spark.read.format("flightlog").load()
    with pytest.raises(Exception, match="expected one path"):
        spark.read.format("flightlog").load([str(store), str(store)])
    reader = spark.read.format("flightlog")
    with pytest.raises(Exception, match="column 'topic': the schema says int, expected string"):
        reader.schema("topic int").load(str(store)).count()
    with pytest.raises(Exception, match="column 'subject': a store has no such column, but key, value, topic"):
        reader.schema("subject string").load(str(store)).count()
    with pytest.raises(Exception, match="columns='value' beside a schema of topic"):
        reader.schema("topic string").option("columns", "value").load(str(store)).count()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no path"),
        ({"path": ""}, "no path"),
        ({"path": "hdfs://host/store"}, "path 'hdfs://host/store': expected a local or mounted folder"),
        ({"path": "file://elsewhere/store"}, "expected a local or mounted folder"),
        ({"path": "/s", "splitBytes": "1m"}, "splitBytes='1m': expected a whole number of bytes, 4096 or more"),
        ({"path": "/s", "splitBytes": "4095"}, "splitBytes='4095'"),
        ({"path": "/s", "splitBytes": "-5000"}, "splitBytes='-5000'"),
        ({"path": "/s", "splitBytes": "²²²²"}, "splitBytes='²²²²'"),
        ({"path": "/s", "onCorrupt": "ignore"}, "onCorrupt='ignore': expected fail or skip"),
        ({"path": "/s", "includeInternal": "yes"}, "includeInternal='yes': expected true or false"),
        ({"path": "/s", "columns": "topic,topic"}, "columns='topic,topic': a column is named twice"),
        ({"path": "/s", "columns": ""}, "column '': a store has no such column"),
        ({"path": "/s", "columns": "topic,body"}, "column 'body': a store has no such column"),
        ({"path": "/s", "pathGlobFilter": "*"}, "option 'pathglobfilter': unknown"),
    ],
)
def test_wrong_options_say_what_was_expected(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidSettingsError) as caught:
        parse_options(options)
    assert said in str(caught.value)


def test_right_options() -> None:
    assert parse_options({"path": "/s"}).path == Path("/s")
    assert parse_options({"PATH": "file:///s%20t/u"}).path == Path("/s t/u")
    assert parse_options({"path": "file:/s%25"}).path == Path("/s%")
    assert parse_options({"path": "/s%25"}).path == Path("/s%25")
    assert parse_options({"path": "s/../t"}).path == Path.cwd() / "t"
    every = {
        "path": "/s",
        "columns": "Value, KEY",
        "includeinternal": "TRUE",
        "oncorrupt": "Skip",
        "splitbytes": " 4096",
    }
    options = parse_options(every)
    assert (options.columns, options.include_internal) == (("value", "key"), True)
    assert (options.on_corrupt, options.split_bytes) == ("skip", 4096)


# -- memory

SCAN = """
import sys, threading, time
import psutil
import flightlog.spark
path = sys.argv[1]
conf = {"spark.driver.memory": "512m"}  # the JVM of a local session is the driver and the executor at once
spark = flightlog.spark.session("memory", master="local[2]", conf=conf)
source = spark.read.format("flightlog").option("columns", "value").load(path)
me, grown = psutil.Process(), {}
def watch():
    while True:
        for process in [me, *me.children(recursive=True)]:
            try:
                name, size = process.name(), process.memory_info().rss
            except psutil.Error:
                continue
            kind = "driver" if process == me else "jvm" if name == "java" else "worker"
            grown[kind] = max(grown.get(kind, 0), size)
        time.sleep(0.02)
threading.Thread(target=watch, daemon=True).start()
start = me.memory_info().rss
count, size = source.selectExpr("count(*)", "sum(length(value))").head()
print(count, size, grown["driver"] - start, grown["jvm"], grown["worker"])
"""


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_memory_stays_flat_at_two_gibibytes(tmp_path: Path) -> None:
    """Four times what the JVM may hold goes through it, and no Python process grows, of the driver's or of a task's.

    There are no seals, so the driver finds the cuts by walking.
    """
    body = b"x" * 16_384
    count = (2200 << 20) // len(body)
    with flightlog.open(tmp_path / "store") as opened:
        for start in range(0, count, 500):
            opened.put_many([Message("large", body)] * min(500, count - start))
    shutil.rmtree(tmp_path / "store" / "flightlog" / "seals")
    command = [sys.executable, "-P", "-c", SCAN, str(tmp_path / "store")]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    found_count, size, driver_grown, jvm, worker = map(int, finished.stdout.split())
    assert (found_count, size) == (count, count * len(body))
    assert driver_grown < 32 << 20
    assert worker < 300 << 20
    assert jvm < 1400 << 20
