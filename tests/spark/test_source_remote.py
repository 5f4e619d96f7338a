"""Stores behind S3 and HTTP: the same rows as from a disk, out of ranges that are counted at the server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.fs
import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.bounds import Bounds
from flightlog.spark.options.read_options import ReadOptions, parse_options
from flightlog.spark.plan.batch_planning import plan_batch
from flightlog.spark.plan.log_planning import LogRange, plan_log
from flightlog.spark.read.reading import RangeReader, read_ranges
from flightlog.spark.schema import arrow_schema, spark_schema
from flightlog.spark.stream.stream_log import LogStream
from flightlog.spark.stream.streaming import FollowedStore
from flightlog.store.errors import DiskError, FlightlogError, InvalidSettingsError, StoreNotFoundError
from flightlog.tests.support import served_stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEGMENT_SIZE, SPLIT_BYTES = 4 << 20, 2 << 20
BUCKET = "copies"
TOPICS = ("orders", "%RETRY%payers", "orders-%2F")
"""In the names of folders, so in addresses too."""
LOOK_BYTES = 4 << 20
"""What a view may read behind the end of a log, to see that it is one."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stores, `east` with three segments and a bit, and `west`. Read them, never write."""
    root = tmp_path_factory.mktemp("copies")
    for name, count in (("east", 1300), ("west", 5)):
        with flightlog.open(root / name, StoreSettings(segment_size=SEGMENT_SIZE, rocketmq_strict=False)) as store:
            store.put_many(
                Message(TOPICS[i % 3], bytes([i % 251]) * (i * 7919 % 20_000), keys=f"key-{i}", queue_id=i % 4)
                for i in range(count)
            )
    assert len(list((root / "east" / "flightlog" / "seals").iterdir())) == 3
    return root


@pytest.fixture(scope="module", params=["s3", "http"])
def served(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """A server of these stores, and options that lead to `east`."""
    servers = served_stores
    if request.param == "http":
        with servers.http_folder(folder) as server:
            yield server, {"path": f"http://{server.address}/east"}
        return
    with servers.object_store() as server:
        s3 = pyarrow.fs.S3FileSystem(**json.loads(server.options), allow_bucket_creation=True)
        s3.create_dir(BUCKET)
        pyarrow.fs.copy_files(str(folder), BUCKET, destination_filesystem=s3)
        yield server, {"path": f"s3://{BUCKET}/east", "storageOptions": server.options}


def planned(options: dict[str, str], split_bytes: int = SPLIT_BYTES) -> list[LogRange]:
    ranges: list[LogRange] = []
    for location in parse_options(options).stores:
        location.require_store()
        with location.open() as view:
            ranges += plan_log(view, location, split_bytes)
    return ranges


def read(ranges: list[LogRange], *columns: str, **choices: Any) -> list[dict[str, Any]]:
    reader = RangeReader(arrow_schema(spark_schema(columns)), ReadOptions(**choices))
    return [row for piece in ranges for batch in reader.read(piece) for row in batch.to_pylist()]


def test_rows_are_those_of_the_disk(folder: Path, served: tuple[Any, dict[str, str]]) -> None:
    _, options = served
    here, there = planned({"path": str(folder / "east")}), planned(options)
    assert [(r.base, r.start, r.stop) for r in there] == [(r.base, r.start, r.stop) for r in here]
    assert len(there) > 4, "seals cut segments"
    rows = read(there)
    assert len(rows) == 1300
    assert rows == read(here)


def test_tasks_fetch_their_bytes_once_and_planning_next_to_none(served: tuple[Any, dict[str, str]]) -> None:
    server, options = served
    server.requests.clear()
    ranges = planned(options)
    assert server.fetched("/east/commitlog/0") < LOOK_BYTES + (64 << 10)
    assert not server.fetched("/east/commitlog/00000000000000000000"), "no full segment is looked into"
    whole = sum(path_size for path_size in (piece.size for piece in ranges))
    server.requests.clear()
    assert len(read(ranges, "physicalOffset")) == 1300
    assert server.fetched() == whole, "tasks read ranges of segments, each byte once, and nothing else"
    assert server.count() <= 3 * len(ranges)


def test_a_segment_is_read_in_large_blocks_each_once(served: tuple[Any, dict[str, str]]) -> None:
    server, options = served
    [first, *_] = planned(options, 256 << 20)
    assert first.size > SEGMENT_SIZE - 25_000
    server.requests.clear()
    rows = read([first], "physicalOffset", "value")
    assert len(rows) > 300 and all(len(set(row["value"])) <= 1 for row in rows)
    assert server.fetched() == first.size
    assert sum(request.size > 0 for request in server.requests) == 1


def test_records_that_pieces_cut_are_fetched_once(tmp_path: Path) -> None:
    """A walk goes by pieces of 4 MiB, and a piece's last record is seldom whole."""
    with flightlog.open(tmp_path / "store", StoreSettings(segment_size=12 << 20)) as store:
        put = store.put_many(Message("orders", bytes(700_000 + i)) for i in range(15))
    with served_stores.http_folder(tmp_path) as server:
        ranges = planned({"path": f"http://{server.address}/store"}, 256 << 20)
        server.requests.clear()
        assert [row["physicalOffset"] for row in read(ranges, "physicalOffset")] == [
            each.physical_offset for each in put
        ]
        assert server.fetched() == sum(each.size for each in put)


def test_a_topic_fetches_its_records_and_entries(tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "store", StoreSettings(segment_size=SEGMENT_SIZE)) as store:
        topics = ["rare" if i % 100 == 7 else "often" for i in range(12_000)]
        put = store.put_many(Message(topic, bytes(1000), tags=str(i)) for i, topic in enumerate(topics))
    size = sum(result.size for result in put if result.topic == "rare")
    with served_stores.http_folder(tmp_path) as server:
        options = parse_options({"path": f"http://{server.address}/store", "subscribe": "rare", "columns": "tags"})
        tasks = plan_batch(options)
        assert server.fetched("/commitlog/") < LOOK_BYTES + (64 << 10)
        server.requests.clear()
        schema = arrow_schema(spark_schema(options.columns))
        found = [row for task in tasks for batch in read_ranges(task, schema, options) for row in batch.to_pylist()]
        assert [row["tags"] for row in found] == [str(i) for i, topic in enumerate(topics) if topic == "rare"]
        assert server.fetched("/commitlog/") == size
        assert server.fetched("/consumequeue/") < 64 << 10


def test_a_key_is_looked_for_by_a_scan_or_in_its_topic(tmp_path: Path) -> None:
    """The key index is read through a map, and of a remote store nothing is mapped."""
    with flightlog.open(tmp_path / "store", StoreSettings(segment_size=SEGMENT_SIZE)) as store:
        topics = ["rare" if i % 400 == 7 else "often" for i in range(2000)]
        put = store.put_many(Message(topic, bytes(500), keys=f"k{i}") for i, topic in enumerate(topics))
    end, size = put[-1].physical_offset + put[-1].size, sum(each.size for each in put if each.topic == "rare")
    of_topic, of_key = Bounds(topics=frozenset({"rare"})), Bounds(keys=frozenset({"k407"}))
    with served_stores.http_folder(tmp_path) as server:
        options = parse_options({"path": f"http://{server.address}/store", "columns": "offset,keys"})
        schema = arrow_schema(spark_schema(options.columns))
        for bounds, least, most in ((of_key, end * 9 // 10, end), (of_key & of_topic, size, size)):
            bounded = replace(options, bounds=bounds)
            tasks = plan_batch(bounded)
            server.requests.clear()
            found = [batch.to_pylist() for task in tasks for batch in read_ranges(task, schema, bounded)]
            assert [row for rows in found for row in rows] == [{"offset": 1, "keys": ["k407"]}]
            assert least <= server.fetched("/commitlog/") <= most, bounds
            assert not server.fetched("/index/")
    local = plan_batch(replace(parse_options({"path": str(tmp_path / "store")}), bounds=of_key))
    assert [piece.size for task in local for piece in task if isinstance(piece, LogRange)] == [put[407].size]


def test_a_stream_sees_what_was_copied_since(tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        store.put(Message("orders", b"first"))
    (tmp_path / "served").mkdir()
    shutil.copytree(tmp_path / "store", tmp_path / "served" / "store")
    with served_stores.http_folder(tmp_path / "served") as server:
        [location] = parse_options({"path": f"http://{server.address}/store"}).stores
        followed = FollowedStore(location, LogStream(ReadOptions()))
        before = followed.view.end_physical_offset
        with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
            [result] = store.put_many([Message("orders", b"second")])
        shutil.rmtree(tmp_path / "served" / "store")
        shutil.copytree(tmp_path / "store", tmp_path / "served" / "store")
        followed.look()
        assert before < followed.view.end_physical_offset == result.physical_offset + result.size
        followed.close()


def test_planning_asks_no_more_for_more_segments(tmp_path: Path) -> None:
    counts = []
    for segments in (20, 200):
        path = tmp_path / f"of-{segments}"
        with flightlog.open(path, StoreSettings(segment_size=8192, queue_file_entries=400)) as store:
            store.put_many(Message("orders", bytes(7000)) for _ in range(segments))
        with served_stores.object_store() as server:
            s3 = pyarrow.fs.S3FileSystem(**json.loads(server.options), allow_bucket_creation=True)
            s3.create_dir(BUCKET)
            pyarrow.fs.copy_files(str(path), f"{BUCKET}/store", destination_filesystem=s3)
            server.requests.clear()
            ranges = planned({"path": f"s3://{BUCKET}/store", "storageOptions": server.options})
            assert len(ranges) == segments
            counts.append(server.count())
    assert counts[0] == counts[1] < 60


def test_lists_and_patterns_lead_there_too(folder: Path, served: tuple[Any, dict[str, str]]) -> None:
    _, options = served
    root = options["path"].removesuffix("/east")
    both = {name: value for name, value in options.items() if name != "path"}
    for paths in ({"path": f"{root}/?*st"}, {"paths": json.dumps([f"{root}/east/", f"{root}//west"])}):
        stores = parse_options(both | paths).stores
        assert [(store.name, store.uri) for store in stores] == [("east", f"{root}/east"), ("west", f"{root}/west")]
    mixed = planned(both | {"paths": json.dumps([f"{root}/west", str(folder / "west")])})
    assert sorted({row["store"] for row in read(mixed, "store")}) == sorted(
        [f"{Path(root).name}/west", f"{folder.name}/west"]
    )
    with pytest.raises(StoreNotFoundError, match=r"/n\*: matches no store"):
        parse_options(both | {"path": f"{root}/n*"})
    with pytest.raises(StoreNotFoundError, match="/none: no such folder"):
        planned(both | {"path": f"{root}/none"})
    with pytest.raises(StoreNotFoundError, match="/east/config: no commitlog/ in it"):
        planned(both | {"path": f"{root}/east/config"})


GOLDEN = [
    "abort",
    "abort-torn",
    "abort-crcflip",
    "batch-bcq",
    "clean-cqlag",
    "delay-tx",
    "minoffset",
    "rollover",
    "v2-v6",
]


@pytest.mark.parametrize("name", GOLDEN)
def test_what_rocketmq_wrote_reads_the_same(name: str, golden: Callable[[str], Path]) -> None:
    root = golden(name)
    with served_stores.http_folder(root) as server:
        there = read(planned({"path": f"http://{server.address}/store"}), on_corrupt="skip")
    here = read(planned({"path": str(root / "store")}), on_corrupt="skip")
    assert there == here and here


# -- what goes wrong


def said(error: pytest.ExceptionInfo[FlightlogError]) -> str:
    text = str(error.value)
    assert "\n" not in text and len(text) < 700
    return text


def test_a_connection_that_is_cut_is_named(folder: Path) -> None:
    with served_stores.http_folder(folder) as server:
        uri = f"http://{server.address}/east"
        ranges = planned({"path": uri})
        server.fault = lambda request: "cut" if "/commitlog/0" in request.path else None
        with pytest.raises(DiskError) as error:
            read(ranges, "value")
        assert f"{uri}/commitlog/00000000000000000000: reading" in said(error)
        server.fault = lambda request: None
        assert len(read(ranges, "value")) == 1300, "and it can be run again"


def test_who_is_refused_is_told_where(folder: Path) -> None:
    with served_stores.http_folder(folder) as server:
        server.fault = lambda request: "refuse"
        with pytest.raises(DiskError, match="403") as error:
            planned({"path": f"http://{server.address}/east"})
        assert f"http://{server.address}/east/commitlog: looking for it" in said(error)
        address = server.address
    with pytest.raises(DiskError) as error:
        planned({"path": f"http://{address}/east"})
    assert "Look after the address, the credentials (option storageOptions) and the network" in said(error)


def test_a_server_without_ranges_is_refused(folder: Path) -> None:
    with served_stores.http_folder(folder) as server:
        server.fault = lambda request: "whole"
        with pytest.raises(DiskError, match="the server does not serve ranges of a file"):
            planned({"path": f"http://{server.address}/east"})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"path": "s3:///east"}, "expected s3://BUCKET/folder"),
        ({"path": "abfs://east/store"}, "expected abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/folder"),
        ({"path": "s3://b/s", "storageOptions": '{"endpoint": "secret"}'}, "s3://b: storageOptions: .*endpoint"),
        ({"path": "s3://b/s", "storageOptions": '["secret"]'}, "storageOptions: expected a JSON object"),
        ({"path": "s3://b/s", "storageOptions": "secret"}, "storageOptions: expected a JSON object"),
        ({"path": "/data/s", "storageOptions": '{"key": "secret"}'}, "storageOptions: expected beside an address"),
        ({"path": "s3://me:secret@b/s"}, r"s3://\.\.\.@b: a password in an address shows in logs"),
        ({"path": "zzz://b/s"}, "zzz://b: Protocol not known"),
    ],
)
def test_wrong_addresses_say_what_was_expected(options: dict[str, str], expected: str) -> None:
    with pytest.raises(InvalidSettingsError, match=expected) as error:
        planned(options)
    assert "secret" not in said(error)


def test_secrets_are_not_shown() -> None:
    [store] = parse_options({"path": "s3://b/s", "storageOptions": '{"secret_key": "hidden"}'}).stores
    assert "hidden" not in repr(store)


def test_a_remote_store_is_only_read(served: tuple[Any, dict[str, str]]) -> None:
    _, options = served
    [location] = parse_options(options).stores
    disk = location.disk()
    for change in (
        lambda: disk.remove(location.path / "checkpoint"),
        lambda: disk.open(location.path / "checkpoint", writable=True),
        lambda: disk.open(location.path / "checkpoint").write(0, b"x"),
        lambda: disk.make_folder(location.path / "new"),
        lambda: flightlog.open(location.path, disk=disk),
    ):
        with pytest.raises(FlightlogError, match=r"a remote store is only read|read"):
            change()
    with pytest.raises(DiskError, match="cannot be mapped"):
        disk.open(location.path / "checkpoint").map_for_read()


@pytest.mark.ci
def test_spark_reads_what_a_server_has(spark: SparkSession, served: tuple[Any, dict[str, str]], folder: Path) -> None:
    server, options = served
    server.requests.clear()
    reader = spark.read.format("flightlog").option("splitBytes", SPLIT_BYTES)
    frame = reader.option("columns", "physicalOffset,value").options(**options).load()
    there = frame.selectExpr("count(*)", "sum(length(value))", "count(distinct physicalOffset)").first()
    assert there == (1300, sum(i * 7919 % 20_000 for i in range(1300)), 1300)
    segments = sum(path.stat().st_size for path in (folder / "east" / "commitlog").iterdir())
    assert server.fetched("/commitlog/0") < segments + LOOK_BYTES
