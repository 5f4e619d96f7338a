"""A message that came out of a store.

One that is read keeps the bytes of its record: the body, and the rest as it lies in the log, which is taken apart when
a field of it is first asked for. Most readers ask for a few fields, many for the body alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from . import native
from . import properties as props
from .compression import MAX_DECOMPRESSED_SIZE, compression_of, decompress
from .host import HOST_V4_SIZE, HOST_V6_SIZE, Host, decode_host
from .message_id import encode_message_id
from .sys_flag import BORN_HOST_V6, COMPRESSED, COMPRESSION_MASK, TRANSACTION_MASK

BORN_HOST_AT: Final = 48
"""Byte of a record where its born host starts."""


class _ReadLazily:
    """The fields of a message that are made of `_rest` when the first one is asked for.

    Invariants:
    - `_rest` is a whole record without its body, and its lengths are right: whoever sets it has checked that.
    - A message made field by field has no `_rest`, and needs none.
    """

    __slots__ = ("_rest", "properties")

    properties: dict[str, str]
    """Name to value, as RocketMQ's parser reads them."""
    _rest: bytes

    if not TYPE_CHECKING:  # else every name would be an attribute

        def __getattr__(self, name):
            """Called for a field that is not set yet."""
            if name in RECORD_FIELDS:
                native.take_apart(self._rest, FIELD_NAMES, self)
            elif name == "properties":
                set_properties(self, props.decode_properties(self.properties_raw))
            elif name == "born_host":
                size = HOST_V6_SIZE if self.sys_flag & BORN_HOST_V6 else HOST_V4_SIZE
                set_born_host(self, decode_host(self._rest[BORN_HOST_AT : BORN_HOST_AT + size]))
            elif name == "store_host":
                set_store_host(self, decode_host(self.store_host_raw))
            else:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            return getattr(self, name)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class StoredMessage(_ReadLazily):
    """A message as it lies in the log. `body` and everything else are copies: they outlive the store."""

    topic: str
    queue_id: int
    queue_offset: int
    """Index in the consume queue; 0 and without meaning for prepared and rollback records."""
    physical_offset: int
    """Byte in the commit log where the record starts."""
    size: int
    """Bytes of the whole record."""
    body: bytes
    """As stored: compressed if `sys_flag` says so. See `decompressed_body`."""
    body_crc: int
    flag: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: Host
    store_timestamp_ms: int
    store_host: Host
    store_host_raw: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    properties_raw: bytes
    magic: int
    batch_index: int | None = None
    """Its place in the inner batch that its record is; None outside of one. Physical offset and this name a message."""

    def decompressed_body(self, max_size: int = MAX_DECOMPRESSED_SIZE) -> bytes:
        """The body as it was before compression; `body` itself if it is not compressed. Never more than `max_size`
        bytes are made of a compressed one.

        Raises CorruptBodyError if it is not what its flags say, or larger; MissingExtraError for LZ4 and zstd without
        the extra `compression`.
        """
        kind = compression_of(self.sys_flag)
        return self.body if kind is None else decompress(self.body, kind, max_size)

    def decompressed(self, max_size: int = MAX_DECOMPRESSED_SIZE) -> StoredMessage:
        """This message with its body decompressed, and without the flags that said it was not. `size` and `body_crc`
        stay those of the record. Raises as `decompressed_body`."""
        if not self.sys_flag & COMPRESSED:
            return self
        body = self.decompressed_body(max_size)
        return replace(self, body=body, sys_flag=self.sys_flag & ~(COMPRESSED | COMPRESSION_MASK))

    @property
    def tags(self) -> str | None:
        return self.properties.get(props.TAGS)

    @property
    def keys(self) -> list[str]:
        return props.split_keys(self.properties.get(props.KEYS, ""))

    @property
    def uniq_key(self) -> str | None:
        return self.properties.get(props.UNIQ_KEY)

    @property
    def message_id(self) -> str:
        """RocketMQ's offset message id."""
        return encode_message_id(self.store_host_raw, self.physical_offset)

    @property
    def transaction_type(self) -> int:
        """0 none, 4 prepared, 8 commit, 12 rollback."""
        return self.sys_flag & TRANSACTION_MASK


FIELD_NAMES: Final = (
    *("size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag"),
    *("born_timestamp_ms", "store_timestamp_ms", "store_host_raw", "reconsume_times", "prepared_transaction_offset"),
    *("topic", "properties_raw", "batch_index"),
)
"""What `native.take_apart` sets, in its order."""
RECORD_FIELDS: Final = frozenset(FIELD_NAMES)

assert {*FIELD_NAMES, "body", "born_host", "store_host"} == {field.name for field in fields(StoredMessage)}


def _setter(name: str) -> Callable[[object, Any], None]:
    """What sets a field though the message is frozen."""
    found: Callable[[object, Any], None] = getattr(StoredMessage, name).__set__
    return found


set_body, set_rest, set_properties = _setter("body"), _setter("_rest"), _setter("properties")
set_born_host, set_store_host = _setter("born_host"), _setter("store_host")


def message_of_record(record: bytes, body_position: int, body_size: int) -> StoredMessage:
    """The message of a whole record whose lengths were checked."""
    body_end = body_position + body_size
    message = StoredMessage.__new__(StoredMessage)
    set_rest(message, record[:body_position] + record[body_end:])
    set_body(message, record[body_position:body_end])
    return message
