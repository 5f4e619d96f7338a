"""What was deleted is in no scan, though its bytes are in the log."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.read_options import ReadOptions
from flightlog.spark.read.reading import RangeReader
from flightlog.spark.schema import arrow_schema, spark_schema
from flightlog.tests.support.planning import plan

SETTINGS = StoreSettings.small(segment_size=16 << 10)


def scanned(path: Path, split_bytes: int, **how: Any) -> list[tuple[str, int]]:
    reader = RangeReader(arrow_schema(spark_schema(("topic", "offset"))), ReadOptions(**how))
    tasks = pickle.loads(pickle.dumps(plan(path, split_bytes)))
    rows = [row for task in tasks for part in task for batch in reader.read(part) for row in batch.to_pylist()]
    return sorted((row["topic"], row["offset"]) for row in rows)


@pytest.mark.parametrize("split_bytes", [2000, 1 << 30])
@pytest.mark.parametrize("include_internal", [False, True])
def test_no_scan_shows_it(include_internal: bool, split_bytes: int, tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        for i in range(200):
            store.put_many([Message("goes", b"%d" % i), Message("stays", b"%d" % i)])
        assert len(scanned(tmp_path, split_bytes, include_internal=include_internal)) == 400
        store.delete_topic("goes")
        expected = [("stays", i) for i in range(200)]
        assert scanned(tmp_path, split_bytes, include_internal=include_internal) == expected
        store.put_many([Message("goes", b"new")] * 3)
        expected = [("goes", i) for i in range(3)] + expected
        assert scanned(tmp_path, split_bytes, include_internal=include_internal) == expected
        assert store.verify().is_clean
    assert scanned(tmp_path, split_bytes, include_internal=include_internal) == expected
