"""Several stores in one DataFrame: lists of paths, patterns, and the column that says which store a row is from."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.bounds import NO_BOUNDS, Bounds
from flightlog.spark.options.read_options import ReadOptions, parse_options
from flightlog.spark.plan.batch_planning import plan_batch
from flightlog.store.errors import InvalidSettingsError, StoreNotFoundError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTS = {"east/broker-a": 3, "east/broker-b": 5, "west/broker-a": 7, "west/broker-1[0]": 2}


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four stores, and folders that are none. Read it, never write."""
    root = tmp_path_factory.mktemp("region")
    for name, count in COUNTS.items():
        (root / name).parent.mkdir(exist_ok=True)
        with flightlog.open(root / name, StoreSettings.small()) as store:
            store.put_many([Message("orders", f"{name} {i}".encode()) for i in range(count)])
    (root / "east" / "broker-notes").mkdir()
    (root / "east" / "broker-file").write_text("no folder")
    (root / "east" / ".broker-hidden").symlink_to(root / "east" / "broker-a")
    return root


def names(root: Path, *paths: str) -> list[str]:
    return [store.name for store in options(root, *paths).stores]


def options(root: Path, *paths: str) -> ReadOptions:
    full = [f"{root}/{path}" for path in paths]
    return parse_options({"path": full[0]} if len(full) == 1 else {"paths": json.dumps(full)})


def test_patterns_match_stores_alone_and_by_name(region: Path) -> None:
    assert names(region, "east/broker-*") == ["broker-a", "broker-b"]
    assert names(region, "*/broker-[ab]") == ["east/broker-a", "east/broker-b", "west/broker-a"]
    assert names(region, "e*/broker-?") == ["broker-a", "broker-b"]
    assert names(region, "*/broker-b") == ["broker-b"]
    assert names(region, "east/.broker-*") == [".broker-hidden"], "a link to a store, asked for with its dot"
    assert names(region, "west/broker-1[[]0]") == ["broker-1[0]"]


def test_what_is_there_is_no_pattern(region: Path) -> None:
    assert names(region, "west/broker-1[0]") == ["broker-1[0]"]


def test_a_list_keeps_its_order_and_names_every_store_once(region: Path) -> None:
    assert names(region, "east/broker-b", "east/broker-a") == ["broker-b", "broker-a"]
    assert names(region, "east/broker-b", "east/*", "east/../east/broker-a") == ["broker-b", "broker-a"]
    assert names(region, "west/broker-a", "east/broker-a") == ["west/broker-a", "east/broker-a"]


def test_rows_say_their_store_where_there_can_be_several(region: Path) -> None:
    assert not options(region, "east/broker-a").shows_store
    assert options(region, "east/broker-a", "east/broker-a").shows_store
    assert options(region, "east/broker-[a]").shows_store, "the columns do not hang on how many match today"


def test_wrong_paths_say_what_was_expected(region: Path) -> None:
    with pytest.raises(StoreNotFoundError, match=r"/east/none-\*: matches no store; expected a pattern of folders"):
        options(region, "east/none-*")
    with pytest.raises(StoreNotFoundError, match="matches no store"):
        options(region, "east/broker-file/*")
    for paths in ("/a,/b", "[]", '["/a", 1]', '{"a": "/a"}', '"/a"'):
        with pytest.raises(InvalidSettingsError, match=r"expected a JSON array of paths, as \["):
            parse_options({"paths": paths})
    with pytest.raises(InvalidSettingsError, match="path='/c' beside paths="):
        parse_options({"path": "/c", "paths": '["/a", "/b"]'})
    with pytest.raises(InvalidSettingsError, match="no path"):
        parse_options({"paths": '["/a", ""]'})


def test_a_filter_on_the_store_opens_no_other(tmp_path: Path) -> None:
    for name in ("broker-a", "broker-b"):
        with flightlog.open(tmp_path / name, StoreSettings.small()) as store:
            store.put(Message(f"of-{name}", b"x"))
    every = parse_options({"path": f"{tmp_path}/broker-*"})
    by_topic = parse_options({"path": f"{tmp_path}/broker-*", "subscribe": "of-broker-b"})
    nowhere = parse_options({"path": f"{tmp_path}/broker-*", "subscribe": "nowhere"})
    only_a = Bounds(stores=frozenset({"broker-a"}))

    def stores_read(options: ReadOptions, bounds: Bounds = NO_BOUNDS) -> list[str]:
        return [piece.location.name for task in plan_batch(replace(options, bounds=bounds)) for piece in task]

    assert stores_read(every) == ["broker-a", "broker-b"]
    assert stores_read(every, Bounds(stores=frozenset({"broker-b", "broker-c"}))) == ["broker-b"]
    assert stores_read(by_topic) == ["broker-b"] and stores_read(by_topic, only_a) == []
    with pytest.raises(InvalidSettingsError, match="nowhere: not in"):
        plan_batch(replace(nowhere, bounds=only_a))  # as without the filter
    shutil.rmtree(tmp_path / "broker-b")
    assert stores_read(every, only_a) == ["broker-a"]
    with pytest.raises(StoreNotFoundError):
        stores_read(every)


def count_by_store(frame: DataFrame) -> dict[str, int]:
    return dict(Counter(row["store"] for row in frame.select("store").collect()))


@pytest.mark.ci
def test_several_stores_are_one_frame(region: Path, spark: SparkSession) -> None:
    reader = spark.read.format("flightlog")
    frame = reader.load([f"{region}/east/broker-a", f"{region}/west/broker-a"])
    assert frame.columns[-1] == "store"
    rows = frame.collect()
    assert Counter(row["store"] for row in rows) == {"east/broker-a": 3, "west/broker-a": 7}
    assert all(row["value"].decode().startswith(row["store"]) for row in rows)
    assert count_by_store(reader.load(f"{region}/east/broker-*")) == {"broker-a": 3, "broker-b": 5}
    every = spark.read.format("flightlog").option("columns", "store,value").load(f"{region}/*/broker-*")
    assert count_by_store(every) == COUNTS
    pushing = spark.read.format("flightlog").option("pushDownPredicate", "true")
    of_one = pushing.load(f"{region}/*/broker-*").where("store = 'east/broker-b'")
    assert count_by_store(of_one) == {"east/broker-b": 5}
    one = spark.read.format("flightlog")
    assert "store" not in one.load(f"{region}/east/broker-b").columns
    assert one.schema("store string").load(f"{region}/east/broker-b").distinct().collect() == [("broker-b",)]
