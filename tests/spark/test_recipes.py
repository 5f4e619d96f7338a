"""docs/spark.md: what it says of columns and options is so, and every example and recipe is run as it stands there."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import datasource

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.columns.schema import COLUMNS
from flightlog.spark.options.read_options import NAMES
from flightlog.spark.schema import QUEUE_COLUMNS
from flightlog.tests.support import slow_streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Found = dict[str, Any]

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
ORDERS = 30
STEPS = ("create", "pay", "deduct")
OUT_OF_ORDER, COPIES, DAMAGED, SENT_TWICE = 7, 20, 23, 40


def section(title: str) -> str:
    """The text below `## title`."""
    [text] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return str(text)


def python_of(text: str) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


ELSEWHERE = {
    "storageOptions": "needs an object store; tests/spark/test_source_remote.py has one",
    "spark://master": "needs a cluster; tests/spark/test_cluster.py has one",
}
"""Text of an example that is not run here -> why."""
STREAM_WRITE = '.writeStream.format("flightlog")'
CAN_WRITE_STREAMS = hasattr(datasource, "DataSourceStreamArrowWriter")
"""From Spark 4.1 on."""

BEGINNING, *PARTS = re.split(r"^### (.*)\n", section("Recipes"), flags=re.MULTILINE)
RECIPES = {title: python_of(text) for title, text in zip(PARTS[::2], PARTS[1::2], strict=True)}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_columns_are_those_of_a_store() -> None:
    rows = [cells(line) for line in section("Reading").splitlines() if line.startswith("| `")]
    assert rows == [[f"`{column.name}`", column.type, column.meaning] for column in (*COLUMNS, *QUEUE_COLUMNS)]


def test_every_option_is_told() -> None:
    told = {cells(line)[0].strip("`") for line in section("Options").splitlines() if line.startswith("| `")}
    assert "path" in told and told <= set(NAMES)
    assert not {name for name in NAMES if f"`{name}`" not in DOCUMENT.read_text()}


# -- the stores that recipes name


def order_messages() -> list[Message]:
    """Three steps of each order in the order's queue; of one order the last two have changed places."""
    made = []
    for step in range(len(STEPS)):
        for order in range(ORDERS):
            at = (0, 2, 1)[step] if order == OUT_OF_ORDER else step
            keys = (f"order-{order}", f"customer-{order % 5}")
            made.append(Message("orders", b"%d" % order, tags=STEPS[at], keys=keys, queue_id=order % 4))
    return made


def damaged_store(path: Path) -> None:
    """One queue; one body differs from its CRC, and one message was sent twice."""
    with flightlog.open(path, StoreSettings.small()) as store:
        for i in range(50):
            uniq_key = f"id-{min(i, SENT_TWICE)}" if i <= SENT_TWICE + 1 else f"id-{i}"
            store.put(Message("orders", b"body %02d" % i * 8, keys=f"order-{i}", uniq_key=uniq_key))
        damaged = next(message for message in store.read("orders") if message.queue_offset == DAMAGED)
    with open(path / "commitlog" / f"{0:020d}", "r+b") as log:
        log.seek(damaged.physical_offset)
        record = log.read(damaged.size)
        log.seek(damaged.physical_offset + record.index(damaged.body))
        log.write(b"B")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What recipes read and write."""
    return make_stores(tmp_path_factory.mktemp("recipes"))


def make_stores(path: Path) -> Path:
    with flightlog.open(path / "orders-store", StoreSettings.small()) as store:
        store.put_many([*order_messages(), *[Message("payments", b"%d" % i, keys=f"order-{i}") for i in range(10)]])
    for name in ("broker-a", "broker-b"):
        with flightlog.open(path / name, StoreSettings.small()) as store:
            for i in range(COPIES):
                if (name, i) != ("broker-b", 3):
                    body = b"other" if (name, i) == ("broker-b", 5) else b"same"
                    store.put(Message("orders", body, uniq_key=f"id-{i}"))
    damaged_store(path / "damaged-store")
    return path


def in_folder(code: str, folder: Path) -> str:
    """The same with absolute paths: Spark's processes run in a folder of their own."""
    return re.sub(
        r'"((orders|damaged|new|lines)-store|orders-parquet|broker-[ab]|seen|written|lines)"',
        lambda name: repr(str(folder / name[1])),
        code,
    )


# -- what each recipe comes to


def counts(found: Found, spark: SparkSession, folder: Path) -> None:
    rows = found["per_hour"].groupBy("topic").sum("count").collect()
    assert {row[0]: row[1] for row in rows} == {"orders": len(STEPS) * ORDERS, "payments": 10}


def keys(found: Found, spark: SparkSession, folder: Path) -> None:
    assert [row.tags for row in found["found"].collect()] == list(STEPS)
    assert found["with_key"].count() == len(STEPS)


def parquet(found: Found, spark: SparkSession, folder: Path) -> None:
    written = folder / "orders-parquet"
    assert {path.name for path in written.glob("topic=*")} == {"topic=orders", "topic=payments"}
    assert spark.read.parquet(str(written)).count() == len(STEPS) * ORDERS + 10


def brokers(found: Found, spark: SparkSession, folder: Path) -> None:
    assert [(row.uniqKey, row.stores) for row in found["in_one_alone"].collect()] == [("id-3", ["broker-a"])]
    assert [row.uniqKey for row in found["different"].collect()] == ["id-5"]
    assert found["compared"].count() == COPIES


def gaps(found: Found, spark: SparkSession, folder: Path) -> None:
    assert [tuple(row) for row in found["gaps"].collect()] == [("orders", 0, DAMAGED, DAMAGED)]
    assert found["repeated"].count() == 0
    assert [tuple(row) for row in found["sent_twice"].collect()] == [("orders", f"id-{SENT_TWICE}", 2)]


def orders(found: Found, spark: SparkSession, folder: Path) -> None:
    assert [(row.order, row.steps) for row in found["wrong"].collect()] == [
        (f"order-{OUT_OF_ORDER}", ["create", "deduct", "pay"])
    ]
    assert found["orders"].count() == ORDERS


def tail(found: Found, spark: SparkSession, folder: Path) -> None:
    query = found["query"]
    before = spark.table("tail").count()
    with flightlog.open(folder / "orders-store", StoreSettings.small()) as store:
        store.put(Message("late", b"late"))
        query.processAllAvailable()
        assert [row.topic for row in spark.table("tail").where("topic = 'late'").collect()] == ["late"]
    query.stop()
    assert before == len(STEPS) * ORDERS + 10
    spark.catalog.dropTempView("tail")


def damage(found: Found, spark: SparkSession, folder: Path) -> None:
    assert found["messages"].count() == 49
    [row] = found["damage"].collect()
    assert (row.topic, row.partition, row.queueOffset) == ("orders", 0, DAMAGED)
    assert row.file.endswith(f"{0:020d}") and "CRC" in row.reason


EXPECTED: dict[str, Callable[[Found, SparkSession, Path], None]] = {
    "Count per topic and hour": counts,
    "Find messages by key": keys,
    "A store as Parquet, a folder for each topic": parquet,
    "Reconcile two brokers": brokers,
    "Find gaps and duplicates": gaps,
    "Is each order in order": orders,
    "Read a damaged store": damage,
    "Tail a live store": tail,
}


def test_every_recipe_is_run() -> None:
    assert EXPECTED.keys() == RECIPES.keys() and all(RECIPES.values())


@pytest.mark.ci
@pytest.mark.parametrize("title", EXPECTED)
def test_a_recipe_as_it_stands(title: str, folder: Path, spark: SparkSession) -> None:
    found: Found = {}
    exec(python_of(BEGINNING), found)
    assert found["spark"] is spark
    slow_streams.begun(lambda: exec(in_folder(RECIPES[title], folder), found))
    EXPECTED[title](found, spark, folder)


def run_sql(code: str, folder: Path, spark: SparkSession) -> None:
    """Each statement, on the store of the folder instead of the one in `/data`. Tables and views are dropped later."""
    code = code.replace("'/data/orders-store'", f"'{folder / 'orders-store'}'")
    for statement in code.split(";\n"):
        rows = spark.sql(statement).collect() if statement.strip() else []
        if statement.startswith("SELECT"):
            assert rows, statement


def run_example(code: str, names: Found) -> None:
    exec(code, names)
    if "query" in names:
        query = names.pop("query")
        query.processAllAvailable()
        query.stop()


@pytest.mark.ci
def test_the_examples_outside_of_the_recipes_run_one_after_the_other(tmp_path: Path, spark: SparkSession) -> None:
    folder = make_stores(tmp_path)
    (folder / "lines").mkdir()
    (folder / "lines" / "first.txt").write_text("one\ntwo\n")
    text = DOCUMENT.read_text().replace(section("Recipes"), "")
    examples = re.findall(r"^```(python|sql)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    left_out = [example for _, example in examples if any(mark in example for mark in ELSEWHERE)]
    assert len(left_out) == len(ELSEWHERE)
    names: Found = {}
    for language, example in examples:
        if language == "sql":
            run_sql(example, folder, spark)
            continue
        if example in left_out or (STREAM_WRITE in example and not CAN_WRITE_STREAMS):
            continue
        slow_streams.begun(partial(run_example, in_folder(example, folder), names))
    assert names["spark"] is spark
    assert {row.topic for row in spark.table("kept").select("topic").distinct().collect()} >= {"orders", "payments"}
    inserted = {bytes(row.value) for row in spark.table("bodies").collect()}
    assert {b"created", b"paid"} <= inserted
    for name in ("kept", "bodies"):
        spark.sql(f"DROP TABLE {name}")
    for name in ("orders", "written"):
        spark.catalog.dropTempView(name)
    with flightlog.open_read_only(folder / "orders-store") as view:
        rows = [message.keys for queue_id in range(4) for message in view.read("orders", queue_id)]
        assert all([str(number)] in rows for number in range(3))
    with flightlog.open_read_only(folder / "new-store") as view:
        assert view.queues() == {}
    if not CAN_WRITE_STREAMS:
        return
    with flightlog.open_read_only(folder / "lines-store") as view:
        assert {message.body for i in range(4) for message in view.read("lines", i)} == {b"one", b"two"}


def test_the_stores_of_the_recipes_are_as_they_should_be(folder: Path) -> None:
    for name in ("orders-store", "broker-a", "broker-b", "damaged-store"):
        with flightlog.open_read_only(folder / name) as view:
            assert view.verify().is_clean == (name != "damaged-store")
