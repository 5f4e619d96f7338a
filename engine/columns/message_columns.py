"""Convert rows of a log scan to Arrow arrays, one for each requested column."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...store.format import property_names as props
from ...store.format.frame import Rows
from ...store.format.host import HOST_V4_SIZE, HOST_V6_SIZE, decode_host
from ...store.format.record import BORN_HOST_AT
from ...store.format.sys_flag import BORN_HOST_V6, STORE_HOST_V6, TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from .gathering import as_text, bytes_of, gather
from .property_columns import PropertyColumns
from .schema import ARROW_TYPES, BY_NAME

Integers = NDArray[Any]

APPEND_TIME = 1
"""Kafka's timestampType LogAppendTime."""

FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999
"""The years 1 to 9999, the range of Spark's and Python's timestamps. A record's CRC does not cover its times."""

HEX = np.frombuffer("".join(f"{byte:02X}" for byte in range(256)).encode(), "<u2")
"""The two digits of every byte."""

PHYSICAL_OFFSET_SIZE = 8


class MessageColumns:
    """Columns of the messages in one piece of the log. Data that several columns need is computed once.

    Invariants: row i of every column is message i; the arrays do not refer to the memory of the piece.
    """

    def __init__(self, piece: bytes | memoryview, rows: Rows, batch_indexes: Integers | None) -> None:
        """`batch_indexes` is -1 for a message outside of inner batches; None if that holds for all."""
        self._buffer = piece
        self._rows, self._batch_indexes = rows, batch_indexes

    def column(self, name: str) -> Any:
        """The column of this name of `schema.COLUMNS`, in its Arrow type."""
        return BUILDERS[name](self)

    def integers(self, field: str, column: str) -> Any:
        return pa.array(self._rows[field], ARROW_TYPES[BY_NAME[column].type])

    def body(self) -> Any:
        return gather(self._buffer, self._rows["body_position"], self._rows["body_size"])

    def topic(self) -> Any:
        return as_text(gather(self._buffer, self._rows["topic_position"], self._rows["topic_size"]))

    def queue_offset(self) -> Any:
        transaction = self._rows["sys_flag"] & TRANSACTION_MASK
        in_no_queue = (transaction != TRANSACTION_NONE) & (transaction != TRANSACTION_COMMIT)
        return pa.array(self._rows["queue_offset"], pa.int64(), mask=in_no_queue)

    def time(self, field: str) -> Any:
        ms = np.ascontiguousarray(self._rows[field])
        if len(ms) and ms.min() >= FIRST_MS and ms.max() <= LAST_MS:
            return pa.array(ms * 1000).view(ARROW_TYPES["timestamp"])
        beyond = (ms < FIRST_MS) | (ms > LAST_MS)
        return pa.array(np.where(beyond, 0, ms) * 1000, pa.int64(), mask=beyond).view(ARROW_TYPES["timestamp"])

    def timestamp_type(self) -> Any:
        return pa.array(np.full(len(self._rows), APPEND_TIME, np.int32))

    def batch_index(self) -> Any:
        if self._batch_indexes is None:
            return pa.nulls(len(self._rows), pa.int32())
        return pa.array(self._batch_indexes, pa.int32(), mask=self._batch_indexes < 0)

    def host(self, raw: Any) -> Any:
        """Raw hosts as text; each distinct host is formatted once."""
        data, offsets = bytes_of(raw)
        size = int(offsets[1]) if len(raw) else 0
        if size and (offsets[1:] - offsets[:-1] == size).all() and (data[size:] == data[:-size]).all():  # all are equal
            return pa.repeat(pa.scalar(str(decode_host(data[:size].tobytes())), pa.string()), len(raw))
        encoded = raw.dictionary_encode()
        words = [str(decode_host(host)) for host in encoded.dictionary.to_pylist()]
        return pa.array(words, pa.string()).take(encoded.indices)

    @cached_property
    def born_hosts(self) -> Any:
        return gather(self._buffer, self._rows["position"] + BORN_HOST_AT, self._born_host_sizes)

    @cached_property
    def store_hosts(self) -> Any:
        starts = self._rows["position"] + BORN_HOST_AT + self._born_host_sizes + 8
        return gather(self._buffer, starts, self._store_host_sizes)

    @cached_property
    def _born_host_sizes(self) -> Integers:
        return np.where(self._rows["sys_flag"] & BORN_HOST_V6, HOST_V6_SIZE, HOST_V4_SIZE)

    @cached_property
    def _store_host_sizes(self) -> Integers:
        return np.where(self._rows["sys_flag"] & STORE_HOST_V6, HOST_V6_SIZE, HOST_V4_SIZE)

    def message_id(self) -> Any:
        """The offset message id, as in `store/format/message_id.py`."""
        is_v6 = self._store_host_sizes == HOST_V6_SIZE
        if not is_v6.any():
            return self._message_ids(self.store_hosts, self._rows["physical_offset"], HOST_V4_SIZE)
        place = np.empty(len(is_v6), np.int64)
        place[~is_v6] = np.arange(np.count_nonzero(~is_v6))
        place[is_v6] = np.arange(np.count_nonzero(~is_v6), len(is_v6))
        kinds = [
            self._message_ids(self.store_hosts.filter(pa.array(of)), self._rows["physical_offset"][of], size)
            for of, size in ((~is_v6, HOST_V4_SIZE), (is_v6, HOST_V6_SIZE))
        ]
        return pa.concat_arrays(kinds).take(pa.array(place))

    @staticmethod
    def _message_ids(hosts: Any, physical_offsets: Integers, host_size: int) -> Any:
        raw = np.empty((len(hosts), host_size + PHYSICAL_OFFSET_SIZE), np.uint8)
        raw[:, :host_size] = bytes_of(hosts)[0].reshape(-1, host_size)
        raw[:, host_size:] = physical_offsets.astype(">i8").view(np.uint8).reshape(-1, PHYSICAL_OFFSET_SIZE)
        digits = 2 * raw.shape[1]
        offsets = np.arange(0, digits * (len(hosts) + 1), digits, dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(HEX.take(raw))]
        return pa.Array.from_buffers(pa.string(), len(hosts), buffers)

    @cached_property
    def properties(self) -> PropertyColumns:
        texts = gather(self._buffer, self._rows["properties_position"], self._rows["properties_size"])
        return PropertyColumns(texts)


BUILDERS: dict[str, Callable[[MessageColumns], Any]] = {
    "key": lambda messages: messages.properties.first_key(),
    "value": MessageColumns.body,
    "topic": MessageColumns.topic,
    "partition": lambda messages: messages.integers("queue_id", "partition"),
    "offset": MessageColumns.queue_offset,
    "timestamp": lambda messages: messages.time("store_timestamp_ms"),
    "timestampType": MessageColumns.timestamp_type,
    "tags": lambda messages: messages.properties.value(props.TAGS),
    "keys": lambda messages: messages.properties.keys,
    "messageId": MessageColumns.message_id,
    "uniqKey": lambda messages: messages.properties.value(props.UNIQ_KEY),
    "bornTimestamp": lambda messages: messages.time("born_timestamp_ms"),
    "bornHost": lambda messages: messages.host(messages.born_hosts),
    "storeHost": lambda messages: messages.host(messages.store_hosts),
    "physicalOffset": lambda messages: messages.integers("physical_offset", "physicalOffset"),
    "batchIndex": MessageColumns.batch_index,
    "size": lambda messages: messages.integers("size", "size"),
    "flag": lambda messages: messages.integers("flag", "flag"),
    "sysFlag": lambda messages: messages.integers("sys_flag", "sysFlag"),
    "bodyCrc": lambda messages: messages.integers("body_crc", "bodyCrc"),
    "reconsumeTimes": lambda messages: messages.integers("reconsume_times", "reconsumeTimes"),
    "preparedOffset": lambda messages: messages.integers("prepared_transaction_offset", "preparedOffset"),
    "properties": lambda messages: messages.properties.mapping(),
}

assert BUILDERS.keys() == BY_NAME.keys()
