"""Converts the columns of a DataFrame to rows for a store: the columns of Spark's Kafka sink, and those of a record.

    value           binary or string   the body; needed
    topic           string             unless the option `topic` gives it for all rows
    key             binary or string   one index key
    keys            array<string>      all index keys; with this column, `key` is ignored
    partition       a whole number     the queue id; null or no column: the topic's queues take turns
    headers         as in Kafka        array<struct<key:string,value:binary>>: properties
    properties      map<string,string> the same as a map
    tags, uniqKey   string             as a read gives them
    flag            a whole number     null: 0
    bornTimestamp   timestamp          when the sender made it; null: when it is stored
    timestamp       timestamp          the same, where there is no bornTimestamp
    sysFlag         int                its bits for compressed bodies are kept; half messages are refused

The other columns of a read (`offset`, `physicalOffset`, `messageId`, ...) are ignored, as the store assigns them: rows
of one store can be written to another unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.types import StructType

from ...engine.columns.schema import BY_LOWER_NAME as READ_COLUMNS
from ...engine.write.append_atomically import TopicColumns
from ...store.errors import InvalidMessageError, InvalidSettingsError
from ...store.format.sys_flag import (
    COMPRESSED,
    COMPRESSION_MASK,
    INNER_BATCH,
    MULTI_TAGS,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)

TEXT = ("string",)
BYTES = ("binary", "string")
NUMBER = ("int", "bigint", "smallint", "tinyint")
HEADERS = "array<struct<key:string,value:binary>>"
TYPES = {
    "value": BYTES,
    "topic": TEXT,
    "key": BYTES,
    "keys": ("array<string>",),
    "partition": NUMBER,
    "headers": (HEADERS,),
    "properties": ("map<string,string>",),
    "tags": TEXT,
    "uniqKey": TEXT,
    "flag": NUMBER,
    "bornTimestamp": ("timestamp",),
    "timestamp": ("timestamp",),
    "sysFlag": ("int",),
}
BY_LOWER_NAME = {name.lower(): name for name in TYPES}
PASSED_OVER = (READ_COLUMNS.keys() | {"store"}) - BY_LOWER_NAME.keys()
"""Columns of a read that describe the place of a message, not its content."""

KEPT_BITS = COMPRESSED | COMPRESSION_MASK | MULTI_TAGS
Integers = NDArray[np.int64]
Group = tuple[str, int]
"""Topic and kept bits of the flag, which the rows of one append share."""


@dataclass(frozen=True)
class WriteColumns:
    """The position of each column in a DataFrame, and the topic of rows without one. Pickled."""

    places: dict[str, int]
    topic: str | None

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> WriteColumns:
        """Raises InvalidSettingsError for a column that is unknown, of another type or there twice, or missing."""
        places: dict[str, int] = {}
        for at, field in enumerate(schema.fields):
            name = BY_LOWER_NAME.get(field.name.lower())
            if name is None:
                if field.name.lower() in PASSED_OVER:
                    continue
                raise InvalidSettingsError(
                    f"column {field.name!r}: a message has no such thing; expected some of {', '.join(TYPES)}. "
                    "Leave it out with drop(), or move it into properties or value"
                )
            found = field.dataType.simpleString()
            if found not in TYPES[name]:
                raise InvalidSettingsError(f"column {field.name!r}: {found}, expected {' or '.join(TYPES[name])}")
            if name in places:
                raise InvalidSettingsError(f"column {field.name!r}: it is there twice")
            places[name] = at
        if "value" not in places:
            raise InvalidSettingsError("no column 'value': expected the messages' bodies, as binary or string")
        if topic is None and "topic" not in places:
            raise InvalidSettingsError("no topic: expected a column 'topic', or option(\"topic\", name) for all rows")
        if "headers" in places and "properties" in places:
            raise InvalidSettingsError("columns 'headers' and 'properties': both are the properties, expected one")
        return cls(places, topic)

    def groups(self, batch: Any) -> Iterator[tuple[Group, Any, Integers]]:
        """The rows of a batch by topic and flag, in their order: record batches of an append's columns, and the numbers
        of their rows in the batch. Raises InvalidMessageError for rows that no store takes."""
        rows = self._rows(batch)
        topics, flags = self._topics(batch), self._flags(batch)
        if not len(rows):
            return
        if isinstance(topics, str) and flags is None:
            yield (topics, 0), rows, np.arange(len(rows))
            return
        names, codes = ([topics], np.zeros(len(rows), np.int64)) if isinstance(topics, str) else topics
        together = codes << 16 | (0 if flags is None else flags)
        order = np.argsort(together, kind="stable")
        starts = np.flatnonzero(np.diff(together[order], prepend=-1))
        ordered = rows if len(starts) == 1 else rows.take(pa.array(order))
        for start, stop in zip(starts.tolist(), [*starts.tolist()[1:], len(rows)], strict=True):
            code, flag = divmod(int(together[order[start]]), 1 << 16)
            yield (names[code], flag), ordered.slice(start, stop - start), order[start:stop]

    def name_of(self, column: str) -> str:
        """The DataFrame's name for a column of an append."""
        others = {"keys": "key", "bornTimestamp": "timestamp", "properties": "headers"}
        return column if column in self.places else others.get(column, column)

    def _column(self, batch: Any, name: str) -> Any:
        at = self.places.get(name)
        return None if at is None else batch.column(at)

    def _rows(self, batch: Any) -> Any:
        found = {"value": self._column(batch, "value"), "partition": self._column(batch, "partition")}
        if found["partition"] is None:
            found["partition"] = pa.nulls(len(batch), pa.int32())
        for name, column in (
            ("keys", "keys" if "keys" in self.places else "key"),
            ("tags", "tags"),
            ("uniqKey", "uniqKey"),
            ("bornTimestamp", "bornTimestamp" if "bornTimestamp" in self.places else "timestamp"),
        ):
            if column in self.places:
                found[name] = self._column(batch, column)
        if "flag" in self.places:
            found["flag"] = pc.fill_null(self._column(batch, "flag"), 0)
        if "properties" in self.places:
            found["properties"] = self._column(batch, "properties")
        elif "headers" in self.places:
            found["properties"] = _properties(self._column(batch, "headers"))
        return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))

    def _topics(self, batch: Any) -> str | tuple[list[str], Any]:
        """The topic of all rows; or the topics, and which of them each row has."""
        if self.topic is not None:
            return self.topic
        column = self._column(batch, "topic")
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise InvalidMessageError("null, expected the name of a topic", row=row, column="topic")
        encoded = column.dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)

    def _flags(self, batch: Any) -> Any:
        """The kept bits of each row; None where none has any."""
        column = self._column(batch, "sysFlag")
        if column is None:
            return None
        flags = pc.fill_null(column, 0).to_numpy().astype(np.int64)
        transaction = flags & TRANSACTION_MASK
        half = (transaction == TRANSACTION_PREPARED) | (transaction == TRANSACTION_ROLLBACK)
        if half.any():
            raise InvalidMessageError(
                "a half message or its rollback, which belongs to a transaction of another store. Leave such rows out "
                "(sysFlag & 4 = 0)",
                row=int(half.argmax()),
                column="sysFlag",
            )
        whole = (flags & (INNER_BATCH | COMPRESSED)) == (INNER_BATCH | COMPRESSED)
        if whole.any():
            raise InvalidMessageError(
                "a compressed inner batch, expected its messages. Leave such rows out (sysFlag & 128 = 0)",
                row=int(whole.argmax()),
                column="sysFlag",
            )
        kept = flags & KEPT_BITS
        return kept if kept.any() else None


def _properties(headers: Any) -> Any:
    """Kafka's headers as a map."""
    items = headers.values
    offsets = headers.offsets
    if headers.null_count:  # drops values below a null
        headers = pc.fill_null(headers, [])
        items, offsets = headers.values, headers.offsets
    keys, values = items.field("key"), items.field("value")
    return pa.MapArray.from_arrays(offsets, keys, values)


def part_of(group: Group, rows: Any) -> TopicColumns:
    """What a store appends."""
    return TopicColumns(group[0], rows, group[1])
