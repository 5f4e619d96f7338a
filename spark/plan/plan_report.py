"""The INFO line of a plan: what a query reads, and what it leaves out; and that of each batch of a stream.

Spark plans in a worker of the driver, and shows its log where `spark.sql.pyspark.worker.logging.enabled` is true (4.1):
`spark.tvf.python_worker_logs()`. Its `explain` has no place for a Python source's own words.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

log = logging.getLogger("flightlog.spark")

WORKER_LOGGING = "PYSPARK_SPARK_SESSION_UUID"
"""Spark sets it for its workers where it collects what they log."""
VALUE_SIZE = 60
"""Characters of a filter's value that are shown."""
OFFSET_SIZE = 400
"""Characters of a stream's offset that are shown: it may name thousands of queues."""


class Piece(Protocol):
    """What a task reads."""

    @property
    def size(self) -> int: ...

    @property
    def from_entries(self) -> bool: ...


def filter_text(pushed: Any) -> str:
    """A filter that bounds something, as Spark's: `EqualTo(topic, 'orders')`."""
    return f"{type(pushed).__name__}({'.'.join(pushed.attribute)}, {repr(pushed.value)[:VALUE_SIZE]})"


def report_plan(
    stores: Iterable[str], tasks: Sequence[Sequence[Piece]], log_size: int, pushed: Sequence[str], stores_left_out: int
) -> None:
    """Log what a plan came to. `log_size` is that of the logs of all stores that were opened."""
    path, size, entries_size = ", ".join(stores), *_sizes(tasks)
    left_out = max(log_size - size, 0)
    _log_info(
        "%s: planned %d tasks, about %d of %d bytes of the log%s; filters pushed: %s; left out: about %d bytes, "
        "%d stores",
        *(path, len(tasks), size, log_size, _entries_text(entries_size)),
        *("; ".join(pushed) or "none", left_out, stores_left_out),
        extra={
            "path": path,
            "tasks": len(tasks),
            "bytes": size + entries_size,
            "entries_bytes": entries_size,
            "log_bytes": log_size,
            "filters": list(pushed),
            "left_out_bytes": left_out,
            "left_out_stores": stores_left_out,
        },
    )


def report_batch(stores: Iterable[str], tasks: Sequence[Sequence[Piece]], start: Any, end: Any) -> None:
    """Log what the plan of a stream's batch came to, between these two offsets."""
    path, size, entries_size = ", ".join(stores), *_sizes(tasks)
    texts = [json.dumps(offset, ensure_ascii=False) for offset in (start, end)]
    _log_info(
        "%s: planned a batch of %d tasks, about %d bytes of the log%s, from %s to %s",
        *(path, len(tasks), size, _entries_text(entries_size)),
        *(text if len(text) <= OFFSET_SIZE else f"{text[:OFFSET_SIZE]} ..." for text in texts),
        extra={
            "path": path,
            "tasks": len(tasks),
            "bytes": size + entries_size,
            "entries_bytes": entries_size,
            "start": texts[0],
            "end": texts[1],
        },
    )


def _sizes(tasks: Sequence[Sequence[Piece]]) -> tuple[int, int]:
    """Bytes of the log, and of entries that are read in its place."""
    pieces = [piece for task in tasks for piece in task]
    entries_size = sum(piece.size for piece in pieces if piece.from_entries)
    return sum(piece.size for piece in pieces) - entries_size, entries_size


def _entries_text(size: int) -> str:
    return f", from the queues alone {size} bytes" if size else ""


def _log_info(text: str, *values: Any, extra: dict[str, Any]) -> None:
    if WORKER_LOGGING in os.environ and log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    log.info(text, *values, extra=extra)
