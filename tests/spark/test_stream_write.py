"""Writing a stream through Spark: every row once, also of a batch that Spark brings again."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import datasource
from pyspark.sql.types import StructType

import flightlog
from flightlog.spark.source import DefaultSource
from flightlog.store.errors import MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flightlog.tests.spark.conftest import AssertClean

pytestmark = pytest.mark.ci
CAN_WRITE = hasattr(datasource, "DataSourceStreamArrowWriter")
"""From Spark 4.1 on."""


def run(spark: SparkSession, source: Path, path: Path, checkpoint: Path, **options: str) -> None:
    """All files of a folder that are new, a batch a file."""
    rows: DataFrame = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(source))
    writer = rows.selectExpr("value", "'lines' AS topic").writeStream.format("flightlog").options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(path))
    query.awaitTermination()


def lines(path: Path) -> Counter[bytes]:
    with flightlog.open_read_only(path) as view:
        return Counter(message.body for key in view.queues() for message in view.read(*key))


def add(source: Path, number: int) -> None:
    source.mkdir(exist_ok=True)
    (source / f"{number}.txt").write_text("".join(f"{number} {line}\n" for line in range(100)))


def test_a_batch_that_comes_again_is_not_appended_again(
    spark: SparkSession, tmp_path: Path, assert_clean: AssertClean
) -> None:
    source, path, checkpoint = tmp_path / "source", tmp_path / "store", tmp_path / "checkpoint"
    if not CAN_WRITE:
        with pytest.raises(MissingExtraError, match=r"writing a stream \(pyspark 4\.1 or newer"):
            DefaultSource({"path": str(path)}).streamWriter(StructType(), False)
        return
    for number in range(3):
        add(source, number)
    run(spark, source, path, checkpoint)
    expected = Counter(b"%d %d" % (number, line) for number in range(3) for line in range(100))
    assert lines(path) == expected
    # As if Spark had died between the sink's commit and its own note of it.
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink()
    add(source, 3)
    run(spark, source, path, checkpoint)
    expected += Counter(b"3 %d" % line for line in range(100))
    assert lines(path) == expected
    assert not list((path / "flightlog" / "staging").rglob("*"))
    # Another query has batches of its own.
    shutil.rmtree(checkpoint)
    run(spark, source, path, checkpoint)
    assert lines(path) == expected + expected
    assert_clean(path)


def test_a_first_batch_of_no_rows_makes_an_empty_store(
    spark: SparkSession, tmp_path: Path, assert_clean: AssertClean
) -> None:
    if not CAN_WRITE:
        return
    source, path, checkpoint = tmp_path / "source", tmp_path / "store", tmp_path / "checkpoint"
    add(source, 0)
    rows = spark.readStream.schema("value string").text(str(source)).where("value = 'no such line'")
    writer = rows.selectExpr("value", "'lines' AS topic").writeStream.format("flightlog")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(path))
    query.awaitTermination()
    assert spark.read.format("flightlog").load(str(path)).count() == 0
    assert not list((path / "flightlog" / "staging").rglob("*"))
    assert assert_clean(path).records == 0
    add(source, 1)
    run(spark, source, path, tmp_path / "another")
    assert sum(lines(path).values()) == 200
    assert_clean(path)


def test_what_a_stream_cannot_do_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    source: Any = tmp_path / "source"
    add(source, 0)
    rows = spark.readStream.schema("value string").text(str(source)).groupBy("value").count()
    rows = rows.selectExpr("value", "'t' AS topic")
    writer = rows.writeStream.format("flightlog").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.outputMode("complete").trigger(availableNow=True).start(str(tmp_path / "store"))
    with pytest.raises(Exception, match="outputMode complete: a store only grows"):
        query.awaitTermination()
    assert not (tmp_path / "store").exists()
