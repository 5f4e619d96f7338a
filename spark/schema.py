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

from ..engine.columns.schema import ARROW_TYPES, COLUMNS
from ..store.errors import InvalidSettingsError
from .columns import BY_NAME, STORE, find_column

SPARK_TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "array<string>": ArrayType(StringType()),
    "map<string,string>": MapType(StringType(), StringType()),
}

assert SPARK_TYPES.keys() == ARROW_TYPES.keys()


def spark_schema(names: Sequence[str] = (), *, shows_store: bool = False) -> StructType:
    """The columns of these names, in this order; without names all that messages have, and `store` where asked for."""
    columns = [BY_NAME[name] for name in names] if names else [*COLUMNS, *((STORE,) if shows_store else ())]
    return StructType([StructField(column.name, SPARK_TYPES[column.type]) for column in columns])


def arrow_schema(wanted: StructType) -> Any:
    """The Arrow schema of batches for a schema that Spark asks for: the user's own, or one of `spark_schema`.

    Raises InvalidSettingsError for a column that is not there, of another type or declared never null, or named twice.
    """
    fields: dict[str, Any] = {}
    for field in wanted.fields:
        column = find_column(field.name, ())
        if field.dataType != SPARK_TYPES[column.type]:
            asked = field.dataType.simpleString()
            raise InvalidSettingsError(f"column {field.name!r}: the schema says {asked}, expected {column.type}")
        if not field.nullable:
            raise InvalidSettingsError(f"column {field.name!r}: the schema says NOT NULL, expected a nullable column")
        if column.name in fields:
            raise InvalidSettingsError(f"column {field.name!r}: the schema has it twice")
        fields[column.name] = pa.field(field.name, ARROW_TYPES[column.type])
    return pa.schema(list(fields.values()))
