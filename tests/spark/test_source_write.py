"""Writing through Spark: what was read is written, and read back the same; what fails leaves nothing."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import datasource
from pyspark.sql.streaming.query import StreamingQuery

import flightlog
from flightlog import Message, StoreSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flightlog.tests.spark.conftest import AssertClean

    Load = Callable[..., DataFrame]

pytestmark = pytest.mark.ci
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
NEVER_MS = 3_600_000
SMALL = StoreSettings.small(flush_interval_ms=NEVER_MS)
SAME = ("key", "value", "topic", "tags", "keys", "uniqKey", "bornTimestamp", "flag")


def save(rows: DataFrame, path: Path, **options: str) -> None:
    rows.write.format("flightlog").mode("append").options(**options).save(str(path))


def staged(path: Path) -> list[Path]:
    return list((path / "flightlog" / "staging").rglob("*"))


def test_rows_of_many_tasks_come_back_in_order(
    spark: SparkSession, load: Load, tmp_path: Path, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    rows = spark.range(0, 5000, 1, 4).selectExpr(
        "concat('topic', id % 3) AS topic",
        "CAST(id AS STRING) AS value",
        "concat('key', id) AS key",
        "CAST(id % 2 AS INT) AS partition",
        "map('a', CAST(id AS STRING)) AS properties",
        "timestamp_millis(1700000000000 + id) AS timestamp",
    )
    save(rows, path)
    assert load(path).count() == 5000
    with flightlog.open_read_only(path) as view:
        for topic in range(3):
            for queue in range(2):
                bodies = [int(message.body) for message in view.read(f"topic{topic}", queue)]
                assert bodies == [i for i in range(5000) if i % 3 == topic and i % 2 == queue]
        [message] = view.query("topic1", "key100").messages
        assert message.properties == {"a": "100", "KEYS": "key100"}
        assert message.born_timestamp_ms == 1_700_000_000_100
    assert not staged(path)
    save(rows.where("topic = 'topic0'").drop("topic", "partition"), path, topic="other")
    with flightlog.open_read_only(path) as view:
        sizes = [end for (topic, _), (_, end) in sorted(view.queues().items()) if topic == "other"]
        assert sum(sizes) == 1667 and len(sizes) == 4 and max(sizes) - min(sizes) <= 1, "queues take turns"
    assert assert_clean(path).records == 6667


def test_what_was_read_is_written_and_read_back_the_same(
    spark: SparkSession, load: Load, golden: Callable[[str], Path], tmp_path: Path, assert_clean: AssertClean
) -> None:
    path = tmp_path / "copy"
    rows = load(golden("rollover") / "store").where("octet_length(topic) <= 127")  # longer ones RocketMQ writes wrong
    save(rows, path, rocketmqStrict="false")  # some of its bodies are empty
    kept = "sysFlag & 1795"  # the other bits speak of the store's hosts
    properties = "map_filter(properties, (name, value) -> name != 'KEYS')"  # where two spaces stand between keys, too
    compared = (*SAME, "partition", "offset", kept, properties)
    first, second = (sorted(map(str, read.selectExpr(*compared).collect())) for read in (rows, load(path)))
    assert first and first == second
    assert_clean(path)


def test_headers_as_kafka_has_them(spark: SparkSession, tmp_path: Path, assert_clean: AssertClean) -> None:
    rows = spark.sql(
        "SELECT 'x' AS value, array(struct('a' AS key, CAST('1' AS BINARY) AS value)) AS headers "
        "UNION ALL SELECT 'y', NULL"
    )
    save(rows, tmp_path / "store", topic="t")
    with flightlog.open_read_only(tmp_path / "store") as view:
        found = [message for key in view.queues() for message in view.read(*key)]
        assert {message.body: message.properties for message in found} == {b"x": {"a": "1"}, b"y": {}}
    assert_clean(tmp_path / "store")


def test_a_failed_job_leaves_no_message_no_file_and_no_store(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(0, 1000, 1, 4).selectExpr(
        "'t' AS topic", "IF(id = 999, raise_error('no such row'), CAST(id AS STRING)) AS value"
    )
    with pytest.raises(Exception, match="no such row"):
        save(rows, tmp_path / "new" / "store")
    assert not (tmp_path / "new" / "store").exists()
    bad = spark.range(10).selectExpr("'t' AS topic", "CAST(id AS STRING) AS value", "map('DELAY', '3') AS properties")
    place = r"Spark partition \d, row \d \(the first is 0\), topic 't', column 'properties'"
    with pytest.raises(Exception, match=f"{place}: .*property DELAY"):
        save(bad, tmp_path / "new" / "store")
    assert not (tmp_path / "new" / "store").exists()


def test_a_first_write_of_no_rows_makes_an_empty_store(
    spark: SparkSession, load: Load, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """It made none, and the reader behind it failed: no such folder."""
    none = spark.range(0).selectExpr("'t' AS topic", "CAST(id AS STRING) AS value")
    save(none, tmp_path / "store")
    assert load(tmp_path / "store").count() == 0
    assert load(tmp_path / "store", columns="topic,value").collect() == []
    assert assert_clean(tmp_path / "store").records == 0
    save(spark.range(3).selectExpr("'t' AS topic", "CAST(id AS STRING) AS value"), tmp_path / "store")
    save(none, tmp_path / "store")
    assert load(tmp_path / "store").count() == 3
    assert not staged(tmp_path / "store")
    assert_clean(tmp_path / "store")


def test_a_failed_job_leaves_a_store_as_it_was(
    spark: SparkSession, load: Load, tmp_path: Path, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, SMALL) as store:
        store.put(Message("t", b"before"))
    before = (path / "commitlog" / f"{0:020d}").read_bytes()
    rows = spark.range(0, 1000, 1, 4).selectExpr(
        "'t' AS topic", "IF(id = 999, raise_error('no such row'), CAST(id AS STRING)) AS value"
    )
    with pytest.raises(Exception, match="no such row"):
        save(rows, path)
    assert (path / "commitlog" / f"{0:020d}").read_bytes() == before
    assert not staged(path) and load(path).count() == 1
    assert_clean(path)


def test_another_writer_is_met_before_any_task_and_at_the_commit(
    spark: SparkSession, tmp_path: Path, assert_clean: AssertClean
) -> None:
    from pyspark.sql.functions import udf

    path, opened = tmp_path / "store", tmp_path / "opened"
    ran = spark.sparkContext.accumulator(0)

    def count(value: str) -> str:
        ran.add(1)
        return value

    rows = spark.range(10).selectExpr("'t' AS topic", "CAST(id AS STRING) AS value")
    with flightlog.open(path, SMALL) as store:
        store.put(Message("t", b"before"))
        with pytest.raises(Exception, match="already open for writing by another process"):
            save(rows.withColumn("value", udf(count, "string")("value")), path)
        assert ran.value == 0

    def open_meanwhile(value: str) -> str:
        """In a task: a process that outlives it has the store open until the file is removed."""
        import subprocess
        import sys
        import time

        if not opened.exists():
            code = (
                "import flightlog, os, sys, time\n"
                "with flightlog.open(sys.argv[1]):\n"
                "    open(sys.argv[2], 'w').close()\n"
                "    while os.path.exists(sys.argv[2]): time.sleep(0.02)\n"
            )
            subprocess.Popen([sys.executable, "-P", "-c", code, str(path), str(opened)], start_new_session=True)
        while not opened.exists():
            time.sleep(0.02)
        return value

    meanwhile = rows.coalesce(1).withColumn("value", udf(open_meanwhile, "string")("value"))
    try:
        with pytest.raises(Exception, match="already open for writing by another process"):
            save(meanwhile, path)
    finally:
        opened.unlink(missing_ok=True)
    assert not staged(path)
    wait_for_lock(path)
    with flightlog.open_read_only(path) as view:
        assert [message.body for message in view.read("t")] == [b"before"]
    assert_clean(path)


def wait_for_lock(path: Path) -> None:
    import time

    from flightlog.store.errors import StoreLockedError

    deadline_s = time.monotonic() + 60
    while True:
        try:
            flightlog.open(path, SMALL).close()
            return
        except StoreLockedError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (["'x' AS value"], {}, "no topic: expected a column 'topic'"),
        (["'x' AS body", "'t' AS topic"], {}, "column 'body': a message has no such thing"),
        (["1 AS value", "'t' AS topic"], {}, "column 'value': int, expected binary or string"),
        (["'t' AS topic"], {}, "no column 'value'"),
        (["'x' AS value"], {"topic": "t", "columns": "value"}, "option 'columns': unknown to a write"),
        (["'x' AS value"], {"topic": "t", "stagingPath": "s3://bucket"}, "stagingPath='s3://bucket'"),
    ],
)
def test_what_cannot_be_written_is_refused_by_the_driver(
    columns: list[str], options: dict[str, str], said: str, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=said):
        save(spark.range(1).selectExpr(*columns), tmp_path / "store", **options)
    assert not (tmp_path / "store").exists()


def test_a_store_only_grows(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(1).selectExpr("'t' AS topic", "'x' AS value")
    with pytest.raises(Exception, match="mode overwrite: a store only grows"):
        rows.write.format("flightlog").mode("overwrite").save(str(tmp_path / "store"))
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(Exception, match="(?i)append"):
            rows.write.format("flightlog").mode(mode).save(str(tmp_path / "store"))
    assert not (tmp_path / "store").exists()


def test_times_are_those_of_the_row(spark: SparkSession, load: Load, tmp_path: Path, assert_clean: AssertClean) -> None:
    rows = spark.sql("SELECT 'x' AS value, TIMESTAMP '2024-05-06 07:08:09.123' AS bornTimestamp")
    save(rows, tmp_path / "store", topic="t")
    [row] = load(tmp_path / "store").select("bornTimestamp").collect()
    assert row.bornTimestamp.replace(tzinfo=None) is not None
    with flightlog.open_read_only(tmp_path / "store") as view:
        [message] = [message for key in view.queues() for message in view.read(*key)]
    born = datetime.datetime.fromtimestamp(message.born_timestamp_ms / 1000, datetime.UTC)
    assert born.isoformat() == "2024-05-06T07:08:09.123000+00:00"
    assert_clean(tmp_path / "store")


def test_the_document_writes_what_it_says(spark: SparkSession, tmp_path: Path, assert_clean: AssertClean) -> None:
    [section] = re.findall(r"^## Writing\n(.*?)(?=^## )", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    batch, _, stream = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    [sql] = re.findall(r"^```sql\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    # Spark has a folder of its own that names are relative to.
    for name in ("orders-store", "lines-store", "lines", "written"):
        batch, stream = (text.replace(f'("{name}")', f'("{tmp_path / name}")') for text in (batch, stream))
    stream = stream.replace('"written"', f'"{tmp_path / "written"}"')
    exec(batch, {"spark": spark})
    statements = sql.replace("/data", str(tmp_path)).strip().removesuffix(";").split(";\n")
    assert len(statements) == 4
    for statement in statements:
        spark.sql(statement)
    spark.catalog.dropTempView("written")
    spark.sql("DROP TABLE bodies")
    with flightlog.open_read_only(tmp_path / "orders-store") as view:
        assert [message.body for message in view.query("orders", "2").messages] == [b'{"id":2}']
        assert sum(end for _, end in view.queues().values()) == 5
    assert_clean(tmp_path / "orders-store")
    if not hasattr(datasource, "DataSourceStreamArrowWriter"):  # before Spark 4.1
        return
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "lines.txt").write_text("one\ntwo\n")
    names: dict[str, object] = {"spark": spark}
    exec(stream, names)
    query = names["query"]
    assert isinstance(query, StreamingQuery)
    query.processAllAvailable()
    query.stop()
    with flightlog.open_read_only(tmp_path / "lines-store") as view:
        assert {message.body for key in view.queues() for message in view.read(*key)} == {b"one", b"two"}
    assert_clean(tmp_path / "lines-store")
