"""The demo's second stage: Spark reads the stores of the first one, checks every order, and writes Parquet by topic.

`python -m flightlog.tools.demo.spark_stage FOLDER`, with the folder of the first stage. Needs the extra `spark`.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from ...engine.read_only import open_read_only
from ...spark import session
from ...store.errors import UsageError
from ..program import EXIT_INTERRUPTED, run_program
from ..progress_bar import ProgressBar
from ..words import count_text, seconds_text, size_text
from .orders import STEPS, TOPIC
from .rocketmq_store import ROCKETMQ_VERSION, STORE
from .store_stage import OUR_STORE, ROCKETMQ_STORE
from .telling import Teller, must

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PARQUET = "parquet"
FOLDER_COLUMN = "topic_folder"
PLAIN_FOLDER_SIZE_MAX = 64
"""Bytes of the longest topic that names its own folder. Spark escapes a byte as up to three; a file name has 255."""
CONF = {"spark.sql.shuffle.partitions": "4"}
"""Spark's default of 200 is for clusters."""


def run(folder: Path, tell: Teller) -> int:
    """Read both stores, and report by `tell`. Raises MissingExtraError, MissingJavaError, and DemoFailedError."""
    stores = {
        "the orders whose writer was killed": (folder / OUR_STORE, folder / PARQUET / OUR_STORE),
        f"what RocketMQ {ROCKETMQ_VERSION} wrote": (folder / ROCKETMQ_STORE / STORE, folder / PARQUET / ROCKETMQ_STORE),
    }
    for path, _ in stores.values():
        if not path.is_dir():
            raise UsageError(f"{path}: not there. Run the first stage: python -m {__package__}.store_stage {folder}")
    tell.begin("Now Spark: both stores as DataFrames, their files read as they are")
    started_s = time.monotonic()
    with ProgressBar("starting Spark, which is a Java process"):
        spark = session("flightlog demo", conf=CONF)
    signal.signal(signal.SIGINT, _end_quietly)
    tell.result(f"Spark {spark.version} started in {seconds_text(time.monotonic() - started_s)}.")
    for name, (path, parquet) in stores.items():
        tell.step(f"{name[0].upper()}{name[1:]}, scanned into a DataFrame and written as Parquet, one folder a topic.")
        tell.path("", f'spark.read.format("flightlog").load("{path}")')
        _read_store(tell, spark, path, parquet)
    spark.stop()  # not needed after an error or an interrupt: Spark ends with this process
    return 0


def _end_quietly(signal_number: int, frame: object) -> None:
    """On an interrupt, Spark's own handler calls Java during another call, and fails with pages of traceback."""
    raise SystemExit(EXIT_INTERRUPTED)


def _read_store(tell: Teller, spark: SparkSession, path: Path, parquet: Path) -> None:
    started_s = time.monotonic()
    frame = spark.read.format("flightlog").load(str(path))
    with ProgressBar("scanning"):
        rows = Counter({row["topic"]: row["rows"] for row in _rows_a_topic(frame).collect()})
    with open_read_only(path) as view:
        own = Counter[str]()
        for (topic, _), (first, end) in view.queues().items():
            own[topic] += end - first
    must(rows == own, f"{path}: Spark sees {dict(rows)}, the store's own queues say {dict(own)}")
    tell.result(
        f"{rows.total():,} rows of {count_text(len(rows), 'topic')} in {seconds_text(time.monotonic() - started_s)}: "
        "as many in every topic as the store's own queues say."
    )
    _check_orders(tell, frame)
    with ProgressBar("writing Parquet"):
        _write_parquet(frame, parquet)
        back = spark.read.parquet(str(parquet)).count()
    must(back == rows.total(), f"{parquet}: {back} rows came back, {rows.total()} were written")
    size = sum(file.stat().st_size for file in parquet.rglob("*.parquet"))
    tell.path(f"{back:,} rows of Parquet, {size_text(size)}: ", parquet)


def _rows_a_topic(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return frame.groupBy("topic").agg(f.count("*").alias("rows"))


def _check_orders(tell: Teller, frame: DataFrame) -> None:
    """Check that the messages of every order are in one partition and, sorted by offset, are create, pay, deduct."""
    from pyspark.sql import functions as f

    orders = frame.where(f.col("topic") == TOPIC)
    in_order = f.array_sort(f.collect_list(f.struct("offset", "tags")))
    a_row_an_order = orders.groupBy(f.col("keys")[0].alias("order")).agg(
        f.transform(in_order, lambda message: message["tags"]).alias("steps"),
        f.countDistinct("partition").alias("partitions"),
    )
    all_steps = f.array(*[f.lit(step) for step in STEPS])
    is_right = (f.col("partitions") == 1) & (f.col("steps") == f.slice(all_steps, 1, f.size("steps")))
    with ProgressBar("checking every order"):
        found = a_row_an_order.agg(
            f.count("*").alias("orders"),
            f.sum(f.coalesce(is_right, f.lit(False)).cast("long")).alias("right"),
            f.sum((f.size("steps") == len(STEPS)).cast("long")).alias("whole"),
            f.min("order").alias("first"),
        ).collect()[0]
        rows = orders.where(f.col("keys")[0] == found["first"]).orderBy("offset").collect()
    must(found["orders"] > 0, "Spark sees no orders")
    must(found["right"] == found["orders"], f"{found['orders'] - found['right']} orders are out of order in Spark")
    tell.result(
        f"{found['orders']:,} orders, each in order by its offsets, {found['whole']:,} of them whole. The first one:"
    )
    for row in rows:
        value = bytes(row["value"]).decode("utf-8", "replace")
        tell.path("  ", f"{row['topic']}-{row['partition']} at {row['offset']}: {row['tags']:<6} {value}")


def _write_parquet(frame: DataFrame, target: Path) -> None:
    named = frame.withColumn(FOLDER_COLUMN, _folder_name(frame["topic"]))
    sorted_frame = named.repartition(FOLDER_COLUMN).sortWithinPartitions(FOLDER_COLUMN, "partition", "offset")
    sorted_frame.write.mode("overwrite").partitionBy(FOLDER_COLUMN).parquet(str(target))


def _folder_name(topic: Column) -> Column:
    """The folder name for a topic, shortened if needed: a topic has up to 255 bytes, and Spark prepends `column=`."""
    from pyspark.sql import functions as f

    short = f.concat(f.substring(topic, 1, 30), f.lit("-"), f.sha1(topic.cast("binary")))
    return f.when(f.octet_length(topic) <= PLAIN_FOLDER_SIZE_MAX, topic).otherwise(short)


def main() -> int:
    if len(sys.argv) != 2:
        raise UsageError(f"usage: python -m {__package__}.spark_stage FOLDER")
    return run(Path(sys.argv[1]), Teller())


if __name__ == "__main__":
    sys.exit(run_program(main))
