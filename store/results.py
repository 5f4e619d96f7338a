"""What a put and an append answer. Of the store only the kernel is imported here: errors carry these, too."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from . import native

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


@dataclass(frozen=True, eq=False)
class PutResult(native.ResultFields):
    """Where a message went. It is used as a named tuple of its fields; only `isinstance(result, tuple)` is False."""

    __slots__ = ()

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

    _fields: ClassVar[tuple[str, ...]]

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getitem__(self, place: Any) -> Any:
        return tuple(self)[place]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, PutResult) else other)

    def __lt__(self, other: Iterable[Any]) -> bool:
        return tuple(self) < tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[type[PutResult], tuple[Any, ...]]:
        return type(self), tuple(self)

    @classmethod
    def _make(cls, fields: Iterable[Any]) -> PutResult:
        return cls(*fields)

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def _replace(self, **changes: Any) -> PutResult:
        return replace(self, **changes)


PutResult._fields = PutResult.__match_args__


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
