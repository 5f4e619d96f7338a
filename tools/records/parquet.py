"""Messages as a Parquet file, with the names of fields.py and the types of Arrow."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO

from ...store.errors import MissingExtraError
from ...store.stored_message import StoredMessage
from .fields import BODY, fields_of

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 20_000
"""Messages of a row group, or fewer if their bodies are large."""
SIZE = 64 << 20
"""Bytes of bodies."""


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


class ParquetFile:
    """Row groups are written as they are full."""

    def __init__(self, output: BinaryIO) -> None:
        """Raises MissingExtraError without pyarrow."""
        try:
            import pyarrow.parquet as pq
        except ImportError as e:
            raise MissingExtraError("arrow", "Parquet") from e
        self._schema = schema()
        self._writer = pq.ParquetWriter(output, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._size = 0

    def write(self, message: StoredMessage) -> None:
        row = fields_of(message)
        row["store_time"], row["born_time"] = _moment(message.store_timestamp_ms), _moment(message.born_timestamp_ms)
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


def _moment(timestamp_ms: int) -> datetime | None:
    """None where no calendar reaches."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
