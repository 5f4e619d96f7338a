"""The columns of messages, in order: of record batches, and of a DataFrame over a store.

The first seven have the names and types of Spark's Kafka source, so that queries can be moved; the others are the
remaining fields of a RocketMQ record. All columns are nullable to Spark; a column that can really be null says so in
its meaning.

`physicalOffset` and `batchIndex` together identify a message. (topic, partition, offset) does not: prepared and
rollback records are not in a queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...store.errors import InvalidSettingsError


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    type: str
    """The SQL type; a key of ARROW_TYPES."""
    meaning: str


COLUMNS = (
    Column("key", "binary", "the first index key, in UTF-8; null without one"),
    Column("value", "binary", "the body as stored, compressed where bit 0x1 of sysFlag is set"),
    Column("topic", "string", "the topic as stored; bytes that are no UTF-8 show as U+FFFD, here and in every text"),
    Column("partition", "int", "the queue id"),
    Column("offset", "bigint", "the place in the queue; null for prepared and rollback records, which are in none"),
    Column("timestamp", "timestamp", "when the broker stored it; null beyond the years 1 to 9999"),
    Column("timestampType", "int", "always 1: in Kafka's words, the time of the log's append"),
    Column("tags", "string", "the tag; null without one"),
    Column("keys", "array<string>", "all index keys, as they were given; empty without one"),
    Column("messageId", "string", "RocketMQ's offset message id; one and the same in a whole inner batch"),
    Column("uniqKey", "string", "the sender's own id; null without one"),
    Column("bornTimestamp", "timestamp", "when the sender made it, by the sender's clock; null as in timestamp"),
    Column("bornHost", "string", "the sender: address:port, an IPv6 address in brackets"),
    Column("storeHost", "string", "the broker, likewise"),
    Column("physicalOffset", "bigint", "the byte of the commit log where its record starts"),
    Column("batchIndex", "int", "0, 1, ... within an inner batch; null elsewhere and for a batch that stayed whole"),
    Column("size", "int", "bytes of the record; of an inner batch's message: the bytes that it takes in the batch"),
    Column("flag", "int", "the application's own number"),
    Column("sysFlag", "int", "RocketMQ's bits: compression, transaction type, host families, batches"),
    Column("bodyCrc", "int", "CRC-32 of the body as stored, without its highest bit"),
    Column("reconsumeTimes", "int", "how often consumers have sent it back"),
    Column("preparedOffset", "bigint", "the physical offset of its prepared record, if it was committed; else 0"),
    Column("properties", "map<string,string>", "every property, those included that have a column of their own"),
)

ARROW_TYPES: dict[str, Any] = {
    "binary": pa.binary(),
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.field("element", pa.string())),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
"""The exact Arrow type that Spark expects for each SQL type."""

assert {column.type for column in COLUMNS} == ARROW_TYPES.keys()

BY_NAME = {column.name: column for column in COLUMNS}
BY_LOWER_NAME = {column.name.lower(): column for column in COLUMNS}


def find_column(name: str) -> Column:
    """The column of this name, in any case as everywhere in Spark. Raises InvalidSettingsError for another name."""
    column = BY_LOWER_NAME.get(name.lower())
    if column is None:
        raise InvalidSettingsError(f"column {name!r}: a store has no such column, but {', '.join(BY_NAME)}")
    return column


def batch_schema(names: Sequence[str] | None) -> Any:
    """The Arrow schema of batches with the columns of these names, in this order; None: all of them."""
    columns = COLUMNS if names is None else [find_column(name) for name in names]
    return pa.schema([pa.field(column.name, ARROW_TYPES[column.type]) for column in columns])
