"""The driver of a job on a cluster, run as a program of its own: reads a store, and prints what it found as JSON.

    python cluster_job.py MASTER ARCHIVE STORE SPLIT_BYTES HELD

In the second query one task does not end: it writes the number of its executor's process into the file HELD, and waits
to be killed with it. Whoever does the task again sees the file, and goes on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import flightlog
import flightlog.spark
from flightlog.store import native

MASTER, ARCHIVE, STORE, SPLIT_BYTES, HELD = sys.argv[1:]
WAIT_S = 300.0


def where(numbers: Iterable[int]) -> Iterator[tuple[str, str]]:
    """From where an executor has flightlog, and with which kernel."""
    import flightlog
    from flightlog.store import native

    yield str(Path(str(flightlog.__file__)).resolve()), native.NAME


def executor_pid() -> int:
    """A Python worker's parent is a daemon, whose parent is the executor."""
    status = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


def holding(held: str, middle: int) -> Any:
    def counts(number: int, rows: Iterable[Any]) -> Iterator[tuple[str, tuple[int, int]]]:
        if number == middle and not Path(held).exists():
            aside = Path(f"{held}.aside")
            aside.write_text(str(executor_pid()))
            aside.rename(held)
            deadline = time.monotonic() + WAIT_S
            while time.monotonic() < deadline:
                time.sleep(0.1)
            raise TimeoutError("nobody has killed this executor")
        for row in rows:
            yield row["topic"], (1, row["physicalOffset"])

    return counts


def main() -> None:
    conf = {
        "spark.archives": f"{ARCHIVE}#flightlog",
        "spark.executorEnv.PYTHONPATH": "flightlog",
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # no task before both executors are there
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
        "spark.driver.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = flightlog.spark.session("flightlog cluster", master=MASTER, conf=conf)
    context = spark.sparkContext
    frame = spark.read.format("flightlog").option("splitBytes", SPLIT_BYTES)
    grouped = (
        frame.option("columns", "topic,physicalOffset,value")
        .load(STORE)
        .selectExpr("topic", "physicalOffset", "length(value) AS size")
        .groupBy("topic")
        .agg({"topic": "count", "size": "sum", "physicalOffset": "sum"})
        .select("topic", "count(topic)", "sum(size)", "sum(physicalOffset)")
    )
    found = {
        "executors": sorted(set(context.parallelize(range(8), 8).mapPartitions(where).collect())),
        "driver": [str(Path(str(flightlog.__file__)).resolve()), native.NAME],
        "grouped": sorted(tuple(row) for row in grouped.collect()),
    }
    rows = frame.option("columns", "topic,physicalOffset").load(STORE).rdd
    count = rows.getNumPartitions()
    held = (
        rows.mapPartitionsWithIndex(holding(HELD, count // 2))
        .reduceByKey(lambda one, other: (one[0] + other[0], one[1] + other[1]), 2)
        .collect()
    )
    found |= {"tasks": count, "held": sorted((topic, *sums) for topic, sums in held)}
    print(json.dumps(found))
    spark.stop()


main()
