"""Spark's part in a stream, without Spark: it keeps the checkpoint and asks a reader as Spark's micro-batches do.

Two dialects: "admission" is that of Spark 4.2 and later; "plain" that of 4.0 and 4.1, where Spark says neither where
the last batch ended nor how much the next may hold, and tells a new reader the latest offset of the checkpoint by a
batch of nothing.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from flightlog.spark.source import DefaultSource

Row = dict[str, Any]
COLUMNS = ("topic", "partition", "offset", "physicalOffset", "size", "value")


class StreamDriver:
    """A query that can be killed and started again. `offsets` and `committed` are its checkpoint."""

    reader: Any

    def __init__(self, path: Path | str, dialect: str = "admission", **options: object) -> None:
        self._given = {"path": str(path), "columns": ",".join(COLUMNS)}
        self._given |= {name: str(value) for name, value in options.items()}
        self._dialect = dialect
        self.offsets: list[str] = []
        """The end of each batch that was planned, as text."""
        self.committed = 0
        self.start()

    def start(self, *, available_now: bool = False, **changes: object) -> None:
        """Start it, again: all that is left of the last run is the checkpoint."""
        self._given |= {name: str(value) for name, value in changes.items()}
        source = DefaultSource(dict(self._given))
        schema = source.schema()
        # A query has two readers: one that plans, and one that goes to the tasks.
        self.reader = source.streamReader(schema)
        self._for_tasks: bytes = cloudpickle.dumps(source.streamReader(schema))  # type: ignore[no-untyped-call]
        if self._dialect == "plain" and self.offsets:
            assert list(self._partitions(self.offsets[-1], self.offsets[-1])) == []
        if available_now:
            self.reader.prepareForTriggerAvailableNow()

    def batch(self, *, commit: bool = True) -> list[Row] | None:
        """The rows of the next batch; None where there is nothing new. Without `commit` it dies before that, and must
        be started again, which repeats the batch."""
        number = self.committed
        if number == len(self.offsets):
            latest = self._latest()
            if self.offsets and latest == self.offsets[-1]:
                return None
            self.offsets.append(latest)
        start = self.offsets[number - 1] if number else json.dumps(self.reader.initialOffset())
        rows = self._rows(start, self.offsets[number])
        if commit:
            self.committed += 1
            self.reader.commit(json.loads(self.offsets[number]))
        return rows

    def all_batches(self, limit: int = 10_000) -> list[list[Row]]:
        """Batches until nothing is new."""
        found: list[list[Row]] = []
        while (rows := self.batch()) is not None:
            found.append(rows)
            assert len(found) < limit, "the stream does not come to an end"
        return found

    def rows(self) -> list[Row]:
        """The rows of all batches until nothing is new."""
        return [row for rows in self.all_batches() for row in rows]

    @property
    def place(self) -> Any:
        """The last offset."""
        return json.loads(self.offsets[-1])

    def _latest(self) -> str:
        if self._dialect == "plain":
            return json.dumps(self.reader.latestOffset())
        start = json.loads(self.offsets[-1]) if self.offsets else self.reader.initialOffset()
        return json.dumps(self.reader.latestOffset(start, self.reader.getDefaultReadLimit()))

    def _partitions(self, start: str, end: str) -> Any:
        return self.reader.partitions(json.loads(start), json.loads(end))

    def _rows(self, start: str, end: str) -> list[Row]:
        tasks: Callable[[], Any] = lambda: pickle.loads(self._for_tasks)  # noqa: E731 (each task has a reader of its own)
        partitions = [pickle.loads(pickle.dumps(partition)) for partition in self._partitions(start, end)]
        return [row for partition in partitions for batch in tasks().read(partition) for row in batch.to_pylist()]
