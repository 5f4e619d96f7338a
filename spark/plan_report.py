"""The INFO line of a plan: what a query reads, and what it leaves out.

Spark plans in a worker of the driver, and shows its log where `spark.sql.pyspark.worker.logging.enabled` is true (4.1):
`spark.tvf.python_worker_logs()`. Its `explain` has no place for a Python source's own words.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

log = logging.getLogger("flightlog.spark")

WORKER_LOGGING = "PYSPARK_SPARK_SESSION_UUID"
"""Spark sets it for its workers where it collects what they log."""
VALUE_SIZE = 60
"""Characters of a filter's value that are shown."""


class Piece(Protocol):
    """What a task reads."""

    @property
    def size(self) -> int: ...


def filter_text(pushed: Any) -> str:
    """A filter that bounds something, as Spark's: `EqualTo(topic, 'orders')`."""
    return f"{type(pushed).__name__}({'.'.join(pushed.attribute)}, {repr(pushed.value)[:VALUE_SIZE]})"


def report_plan(
    stores: Iterable[str], tasks: Sequence[Sequence[Piece]], log_size: int, pushed: Sequence[str], stores_left_out: int
) -> None:
    """Log what a plan came to. `log_size` is that of the logs of all stores that were opened."""
    if WORKER_LOGGING in os.environ and log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    path, size = ", ".join(stores), sum(piece.size for task in tasks for piece in task)
    left_out = max(log_size - size, 0)
    log.info(
        "%s: planned %d tasks, about %d of %d bytes of the log; filters pushed: %s; left out: about %d bytes, "
        "%d stores",
        *(path, len(tasks), size, log_size, "; ".join(pushed) or "none", left_out, stores_left_out),
        extra={
            "path": path,
            "tasks": len(tasks),
            "bytes": size,
            "log_bytes": log_size,
            "filters": list(pushed),
            "left_out_bytes": left_out,
            "left_out_stores": stores_left_out,
        },
    )
