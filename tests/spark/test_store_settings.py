"""The option `settings`: stores that no default finds, such as one whose log lies in several folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.read_options import parse_options
from flightlog.spark.options.write_options import parse_write_options
from flightlog.store.errors import InvalidSettingsError, StoreNotFoundError
from flightlog.tests.support import process, slow_streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 1000


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The conf of a store whose log is on two disks; the store is beside it, and is written."""
    path = tmp_path / "broker.conf"
    path.write_text(
        f"storePathCommitLog={tmp_path / 'disk-a'},{tmp_path / 'disk-b'}\n"
        "mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n"
    )
    with flightlog.open(tmp_path / "store", StoreSettings.from_broker_conf(path)) as store:
        store.put_many([Message("orders", b"%0200d" % i, queue_id=i % 4) for i in range(COUNT)])
    assert all(any((tmp_path / disk).iterdir()) for disk in ("disk-a", "disk-b"))
    assert not (tmp_path / "store" / "commitlog").exists()
    return path


def test_a_log_in_several_folders_is_read(spark: SparkSession, conf: Path, tmp_path: Path) -> None:
    from pyspark.errors import AnalysisException

    store = str(tmp_path / "store")
    reader = spark.read.format("flightlog").option("settings", str(conf))
    bodies = [b"%0200d" % i for i in range(COUNT)]
    for options in ({}, {"subscribe": "orders"}, {"splitBytes": "70000"}):
        found = reader.options(**options).load(store).select("value").collect()
        assert sorted(bytes(row["value"]) for row in found) == bodies, options
    reader = spark.read.format("flightlog").option("settings", f"file://{conf}").option("table", "queues")
    assert {(row["partition"], row["count"]) for row in reader.load(store).collect()} == {(i, 250) for i in range(4)}
    with pytest.raises(AnalysisException, match="no commitlog/ in it.* or the option settings"):
        spark.read.format("flightlog").load(store)


def test_a_log_in_several_folders_is_written_and_streamed(spark: SparkSession, conf: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    rows = spark.createDataFrame([(bytearray(b"row %d" % i),) for i in range(100)], "value binary")
    writer = rows.write.format("flightlog").mode("append").option("topic", "rows").option("settings", str(conf))
    writer.save(store)
    stream = spark.readStream.format("flightlog").option("settings", str(conf)).option("startingOffsets", "earliest")
    copying = (
        stream.load(store)
        .where("topic = 'orders'")
        .selectExpr("'copied' AS topic", "value")
        .writeStream.format("flightlog")
        .option("settings", str(conf))
        .option("checkpointLocation", str(tmp_path / "seen"))
        .trigger(availableNow=True)
    )
    assert slow_streams.begun(lambda: copying.start(store).awaitTermination(process.LIMIT_S))
    with flightlog.open(tmp_path / "store", StoreSettings.from_broker_conf(conf)) as opened:
        ends = [{opened.queue_bounds(topic, each)[1] for each in range(4)} for topic in ("rows", "copied")]
        assert ends == [{25}, {COUNT // 4}]
        assert opened.verify().is_clean
    assert not (tmp_path / "store" / "commitlog").exists()


def test_a_new_store_is_made_with_the_settings(spark: SparkSession, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=131072\n")
    rows = spark.createDataFrame([(bytearray(b"row"),)], "value binary")
    writer = rows.write.format("flightlog").mode("append").option("topic", "rows").option("settings", str(conf))
    writer.save(str(tmp_path / "new"))
    [segment] = (tmp_path / "new" / "commitlog").iterdir()
    assert segment.stat().st_size == 131072


def test_wrong_settings_say_what_was_expected(conf: Path, tmp_path: Path) -> None:
    path, settings = str(tmp_path / "store"), str(conf)
    refused = [
        ({"paths": f'["{path}", "{path}-b"]', "settings": settings}, "the folders of one store's log"),
        ({"path": f"{path}-*/", "settings": settings}, "matches no store"),
        ({"path": "s3://bucket/store", "settings": settings}, "expected beside local or mounted stores alone"),
        ({"path": path, "settings": ""}, "settings='': expected a file or a folder"),
        ({"path": path, "settings": "s3://bucket/broker.conf"}, "read from a local or mounted file alone"),
    ]
    for options, said in refused:
        with pytest.raises((InvalidSettingsError, StoreNotFoundError)) as caught:
            parse_options(options)
        assert said in str(caught.value), options
    other = conf.with_name("other.conf")
    other.write_text(f"storePathRootDir={tmp_path / 'else'}\n{conf.read_text()}")
    promise = conf.with_name("promise.conf")
    promise.write_text("brokerRole=SYNC_MASTER\n")
    for parse in (parse_options, parse_write_options):
        with pytest.raises(InvalidSettingsError, match=r"names the folders of the log of .*/else, expected those of"):
            parse({"path": path, "settings": str(other)})
    with pytest.raises(InvalidSettingsError, match="promises what is not kept: .*SYNC_MASTER"):
        parse_write_options({"path": path, "settings": str(promise)})
    assert parse_write_options({"path": path, "settings": settings}).settings.retention_hours is None
    missing = {"path": path, "settings": f"{settings}.none"}
    for parse in (parse_options, parse_write_options):
        with pytest.raises(InvalidSettingsError, match=r"broker\.conf\.none"):
            parse(missing)
