"""What a put and an append answer. Nothing of the store is imported here: errors carry these, too."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


OFFSET = struct.Struct(">q")


def encode_message_id(store_host: bytes, physical_offset: int) -> str:
    """The id of the record at `physical_offset`; `store_host` as the record carries it (8 or 20 bytes)."""
    return (store_host + OFFSET.pack(physical_offset)).hex().upper()


class PutStatus(enum.Enum):
    """What a put that did not raise answers; both mean that the message is stored, once."""

    PUT_OK = "PUT_OK"
    """Stored; under sync flush also durable, unless the message did not wait for that (`wait_store_ok=False`)."""
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Stored, but its sync had not finished in time (`sync_flush_timeout_ms`, which says whose put may answer it). Do
    not put it again: it may become durable any moment, and can be read from then on."""


class PutResult(NamedTuple):
    """Where a message went."""

    status: PutStatus
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    store_timestamp_ms: int
    store_host_raw: bytes

    @property
    def message_id(self) -> str:
        """RocketMQ's offset message id."""
        return encode_message_id(self.store_host_raw, self.physical_offset)


@dataclass(frozen=True, slots=True, eq=False)
class AppendResult:
    """Where the rows of an append went: arrays with one item a row, in its order."""

    status: PutStatus
    """As of a put: PUT_OK, or FLUSH_DISK_TIMEOUT for rows that are stored and not yet known to be durable."""
    topic: str
    queue_ids: NDArray[np.int32]
    queue_offsets: Integers
    physical_offsets: Integers
    sizes: Integers
    """Bytes of the whole records."""
    store_timestamps_ms: Integers

    def __len__(self) -> int:
        return len(self.queue_offsets)
