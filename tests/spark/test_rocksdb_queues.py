"""Stores whose consume queues are in RocksDB: topics of them are read from the log, by batches and by streams."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from flightlog.spark.options.read_options import parse_options
from flightlog.spark.schema import spark_schema
from flightlog.spark.source import LogBatchReader
from flightlog.tests.support.stream_driver import StreamDriver

DATA = Path(os.environ.get("FLIGHTLOG_ROCKSDB", Path(__file__).resolve().parents[1] / "data" / "rocksdb"))
COUNT = 120
NAMES = ("topic", "partition", "offset", "value")


@pytest.fixture(params=["closed", "halted"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(DATA / f"{request.param}.tar.xz") as tar:
        tar.extractall(tmp_path)
    assert (tmp_path / "store" / "consumequeue" / "CURRENT").exists()
    return tmp_path / "store"


def expected(*topics: str) -> list[tuple[Any, ...]]:
    ends: dict[tuple[str, int], int] = {}
    rows = []
    for i in range(COUNT):
        key = "parcels" if i % 3 == 2 else "stock", i % 2
        rows.append((*key, ends.setdefault(key, 0), b"message %05d" % i))
        ends[key] += 1
    return sorted(row for row in rows if row[0] in topics)


def read(root: Path, names: tuple[str, ...] = NAMES, **options: str) -> list[tuple[Any, ...]]:
    reader = LogBatchReader(parse_options({"path": str(root), **options}), spark_schema(names))
    rows = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    return sorted(tuple(row.values()) for row in rows)


def test_topics_are_read_from_the_log(root: Path) -> None:
    assert read(root) == expected("stock", "parcels")
    assert read(root, subscribe="parcels") == expected("parcels")
    assert read(root, subscribePattern="s.*", minPartitions="3") == expected("stock")
    assert read(root, NAMES[:3], subscribe="parcels") == [row[:3] for row in expected("parcels")]
    ends = '{"stock": {"0": 5, "1": 0}}'
    assert read(root, assign='{"stock": [0, 1]}', endingOffsets=ends) == [
        row for row in expected("stock") if row[1] == 0 and row[2] < 5
    ]


@pytest.mark.parametrize("dialect", ["admission", "plain"])
@pytest.mark.parametrize("selection", [{}, {"subscribe": "parcels"}])
def test_streams_read_from_the_log(root: Path, dialect: str, selection: dict[str, str]) -> None:
    stream = StreamDriver(root, dialect, startingOffsets="earliest", maxOffsetsPerTrigger=7, **selection)
    rows = [tuple(row[name] for name in NAMES) for row in stream.rows()]
    assert sorted(rows) == (expected("parcels") if selection else expected("stock", "parcels"))
    assert stream.batch() is None
