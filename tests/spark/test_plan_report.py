"""The INFO line of a plan: what is read, what was pushed, and what is left out."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import datasource

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options import parse_options
from flightlog.spark.schema import spark_schema
from flightlog.spark.source import FilteredReader, LogBatchReader

if TYPE_CHECKING:
    from tests.spark.conftest import AssertClean

BODY = bytes(1000)


@pytest.fixture
def store(tmp_path: Path, assert_clean: AssertClean) -> Path:
    """A topic with one message in a hundred, and another."""
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small()) as opened:
        opened.put_many([Message("rare" if i % 100 == 0 else "common", BODY, queue_id=0) for i in range(1000)])
    assert_clean(path)
    return path


def plan_of(reader: LogBatchReader, caplog: pytest.LogCaptureFixture) -> Any:
    with caplog.at_level(logging.INFO, "flightlog.spark"):
        reader.partitions()
    [record] = [each for each in caplog.records if hasattr(each, "tasks")]
    caplog.clear()
    return record


def test_a_plan_is_one_line_that_says_what_is_read_and_left_out(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = ("topic", "value")
    with flightlog.open_read_only(store) as view:
        log_size = view.end_physical_offset
    whole = plan_of(LogBatchReader(parse_options({"path": str(store)}), spark_schema(names)), caplog)
    assert (whole.path, whole.bytes, whole.log_bytes, whole.left_out_bytes) == (str(store), log_size, log_size, 0)
    assert "filters pushed: none; left out: about 0 bytes, 0 stores" in whole.getMessage()
    options = parse_options({"path": str(store), "subscribe": "rare", "minPartitions": "2"})
    chosen = plan_of(LogBatchReader(options, spark_schema(names)), caplog)
    assert chosen.tasks == 2
    assert 10 * len(BODY) < chosen.bytes < 20 * len(BODY) and chosen.left_out_bytes == log_size - chosen.bytes


def test_a_plan_names_the_filters_that_bound_it(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    reader = FilteredReader(parse_options({"path": str(store)}), spark_schema(("topic", "value")))
    reader.pushFilters([datasource.EqualTo(("topic",), "rare"), datasource.IsNotNull(("topic",))])
    plan = plan_of(reader, caplog)
    assert plan.filters == ["EqualTo(topic, 'rare')"], "one that bounds nothing is not told"
    assert plan.bytes < 20 * len(BODY)
    assert "filters pushed: EqualTo(topic, 'rare'); left out: about " in plan.getMessage()
