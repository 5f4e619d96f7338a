"""The folders that tasks stage their rows in: who makes them, who takes them away, and what is never left."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from flightlog.spark.options.store_settings import SETTINGS
from flightlog.spark.write.staging import Stager
from flightlog.spark.write.staging_folder import STALE_S, make_job_folder, remove_job, remove_stale
from flightlog.spark.write.write_columns import WriteColumns
from flightlog.store.errors import DiskError

SEGMENT_SIZE = 1 << 20


def stager(job: Path) -> Stager:
    columns = WriteColumns.of(StructType([StructField("value", BinaryType())]), "t")
    return Stager(columns, job, SETTINGS, SEGMENT_SIZE)


def batch(value: bytes) -> Any:
    return pa.RecordBatch.from_pydict({"value": [value]})


def test_a_task_that_comes_too_late_makes_nothing(tmp_path: Path) -> None:
    """The job has failed, and nothing is to be left of it: neither what a task is still writing nor what starts now."""
    job = tmp_path / "staging" / "job"
    make_job_folder(job)

    def rows() -> Iterator[Any]:
        yield batch(b"x")
        remove_job(job)
        yield batch(b"y")

    assert stager(job).stage(rows(), 0) is not None
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DiskError, match="this task comes too late; or this machine does not see the driver's folders"):
        stager(job).stage([batch(b"z")], 1)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "staging").touch()
    with pytest.raises(DiskError, match="staging/job: "):
        make_job_folder(tmp_path / "staging" / "job")


def test_only_what_has_not_changed_for_a_day_is_removed(tmp_path: Path) -> None:
    long_ago = time.time() - STALE_S - 60
    for name, ages in {"job-dead": [long_ago], "job-alive": [long_ago, time.time()]}.items():
        job = tmp_path / "staging" / name
        job.mkdir(parents=True)
        for number, age in enumerate(ages):
            (job / f"part-{number}").touch()
            os.utime(job / f"part-{number}", (age, age))
        os.utime(job, (long_ago, long_ago))
    remove_stale(tmp_path / "staging")
    assert [job.name for job in (tmp_path / "staging").iterdir()] == ["job-alive"]
    remove_stale(tmp_path / "none")
