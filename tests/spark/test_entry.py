"""What Spark prints of our errors: the message, without our frames and without what caused it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.spark.entry import entry, iterating_entry
from flightlog.spark.source import DefaultSource, LogBatchReader
from flightlog.spark.stream.streaming import LogStreamReader
from flightlog.spark.write.writing import LogBatchWriter
from flightlog.store.errors import DiskError, StoreNotFoundError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENTRIES = {
    DefaultSource: ("schema", "reader", "streamReader", "writer", "streamWriter"),
    LogBatchReader: ("partitions", "read"),
    LogBatchWriter: ("write", "commit", "abort"),
    LogStreamReader: ("latestOffset", "prepareForTriggerAvailableNow", "reportLatestOffset", "partitions"),
}


def fails() -> Iterator[int]:
    yield 1
    try:
        raise OSError("the cause")
    except OSError as e:
        raise DiskError("what to do") from e


@iterating_entry
def iterated() -> Iterator[int]:
    yield from fails()


@entry
def called() -> list[int]:
    return list(fails())


@pytest.mark.parametrize("call", [called, lambda: list(iterated())])
def test_an_error_leaves_an_entry_point_without_our_frames_and_its_cause(call: Callable[[], list[int]]) -> None:
    with pytest.raises(DiskError) as caught:
        call()
    text = "".join(traceback.format_exception(caught.value))
    assert text.endswith("DiskError: what to do\n")
    assert "the cause" not in text and "in fails" not in text


def test_an_error_that_is_not_ours_keeps_its_traceback() -> None:
    @entry
    def broken() -> None:
        next(iter(()))

    with pytest.raises(StopIteration) as caught:
        broken()
    assert "in broken" in "".join(traceback.format_exception(caught.value))


def test_every_function_that_spark_calls_is_an_entry_point() -> None:
    for kind, names in ENTRIES.items():
        for name in names:
            assert hasattr(getattr(kind, name), "__wrapped__"), f"{kind.__name__}.{name}"


@pytest.mark.ci
def test_the_last_lines_of_an_error_in_spark_are_ours(load: Callable[..., DataFrame], tmp_path: Path) -> None:
    """The message was the last of 7 to 30 lines, most of them our own frames."""
    with pytest.raises(Exception, match="no such folder") as caught:
        load(tmp_path / "none")
    lines = [line for line in str(caught.value).splitlines() if "SQLSTATE" not in line and line.strip()]
    assert lines[-1].partition(":")[0].endswith(StoreNotFoundError.__name__)
    ours = [line for line in lines if "File " in line and "pyspark" not in line]
    assert len(ours) == 1 and "entry.py" in ours[0]
