"""Writing a stream into a store: `df.writeStream.format("flightlog").option("checkpointLocation", ...).start(path)`.

Writes are exactly-once per batch: a batch that Spark repeats after a restart is not appended again (`WriteLedger`).
Needs Spark 4.1, whose streams pass Arrow data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ...store.errors import InvalidSettingsError
from ..entry import entry
from ..options.write_options import WriteOptions
from .writing import JobStaging, StagedTask, append_files, staged_files


class LogStreamWriter(DataSourceStreamArrowWriter):
    """One batch of a stream. Spark creates one to plan a batch, and another one to commit or abort it."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._staging = JobStaging(options, schema)

    @entry
    def write(self, iterator: Iterator[Any]) -> StagedTask:
        """Stage the rows of a task. Raises InvalidMessageError for rows that no store takes."""
        return self._staging.write(iterator)

    @entry
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Append all rows of the batch, or none."""
        try:
            queries = {message.query for message in messages if isinstance(message, StagedTask)}
            query = queries.pop() if len(queries) == 1 else None
            if query is None:
                raise InvalidSettingsError(
                    "this Spark does not pass the query id to tasks, so a repeated batch could not be recognized after "
                    "a restart; write with foreachBatch, which is at-least-once"
                )
            options = self._staging.options
            append_files(options.root, staged_files(messages), query, batchId, options.settings)
        finally:
            self._staging.clean_up(messages)

    @entry
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what was staged."""
        self._staging.clean_up(messages)
