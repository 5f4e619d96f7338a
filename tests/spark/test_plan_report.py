"""The INFO line of a plan: what is read, what was pushed, and what is left out; and that of a stream's batch."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import datasource

import flightlog
from flightlog import Message, StoreSettings
from flightlog.spark.options.read_options import parse_options
from flightlog.spark.plan.batch_planning import report_batch
from flightlog.spark.schema import spark_schema
from flightlog.spark.source import FilteredReader, LogBatchReader
from flightlog.spark.stream.streaming import LogStreamReader

if TYPE_CHECKING:
    from flightlog.tests.spark.conftest import AssertClean

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


@pytest.mark.parametrize("selection", [{}, {"subscribe": "rare"}])
def test_each_batch_of_a_stream_is_one_line_too(
    store: Path, caplog: pytest.LogCaptureFixture, assert_clean: AssertClean, selection: dict[str, str]
) -> None:
    options = parse_options({"path": str(store), "startingOffsets": "earliest", **selection})
    reader = LogStreamReader(options, LogBatchReader(options, spark_schema(("topic", "value"))))
    before = reader.initialOffset()
    with caplog.at_level(logging.INFO, "flightlog.spark"):
        for _ in range(2):
            after = reader.latestOffset(before)
            reader.partitions(before, after)
            with flightlog.open(store) as opened:
                opened.put_many([Message("rare", BODY, queue_id=0), Message("common", BODY, queue_id=0)])
            before = after
        reader.partitions(before, before)
    reader.stop()
    assert_clean(store)
    told = [record for record in caplog.records if hasattr(record, "start")]
    assert len(told) == 2, "a batch of nothing is not told"
    fields = [vars(record) for record in told]
    assert all(each["path"] == str(store) and each["tasks"] == 1 for each in fields)
    assert fields[0]["end"] == fields[1]["start"] != fields[1]["end"]
    place = json.loads(fields[0]["end"])
    assert place["queues"]["rare"]["0"] == 10 if selection else place["physicalOffset"] > 1000 * len(BODY)
    first = 10 if selection else 1000
    assert first * len(BODY) < fields[0]["bytes"] < 1.2 * first * len(BODY)
    assert len(BODY) < fields[1]["bytes"] < 3 * len(BODY)
    said = f"planned a batch of 1 tasks, about {fields[1]['bytes']} bytes of the log, from {fields[1]['start']} to "
    assert told[1].getMessage() == f"{store}: {said}{fields[1]['end']}"


def test_an_offset_of_thousands_of_queues_is_cut_short_in_the_line(caplog: pytest.LogCaptureFixture) -> None:
    offset = {"queues": {"orders": {str(number): number for number in range(5000)}}}
    with caplog.at_level(logging.INFO, "flightlog.spark"):
        report_batch(["store"], [], offset, offset)
    [told] = [record for record in caplog.records if record.name.startswith("flightlog.spark")]
    assert len(told.getMessage()) < 1000
    assert json.loads(vars(told)["end"]) == offset
