"""A thousand segments of a gibibyte, as a broker leaves them: planned without reading them, and answered right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.spark.options.read_options import DEFAULT_SPLIT_BYTES
from flightlog.spark.options.stores import StoreLocation
from flightlog.spark.plan.log_planning import plan_log
from flightlog.spark.plan.queue_planning import plan_queues
from flightlog.tests.support import sparse_log
from flightlog.tools.counting_disk import CountingDisk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Load = Callable[..., DataFrame]

SEGMENTS, RECORDS, QUEUES = 1000, 10, 4
COUNT = SEGMENTS * RECORDS
GIBIBYTE = 1 << 30

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("many") / "store"
    sparse_log.make(path, SEGMENTS, RECORDS, QUEUES)
    with flightlog.open_read_only(path) as view:
        report = view.verify()
        assert report.is_clean and report.records == COUNT
    return path


def test_planning_reads_next_to_nothing(store: Path) -> None:
    opening, planning = CountingDisk(), CountingDisk()
    flightlog.open_read_only(store, disk=opening).close()
    location = StoreLocation.local(store)
    with flightlog.open_read_only(store, disk=planning) as view:
        assert view.end_physical_offset == SEGMENTS * GIBIBYTE
        assert len(plan_log(view, location, GIBIBYTE)) == SEGMENTS
        assert planning.read_size == opening.read_size, "whole segments need no look"
        assert len(plan_log(view, location, DEFAULT_SPLIT_BYTES)) == SEGMENTS, "behind the last records there is no cut"
        assert planning.read_size - opening.read_size < SEGMENTS * (300 << 10)
        before = planning.read_size
        tasks = plan_queues(view, location, {("orders", i): (0, COUNT // QUEUES) for i in range(QUEUES)}, 1 << 20)
        assert sum(piece.stop - piece.start for task in tasks for piece in task) == COUNT
        assert planning.read_size - before < 1 << 20


def test_every_record_is_found(store: Path, load: Load) -> None:
    from pyspark.sql import functions as f

    frame = load(store, splitBytes=64 * GIBIBYTE, columns="partition,offset,physicalOffset,timestamp,value")
    found = frame.groupBy("partition").agg(
        f.count("*"),
        f.sum("offset"),
        f.count_distinct("physicalOffset"),
        f.count_distinct("value"),
        f.count_distinct(f.floor(f.col("physicalOffset") / GIBIBYTE)),
    )
    each = COUNT // QUEUES
    expected = {(i, each, each * (each - 1) // 2, each, each, SEGMENTS) for i in range(QUEUES)}
    assert {tuple(row) for row in found.collect()} == expected


def test_a_topic_is_found_through_its_queues(store: Path, load: Load) -> None:
    from pyspark.sql import functions as f

    starting = '{"orders":{"0":100,"1":2499,"2":-2,"3":2400}}'
    frame = load(store, subscribe="orders", startingOffsets=starting, columns="partition,offset")
    found = frame.groupBy("partition").agg(f.min("offset"), f.count("*")).collect()
    assert {tuple(row) for row in found} == {(0, 100, 2400), (1, 2499, 1), (2, 0, 2500), (3, 2400, 100)}
