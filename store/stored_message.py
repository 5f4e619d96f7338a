"""A message that was read from a store.

It keeps the bytes of its record: the body, and the rest as stored in the log, from which a field is decoded on first
access. Most readers use a few fields, many only the body.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Final

from . import native
from .errors import shown_body
from .format.compression import MAX_DECOMPRESSED_SIZE, compression_of, decompress
from .format.host import Host, decode_host
from .format.sys_flag import COMPRESSED, COMPRESSION_MASK, TRANSACTION_MASK
from .results import encode_message_id


@dataclass(frozen=True, slots=True, weakref_slot=True)
class StoredMessage(native.RecordFields):
    """A message as stored in the log. `body` and everything else are copies: they outlive the store.

    `properties` are name to value, as RocketMQ's parser reads them; `tags`, `keys` and `uniq_key` are taken from there.
    """

    _decode_host = staticmethod(decode_host)

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
    born_host: Host = field()  # else what makes it in the base would be taken for its default
    store_timestamp_ms: int
    store_host: Host = field()
    store_host_raw: bytes = field()
    reconsume_times: int
    prepared_transaction_offset: int
    properties_raw: bytes = field()
    magic: int
    batch_index: int | None = None
    """Its place in the inner batch that its record is; None outside of one. Physical offset and this name a message."""

    def __repr__(self) -> str:
        """Where it is, its tags and keys, and the beginning of its body."""
        return (
            f"StoredMessage({self.topic!r}, queue_id={self.queue_id}, queue_offset={self.queue_offset}, "
            f"physical_offset={self.physical_offset}, tags={self.tags!r}, keys={self.keys!r}, "
            f"body={shown_body(self.body)})"
        )

    def decompressed_body(self, max_size: int = MAX_DECOMPRESSED_SIZE) -> bytes:
        """The body as it was before compression; `body` itself if it is not compressed. Never more than `max_size`
        bytes are made of a compressed one.

        Raises CorruptBodyError if it does not match its flags, or is larger; MissingExtraError for LZ4 and zstd without
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
    def message_id(self) -> str:
        """RocketMQ's offset message id."""
        return encode_message_id(self.store_host_raw, self.physical_offset)

    @property
    def transaction_type(self) -> int:
        """0 none, 4 prepared, 8 commit, 12 rollback."""
        return self.sys_flag & TRANSACTION_MASK


_FIELDS: Final = frozenset(field.name for field in fields(StoredMessage))


def _set(self: StoredMessage, name: str, value: object) -> None:
    if type(self) is StoredMessage or name in _FIELDS:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delete(self: StoredMessage, name: str) -> None:
    if type(self) is StoredMessage or name in _FIELDS:
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


# What dataclasses make for this looks at the class as it was before it had slots, and raises TypeError on Python 3.11.
for _name, _function in (("__setattr__", _set), ("__delattr__", _delete)):
    setattr(StoredMessage, _name, _function)

_set_field = object.__setattr__


def message_of_record(record: bytes, body_position: int, body_size: int) -> StoredMessage:
    """The message of a whole record whose lengths were checked."""
    body_end = body_position + body_size
    message = StoredMessage.__new__(StoredMessage)
    _set_field(message, "_rest", record[:body_position] + record[body_end:])
    _set_field(message, "body", record[body_position:body_end])
    return message
