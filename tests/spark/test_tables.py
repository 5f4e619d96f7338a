"""Tables that SQL made: what Spark hands over when one is made comes back when it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.schema import options_of_new_table, options_of_read, spark_schema, with_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flightlog.tests.spark.conftest import AssertClean

ROWS = 40


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty messages of two topics. Read it, never write."""
    path = tmp_path_factory.mktemp("tables") / "the store"
    with flightlog.open(path, StoreSettings.small()) as opened:
        opened.put_many([Message(f"topic-{i % 2}", b"%d" % i, tags="pay") for i in range(ROWS)])
    return path


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[SparkSession]:
    """The session; tables named here are gone afterwards."""
    yield spark
    for name in ("orders", "elsewhere", "columns", "fewer", "saved", "made"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


MADE = {"owner": "me", "provider": "flightlog", "location": "file:/s", "path": "file:/s", "comment": "of ours"}


def test_what_stood_in_options_is_told_from_what_spark_adds() -> None:
    assert options_of_new_table({"path": "/s", "columns": "topic"}) is None
    assert options_of_new_table(MADE) == {"path": "file:/s"}
    assert options_of_new_table({**MADE, "columns": "topic", "option.columns": "topic"}) == {
        "path": "file:/s",
        "columns": "topic",
    }
    relative = options_of_new_table({**MADE, "path": "s/../t"})
    assert relative == {"path": str(Path.cwd() / "t")}
    assert options_of_new_table({"owner": "me", "provider": "flightlog"}) == {}


def test_options_come_back_with_any_of_the_columns() -> None:
    known = with_options(spark_schema(("topic", "value")), {"path": "/s", "columns": "topic,value"})
    assert [field.name for field in known.fields] == ["topic", "value"]
    assert options_of_read({}, known) == {"path": "/s", "columns": "topic,value"}
    assert options_of_read({"splitBytes": "5000"}, known)["splitBytes"] == "5000"
    assert options_of_read({}, type(known)(known.fields[1:])) == {"path": "/s", "columns": "topic,value"}
    assert options_of_read({"path": "/t"}, known) == {"path": "/t"}, (
        "a schema that came from a table names columns alone"
    )
    assert options_of_read({}, spark_schema()) == {}


@pytest.mark.ci
def test_a_table_is_made_read_and_dropped(store: Path, tables: SparkSession) -> None:
    tables.sql(f"CREATE TABLE orders USING flightlog OPTIONS (path '{store}') COMMENT 'of ours'")
    tables.sql(f"CREATE TABLE elsewhere USING flightlog LOCATION '{store}'")
    tables.sql(f"CREATE TABLE fewer USING flightlog OPTIONS (path '{store}', columns 'tags,topic', splitBytes '5000')")
    for name in ("orders", "elsewhere", "fewer"):
        rows = tables.sql(f"SELECT topic, count(*) FROM {name} WHERE tags = 'pay' GROUP BY topic").collect()
        assert sorted(map(tuple, rows)) == [("topic-0", ROWS // 2), ("topic-1", ROWS // 2)], name
    assert tables.table("orders").columns == spark_schema().fieldNames()
    assert tables.table("fewer").columns == ["tags", "topic"]
    again = tables.read.format("flightlog").schema(tables.table("fewer").schema).load(str(store))
    assert again.count() == ROWS
    tables.sql("DROP TABLE orders")
    with flightlog.open_read_only(store) as view:
        assert view.verify().is_clean, "the table goes, the store stays"


@pytest.mark.ci
def test_rows_are_inserted_where_the_statement_says(tables: SparkSession, tmp_path: Path) -> None:
    """Spark tells the writer nothing of the table but columns, and those may be another table's."""
    for name, kept in (("orders", "one"), ("elsewhere", "two")):
        with flightlog.open(tmp_path / kept, StoreSettings.small()) as store:
            store.put(Message("orders", b"first"))
        tables.sql(f"CREATE TABLE {name} USING flightlog OPTIONS (path '{tmp_path / kept}', columns 'topic,value')")
    for statement in ("VALUES ('orders', CAST('second' AS BINARY))", "SELECT topic, value FROM elsewhere"):
        with pytest.raises(Exception, match=r"no path: .* INSERT INTO name WITH \(path = "):
            tables.sql(f"INSERT INTO orders {statement}")
        tables.sql(f"INSERT INTO orders WITH (path = '{tmp_path / 'one'}') {statement}")
    assert sorted(bytes(row.value) for row in tables.table("orders").collect()) == [b"first", b"first", b"second"]
    assert tables.table("elsewhere").count() == 1
    for kept in ("one", "two"):
        with flightlog.open_read_only(tmp_path / kept) as view:
            assert view.verify().is_clean


@pytest.mark.ci
def test_what_a_table_cannot_be_is_refused(store: Path, tables: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="option 'colums': unknown; expected one of path"):
        tables.sql(f"CREATE TABLE orders USING flightlog OPTIONS (path '{store}', colums 'topic')")
    with pytest.raises(Exception, match=f"{tmp_path}: no commitlog/ in it"):
        tables.sql(f"CREATE TABLE orders USING flightlog OPTIONS (path '{tmp_path}')")
    with pytest.raises(Exception, match="no path: expected .*CREATE TABLE name USING flightlog OPTIONS"):
        tables.sql("CREATE TABLE orders USING flightlog")
    tables.sql(f"CREATE TABLE columns (topic STRING) USING flightlog OPTIONS (path '{store}')")
    with pytest.raises(Exception, match="no path: expected .* without a list of columns"):
        tables.table("columns").count()


@pytest.mark.ci
def test_a_table_that_save_as_table_made_says_what_to_do(
    tables: SparkSession, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """Spark tells the source nothing of such a table (seen on 4.0 and 4.3): no path, no location, no name."""
    rows = tables.sql("SELECT 'orders' AS topic, CAST('paid' AS BINARY) AS value")
    path = tmp_path / "store"
    for make in (
        lambda: rows.write.format("flightlog").mode("append").saveAsTable("made"),
        lambda: tables.sql(f"CREATE TABLE made USING flightlog OPTIONS (path '{path}') AS SELECT 'a' topic, 'b' value"),
    ):
        with pytest.raises(Exception, match=r"no path: .* in place of saveAsTable\(name\) .* expected save\(path\)"):
            make()
        tables.sql("DROP TABLE IF EXISTS made")
    assert not path.exists()

    writing = rows.write.format("flightlog").mode("append").option("path", str(path))
    writing.saveAsTable("saved")  # the rows are in the store: nothing tells it from save(path)
    with pytest.raises(Exception, match=r"no path: .* that saveAsTable .* made .* DROP TABLE .* CREATE TABLE name"):
        tables.table("saved").count()
    tables.sql("DROP TABLE saved")
    tables.sql(f"CREATE TABLE saved USING flightlog OPTIONS (path '{path}', columns 'topic,value')")
    assert [tuple(row) for row in tables.table("saved").collect()] == [("orders", b"paid")]
    writing.saveAsTable("saved")
    assert tables.table("saved").count() == 2, "a table that CREATE TABLE made can be saved to"
    assert_clean(path)
