"""The columns beside those of `engine/columns/schema.py`: what options add, and what only a query over stores knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...engine.columns import schema as message
from ...engine.columns.message_columns import MessageColumns
from ...engine.columns.schema import Column
from ...store.errors import InvalidSettingsError

STORE = Column("store", "string", "the store it is from: the last parts of its path, as many as tell the stores apart")
"""One of all columns where a query can be of several stores; else there if it is asked for by name."""
HEADERS = Column(
    "headers", "array<struct<key:string,value:binary>>", "the properties as Kafka's headers; null without any"
)
CORRUPT = Column(
    "_corrupt",
    "struct<file:string,offset:bigint,reason:string>",
    "of a damaged place: its segment file, the physical offset where it begins, what was found there; else null",
)
ADDED_BY = {HEADERS.name: "includeHeaders=true", CORRUPT.name: "onCorrupt=rows"}
"""Which option adds a column."""

HEADER_FIELDS = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
ARROW_TYPES: dict[str, Any] = {
    **message.ARROW_TYPES,
    HEADERS.type: pa.list_(pa.field("element", pa.struct(HEADER_FIELDS))),
    CORRUPT.type: pa.struct([("file", pa.string()), ("offset", pa.int64()), ("reason", pa.string())]),
}
COLUMNS = (*message.COLUMNS, STORE, HEADERS, CORRUPT)
BY_NAME = {column.name: column for column in COLUMNS}
BY_LOWER_NAME = {column.name.lower(): column for column in COLUMNS}


def find_column(name: str, added: Sequence[Column] = (HEADERS, CORRUPT)) -> Column:
    """The column of this name, in any case as everywhere in Spark; of those that options add, one of `added`.

    Raises InvalidSettingsError for another name.
    """
    column = BY_LOWER_NAME.get(name.lower())
    if column is None or column.name not in ADDED_BY or column in added:
        return column or message.find_column(name)
    raise InvalidSettingsError(f"column {name!r}: only the option {ADDED_BY[column.name]} adds it")


def require_corrupt(names: Collection[str], added: Sequence[Column]) -> None:
    """Raises InvalidSettingsError where damaged places are to be rows that nothing would tell from messages."""
    if CORRUPT in added and CORRUPT.name not in names:
        raise InvalidSettingsError(
            f"onCorrupt=rows without the column {CORRUPT.name}: nothing would tell a damaged place from a message; add "
            "it to the columns, or choose onCorrupt=skip"
        )


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
