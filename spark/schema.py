"""The columns of a DataFrame over a store (`columns.py`), as Spark sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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

from ..engine.columns.schema import COLUMNS as ALWAYS
from ..engine.columns.schema import Column
from ..store.errors import InvalidSettingsError
from .options.columns import ARROW_TYPES, BY_NAME, CORRUPT, HEADERS, find_column, require_corrupt

SPARK_TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "array<string>": ArrayType(StringType()),
    "map<string,string>": MapType(StringType(), StringType()),
    HEADERS.type: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
    CORRUPT.type: StructType(
        [StructField("file", StringType()), StructField("offset", LongType()), StructField("reason", StringType())]
    ),
}

assert SPARK_TYPES.keys() == ARROW_TYPES.keys()


def spark_schema(names: Sequence[str] = (), shown: Sequence[Column] = ALWAYS) -> StructType:
    """The columns of these names, in this order; without names all that are `shown`."""
    columns = [BY_NAME[name] for name in names] if names else shown
    return StructType([StructField(column.name, SPARK_TYPES[column.type]) for column in columns])


def arrow_schema(wanted: StructType, added: Sequence[Column] = ()) -> Any:
    """The Arrow schema of batches for a schema that Spark asks for: the user's own, or one of `spark_schema`. `added`
    are the columns that options add.

    Raises InvalidSettingsError for a column that is not there, of another type or declared never null, or named twice;
    and where damage is to be rows, for a schema without the column that tells them from messages.
    """
    fields: dict[str, Any] = {}
    for field in wanted.fields:
        column = find_column(field.name, added)
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
