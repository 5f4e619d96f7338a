"""Damaged stores and filters that are pushed: the rows of a query stay the same; without Spark."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import datasource as asked

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.read_options import parse_options
from flightlog.spark.plan.batch_planning import plan_batch
from flightlog.spark.plan.filters import bounds_of
from flightlog.spark.plan.log_planning import LogRange
from flightlog.spark.schema import spark_schema
from flightlog.spark.source import FilteredReader
from flightlog.store.errors import CorruptRecordError

COLUMNS = ("topic", "partition", "offset", "tags", "key", "uniqKey", "physicalOffset", "store", "value")
SEGMENT_SIZE = 32 << 10

Row = dict[str, Any]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`few` is a tenth of it. One record of each topic has another body than its CRC says, and one of each has lost
    its beginning. Read it, never write."""
    path = tmp_path_factory.mktemp("damaged") / "store"
    with flightlog.open(path, StoreSettings.small(segment_size=SEGMENT_SIZE)) as opened:
        for i in range(400):
            topic = "few" if i % 10 == 0 else "many"
            opened.put(Message(topic, b"%04d" % i * 60, tags=f"t{i % 3}", keys=f"k{i}", uniq_key=f"u{i}", queue_id=0))
        places = {i: m.physical_offset for i in (50, 51, 200, 201) for m in [record(opened, i)]}
    for i, place in places.items():
        file = path / "commitlog" / f"{place // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
        raw = bytearray(file.read_bytes())
        at = place % SEGMENT_SIZE
        if i in (50, 51):
            at = raw.index(b"%04d" % i, at)
            raw[at : at + 4] = b"evil"
        else:
            raw[at : at + 8] = bytes(8)
        file.write_bytes(bytes(raw))
    return path


def record(opened: flightlog.Store, number: int) -> flightlog.StoredMessage:
    topic = "few" if number % 10 == 0 else "many"
    return next(m for m in opened.read(topic, 0) if m.body.startswith(b"%04d" % number))


def query(path: Path, on_corrupt: str, *filters: Any) -> list[Row]:
    """What Spark makes of a query: the source's rows, filtered once more."""
    names = (*COLUMNS, "_corrupt") if on_corrupt == "rows" else COLUMNS
    reader = FilteredReader(parse_options({"path": str(path), "onCorrupt": on_corrupt}), spark_schema(names))
    reader.pushFilters(list(filters))
    reader = pickle.loads(pickle.dumps(reader))
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    return [row for row in rows if all(matches(row, each) for each in filters)]


def matches(row: Row, each: Any) -> bool:
    value = row[each.attribute[0]]
    if value is None:
        return False
    match each:
        case asked.EqualTo():
            return bool(value == each.value)
        case asked.StringStartsWith():
            return bool(value.startswith(each.value))
        case asked.LessThan():
            return bool(value < each.value)
    raise AssertionError(each)


FILTERS = [
    asked.EqualTo(("topic",), "few"),
    asked.EqualTo(("topic",), "many"),
    asked.StringStartsWith(("topic",), "f"),
    asked.EqualTo(("tags",), "t1"),
    asked.EqualTo(("key",), b"k50"),
    asked.EqualTo(("key",), b"k200"),
    asked.EqualTo(("uniqKey",), "u51"),
    asked.EqualTo(("partition",), 0),
    asked.LessThan(("offset",), 100),
    asked.LessThan(("physicalOffset",), SEGMENT_SIZE),
    asked.EqualTo(("store",), "store"),
]


@pytest.mark.parametrize("pushed", FILTERS, ids=repr)
@pytest.mark.parametrize("on_corrupt", ["skip", "rows"])
def test_pushed_or_not_the_rows_are_the_same(store: Path, on_corrupt: str, pushed: Any) -> None:
    wanted = [row for row in query(store, on_corrupt) if matches(row, pushed)]
    found = query(store, on_corrupt, pushed)
    assert sorted(found, key=str) == sorted(wanted, key=str)
    assert wanted or (on_corrupt == "skip" and pushed.value in (b"k50", "u51")) or pushed.value == b"k200"


def test_a_place_without_a_record_is_a_row_that_no_filter_of_a_message_lets_through(store: Path) -> None:
    damaged = [row for row in query(store, "rows") if row["_corrupt"]]
    assert [row["topic"] for row in damaged] == ["few", "many", None], "two neighbours are one stretch"
    of_topics = [query(store, "rows", asked.EqualTo(("topic",), topic)) for topic in ("few", "many")]
    assert [row["topic"] for rows in of_topics for row in rows if row["_corrupt"]] == ["few", "many"]
    everywhere = query(store, "rows", asked.EqualTo(("store",), "store"))
    assert len([row for row in everywhere if row["_corrupt"]]) == len(damaged)


def test_damage_that_no_filter_lets_through_may_not_be_met(store: Path) -> None:
    """Nor told: a query that fails on the whole store can have an answer of a part of it, and that is right."""
    with pytest.raises(CorruptRecordError):
        query(store, "fail")
    with pytest.raises(CorruptRecordError):
        query(store, "fail", asked.EqualTo(("topic",), "few"))
    sound = asked.EqualTo(("uniqKey",), "u17")
    assert query(store, "fail", sound) == [row for row in query(store, "skip") if row["uniqKey"] == "u17"] != []
    planned = plan_batch(replace(parse_options({"path": str(store)}), bounds=bounds_of([sound])))
    assert 0 < sum(piece.size for task in planned for piece in task if isinstance(piece, LogRange)) < 999
