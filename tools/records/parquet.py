"""Messages as a Parquet file, with the names of fields.py and the types of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ...store.errors import MissingExtraError, UsageError
from ...store.stored_message import StoredMessage
from .fields import BODY, fields_of

if TYPE_CHECKING:
    from collections.abc import Buffer

    import pyarrow as pa

ROWS = 20_000
"""Messages of a row group, or fewer if their bodies are large."""
SIZE = 64 << 20
"""Bytes of bodies."""
READ_ROWS = 1000
"""Messages that are in memory at a time."""


def schema() -> pa.Schema:
    """The columns, in the order of fields.py."""
    import pyarrow as pa

    moment = pa.timestamp("ms", "UTC")
    return pa.schema(
        {
            "topic": pa.string(),
            "queue_id": pa.int32(),
            "queue_offset": pa.int64(),
            "physical_offset": pa.int64(),
            "size": pa.int32(),
            "store_time": moment,
            "born_time": moment,
            "tags": pa.string(),
            "keys": pa.list_(pa.string()),
            "uniq_key": pa.string(),
            "properties": pa.map_(pa.string(), pa.string()),
            "flag": pa.int32(),
            "sys_flag": pa.int32(),
            "reconsume_times": pa.int32(),
            "born_host": pa.string(),
            "store_host": pa.string(),
            BODY: pa.binary(),
        }
    )


class _Sink:
    """Takes what a writer still wants to write while it is collected, after an error closed its file."""

    def __init__(self, output: BinaryIO) -> None:
        self._output, self.closed = output, False

    def write(self, data: Buffer) -> int:
        return memoryview(data).nbytes if self._output.closed else self._output.write(data)

    def flush(self) -> None:
        if not self._output.closed:
            self._output.flush()

    def close(self) -> None:
        """Whoever opened the output closes it."""


class ParquetFile:
    """Row groups are written as they are full."""

    def __init__(self, output: BinaryIO) -> None:
        """Raises MissingExtraError without pyarrow."""
        try:
            import pyarrow.parquet as pq
        except ImportError as e:
            raise MissingExtraError("arrow", "Parquet") from e
        self._schema = schema()
        self._writer = pq.ParquetWriter(_Sink(output), self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._size = 0

    def write(self, message: StoredMessage) -> None:
        row = fields_of(message)
        row["store_time"], row["born_time"] = message.store_timestamp_ms, message.born_timestamp_ms
        row["properties"] = list(row["properties"].items())
        row[BODY] = message.body
        self._rows.append(row)
        self._size += len(message.body)
        if len(self._rows) >= ROWS or self._size >= SIZE:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        self._writer.write_table(pa.Table.from_pylist(self._rows, self._schema))
        self._rows, self._size = [], 0

    def end(self) -> None:
        if self._rows:
            self._write_group()
        self._writer.close()


def join_parquet(pieces: Sequence[Path], output: BinaryIO) -> None:
    """Write the row groups of these files into one."""
    import pyarrow.parquet as pq

    with pq.ParquetWriter(output, schema(), compression="zstd") as writer:
        for piece in pieces:
            writer.write_table(pq.read_table(piece, partitioning=None))


def read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, with the names of fields.py; times in milliseconds since 1970, properties as a mapping.
    Raises MissingExtraError without pyarrow, UsageError for another file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as e:
        raise MissingExtraError("arrow", "Parquet") from e
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(READ_ROWS):
                columns = {
                    name: column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                }
                for row in pa.RecordBatch.from_pydict(columns).to_pylist():
                    row["properties"] = dict(row["properties"])
                    yield row
    except (pa.ArrowException, KeyError, TypeError, ValueError) as e:
        raise UsageError(f"{path}: {e}: expected a Parquet file that `flightlog export` wrote") from e
