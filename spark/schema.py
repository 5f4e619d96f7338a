"""The columns of a DataFrame over a store: those of `engine/columns/schema.py`, those that options add, and the name of
the store; as Arrow and Spark types.

The options of an SQL table (`CREATE TABLE name USING flightlog OPTIONS (path '...')`) are kept in the metadata of its
columns: Spark passes them to the source once, when it creates the table and asks for its columns, and not when it reads
the table (seen on 4.0 and 4.3). It does keep and pass back the columns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..engine.columns import schema as message
from ..engine.columns.message_columns import MessageColumns
from ..engine.columns.schema import Column
from ..store.errors import InvalidSettingsError
from .remote.storages import ADDRESS

STORE = Column("store", "string", "the store it is from: the last parts of its path, as many as tell the stores apart")
"""Shown by default if a query can have several stores; else only if it is requested by name."""
HEADERS = Column(
    "headers", "array<struct<key:string,value:binary>>", "the properties as Kafka's headers; null without any"
)
CORRUPT = Column(
    "_corrupt",
    "struct<file:string,offset:bigint,reason:string>",
    "of a damaged place: its segment file, the physical offset where it begins, what was found there; else null",
)
QUEUE_COLUMNS = (
    Column("topic", "string", "the topic; see the option subscribe for which are shown"),
    Column("partition", "int", "the queue id"),
    Column("firstOffset", "bigint", "the queue offset of its first message; null without one, as in the next three"),
    Column("lastOffset", "bigint", "the queue offset of its last message"),
    Column("firstTimestamp", "timestamp", "when the first was stored; null also where its record is damaged"),
    Column("lastTimestamp", "timestamp", "when the last was stored, likewise"),
    Column("count", "bigint", "how many messages it holds"),
    Column("bytes", "bigint", "the bytes of their records, by the entries of the queue"),
    Column("groupLag", "map<string,bigint>", "how many messages are behind the offset of each group that has any here"),
)
"""The columns of `table=queues`; with `store` where a query can have several."""
ADDED_BY = {HEADERS.name: "includeHeaders=true", CORRUPT.name: "onCorrupt=rows"}
"""Which option adds a column."""

HEADER_FIELDS = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
ARROW_TYPES: dict[str, Any] = {
    **message.ARROW_TYPES,
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    HEADERS.type: pa.list_(pa.field("element", pa.struct(HEADER_FIELDS))),
    CORRUPT.type: pa.struct([("file", pa.string()), ("offset", pa.int64()), ("reason", pa.string())]),
}
COLUMNS = (*message.COLUMNS, STORE, HEADERS, CORRUPT)
BY_NAME = {column.name: column for column in COLUMNS}
BY_LOWER_NAME = {column.name.lower(): column for column in COLUMNS}

SPARK_TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "array<string>": ArrayType(StringType()),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,bigint>": MapType(StringType(), LongType()),
    HEADERS.type: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
    CORRUPT.type: StructType(
        [StructField("file", StringType()), StructField("offset", LongType()), StructField("reason", StringType())]
    ),
}

assert SPARK_TYPES.keys() == ARROW_TYPES.keys()

MADE_WITH = frozenset({"owner", "provider"})
"""Options that Spark adds in a CREATE TABLE."""
OPTION_PREFIX = "option."
"""Prefix of all OPTIONS but the path. Spark passes them without it, too, among other properties."""
METADATA_KEY = "flightlog.options"


def find_column(name: str, added: Sequence[Column] = (HEADERS, CORRUPT)) -> Column:
    """The column of this name, in any case as everywhere in Spark; of those that options add, one of `added`.

    Raises InvalidSettingsError for another name.
    """
    column = BY_LOWER_NAME.get(name.lower())
    if column is None or column.name not in ADDED_BY or column in added:
        return column or message.find_column(name)
    raise InvalidSettingsError(f"column {name!r}: only the option {ADDED_BY[column.name]} adds it")


def find_queue_column(name: str) -> Column:
    """A column of `table=queues`, in any case. Raises InvalidSettingsError for another name."""
    for column in (*QUEUE_COLUMNS, STORE):
        if column.name.lower() == name.lower():
            return column
    names = ", ".join(column.name for column in (*QUEUE_COLUMNS, STORE))
    raise InvalidSettingsError(f"column {name!r}: the table of queues has no such column, but {names}")


def require_corrupt(names: Collection[str], added: Sequence[Column]) -> None:
    """Raises InvalidSettingsError if damaged places are shown as rows without the column that marks them."""
    if CORRUPT in added and CORRUPT.name not in names:
        raise InvalidSettingsError(
            f"onCorrupt=rows without the column {CORRUPT.name}: a damaged place would look like a message; add "
            "it to the columns, or choose onCorrupt=skip"
        )


def spark_schema(names: Sequence[str] = (), shown: Sequence[Column] = message.COLUMNS) -> StructType:
    """The columns of these names, in this order; without names all that are `shown`."""
    known = BY_NAME | {column.name: column for column in shown}
    columns = [known[name] for name in names] if names else shown
    return StructType([StructField(column.name, SPARK_TYPES[column.type]) for column in columns])


def arrow_schema(wanted: StructType, added: Sequence[Column] = (), find: Callable[[str], Column] | None = None) -> Any:
    """The Arrow schema of batches for a Spark schema: a user's, or one of `spark_schema`. `added` are the columns that
    options add; `find` finds a column in place of `find_column`.

    Raises InvalidSettingsError for a column that is unknown, of another type, NOT NULL, or named twice, and as
    `require_corrupt`.
    """
    fields: dict[str, Any] = {}
    for field in wanted.fields:
        column = find_column(field.name, added) if find is None else find(field.name)
        if field.dataType != SPARK_TYPES[column.type]:
            asked = field.dataType.simpleString()
            raise InvalidSettingsError(f"column {field.name!r}: the schema says {asked}, expected {column.type}")
        if not field.nullable:
            raise InvalidSettingsError(f"column {field.name!r}: the schema says NOT NULL, expected a nullable column")
        if column.name in fields:
            raise InvalidSettingsError(f"column {field.name!r}: the schema has it twice")
        fields[column.name] = pa.field(field.name, ARROW_TYPES[column.type])
    require_corrupt(fields, added)
    return pa.schema(list(fields.values()))


def headers(messages: MessageColumns) -> Any:
    """The column `headers`."""
    pairs = messages.properties.mapping()
    items = pa.StructArray.from_arrays([pairs.keys, pairs.items.cast(pa.binary())], fields=HEADER_FIELDS)
    has_none = pa.array(np.diff(pairs.offsets.to_numpy()) == 0)
    return pa.ListArray.from_arrays(pairs.offsets, items, type=ARROW_TYPES[HEADERS.type], mask=has_none)


def damaged_places(path: Path, offsets: Sequence[int], reasons: Mapping[int, str]) -> Any:
    """The column `_corrupt` of records at these physical offsets in a segment file; `reasons` has the damaged ones."""
    kind = ARROW_TYPES[CORRUPT.type]
    if not reasons:
        return pa.nulls(len(offsets), kind)
    file = str(path)
    places = [
        {"file": file, "offset": offset, "reason": reasons[offset]} if offset in reasons else None for offset in offsets
    ]
    return pa.array(places, kind)


def options_of_new_table(options: Mapping[str, str]) -> dict[str, str] | None:
    """The OPTIONS or LOCATION of a CREATE TABLE; None if no table is created. The path is made absolute, as a table
    outlives its session."""
    given = {name.lower(): value for name, value in options.items()}
    if not given.keys() >= MADE_WITH:
        return None
    found = {name.removeprefix(OPTION_PREFIX): value for name, value in given.items() if name.startswith(OPTION_PREFIX)}
    if path := given.get("path"):
        found["path"] = path if ADDRESS.match(path) else os.path.abspath(path)
    return found


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The same columns with the options in their metadata."""
    metadata = {METADATA_KEY: json.dumps(dict(options))}
    return StructType([StructField(field.name, field.dataType, field.nullable, metadata) for field in schema.fields])


def options_of_read(options: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """The options of a read; without a path, those in the metadata of the columns."""
    if options.get("path") or options.get("paths"):
        return options
    for field in schema.fields:
        if METADATA_KEY in field.metadata:
            known: dict[str, str] = json.loads(field.metadata[METADATA_KEY])
            return known | dict(options)
    return options
