"""The data source itself: `spark.read.format("flightlog").load(path)`.

Spark creates a DefaultSource with a DataFrame, plans in a worker of the driver, and reads in workers of the executors;
objects are pickled between them. One row is one message; `schema.py` has the columns, `read_options.py` the options.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from ..store.errors import InvalidSettingsError, MissingExtraError
from .requirements import require_spark

try:
    import pyarrow  # noqa: F401 (what readers hand to Spark)
    import pyspark
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        InputPartition,
    )
    from pyspark.sql.types import StructType
except ModuleNotFoundError:
    require_spark("the Spark source")
    raise

from .entry import entry, iterating_entry, quieten_closed_sockets
from .options.bounds import NO_BOUNDS
from .options.read_options import ReadOptions, parse_options
from .options.write_options import parse_write_options
from .plan.batch_planning import LogPartition, plan_batch
from .plan.filters import bounds_of, filter_text, filters_are_coming
from .read.queue_table import queue_batch
from .read.reading import read_ranges
from .schema import arrow_schema, options_of_new_table, options_of_read, spark_schema, with_options
from .write.writing import LogBatchWriter, refuse_overwrite

quieten_closed_sockets()  # here, as every worker that finds, plans, reads or writes for us imports this module


class DefaultSource(DataSource):
    """A store as a table. Spark looks for a class of this name."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "flightlog"

    @entry
    def schema(self) -> StructType:
        """All columns, or those of the option `columns`. Raises UsageErrors for a wrong option and a wrong path."""
        _freeze()
        of_table = options_of_new_table(self.options)
        options = _checked(self.options if of_table is None else of_table)
        schema = spark_schema(options.columns, options.shown)
        return schema if of_table is None else with_options(schema, of_table)

    @entry
    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of these columns: what `schema` returned, or a schema of the user's. Raises as `schema` does."""
        options = _checked(options_of_read(self.options, schema))
        options.require_batch()
        return self._tasks(options, schema)

    @entry
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader of a stream of these columns. Raises as `reader` does."""
        from .stream.streaming import LogStreamReader

        tasks = self._tasks(_checked(options_of_read(self.options, schema)), schema)
        return LogStreamReader(tasks.options, tasks)

    def _tasks(self, options: ReadOptions, schema: StructType) -> LogBatchReader:
        names = arrow_schema(schema, options.added, options.find).names
        if options.columns and [name.lower() for name in names] != [name.lower() for name in options.columns]:
            raise InvalidSettingsError(
                f"columns={','.join(options.columns)!r} beside a schema of {', '.join(names)}: expected one of them"
            )
        if options.table == "queues":
            return QueueTableReader(options, schema)
        takes_filters = options.pushes_filters and filters_are_coming()
        return (FilteredReader if takes_filters else LogBatchReader)(options, schema)

    @entry
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer that appends rows. Raises UsageErrors, and StoreLockedError, before any task runs."""
        refuse_overwrite(overwrite, is_stream=False)
        return LogBatchWriter(parse_write_options(self.options), schema)

    @entry
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A writer for the batches of a stream. Raises as `writer`, and MissingExtraError before Spark 4.1."""
        refuse_overwrite(overwrite, is_stream=True)
        try:
            from .write.stream_writing import LogStreamWriter
        except ImportError as error:
            needed_for = f"writing a stream (pyspark 4.1 or newer; {pyspark.__version__} is here)"
            raise MissingExtraError("spark", needed_for) from error
        return LogStreamWriter(parse_write_options(self.options, is_stream=True), schema)


def _checked(given: Mapping[str, str]) -> ReadOptions:
    options = parse_options(given)
    for location in options.stores:
        location.require_store()
    return options


class LogBatchReader(DataSourceReader):
    """Plans once, in a worker of the driver; `read` runs in tasks, each with a copy of this object."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        names = tuple(options.find(field.name).name for field in schema.fields)
        self.options, self._wanted = replace(options, columns=names), schema
        self._pushed: list[str] = []
        """The filters that became bounds, for the log line."""

    @entry
    def partitions(self) -> list[InputPartition]:
        """One partition for each task, in the order of the stores and their logs; an empty one if all are empty."""
        _freeze()
        tasks = plan_batch(self.options, self._pushed)
        return [LogPartition(ranges) for ranges in tasks] or [LogPartition(())]

    @iterating_entry
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The partition's messages as RecordBatches. Raises as `read_ranges`."""
        assert isinstance(partition, LogPartition)
        _freeze()
        schema = arrow_schema(self._wanted, self.options.added)
        yield from read_ranges(partition.ranges, schema, self.options)


class QueueTableReader(LogBatchReader):
    """Reads the table of queues: a row a queue, a task a store."""

    @entry
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(location) for location in self.options.stores]

    @iterating_entry
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The queues of a store as one RecordBatch. Raises as `queue_batch`."""
        _freeze()
        schema = arrow_schema(self._wanted, find=self.options.find)
        yield queue_batch(partition.value, list(self.options.columns), schema, self.options)


class FilteredReader(LogBatchReader):
    """Uses the filters of its query to read less. Spark evaluates them again."""

    @entry
    def pushFilters(self, filters: list[Any]) -> list[Any]:
        """Called before `partitions`, from Spark 4.1 on."""
        self.options = replace(self.options, bounds=self.options.bounds & bounds_of(filters))
        self._pushed += [filter_text(each) for each in filters if bounds_of([each]) != NO_BOUNDS]
        return filters


@cache
def _freeze() -> None:
    """Once a process: Spark runs the garbage collector after every task and every step of a plan, which would scan all
    modules each time."""
    gc.freeze()
