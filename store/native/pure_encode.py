"""Encoding one record in Python.

The quick way packs the fixed fields by one `Struct`, joins them with the variable parts, and stores the result in two
slices. It is for what a store hands over: bytes, into a bytearray, a mapping or a plain memoryview. What it stumbles
over goes the careful way, which accepts any buffer and names what is wrong.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

from ..format.frame import MAGIC_V1, MAGIC_V2
from .pure_arguments import integer, readable, writable

if TYPE_CHECKING:
    from typing_extensions import Buffer

BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
HOST_BITS: Final = BORN_HOST_V6 | STORE_HOST_V6
HOST_SIZE: Final = {False: 8, True: 20}
TOPIC_MAX_SIZE: Final = {MAGIC_V1: 127, MAGIC_V2: 32_767}
PROPERTIES_MAX_SIZE: Final = 32_767
RECORD_MAX_SIZE: Final = 0x7FFFFFFF

PACK_HEAD: Final = struct.Struct(">ii").pack
"""size and magic"""


def _fixed(born_host_v6: bool, store_host_v6: bool) -> tuple[tuple[int, int, int], struct.Struct]:
    flags = born_host_v6 * BORN_HOST_V6 | store_host_v6 * STORE_HOST_V6
    born_host_size, store_host_size = HOST_SIZE[born_host_v6], HOST_SIZE[store_host_v6]
    return (flags, born_host_size, store_host_size), struct.Struct(f">iiiqqiq{born_host_size}sq{store_host_size}siqi")


FIXED: Final = dict(_fixed(born, store) for born in (False, True) for store in (False, True))
"""Body CRC to body size, by the host bits of `sys_flag` and the hosts' sizes; no entry means a contradiction."""
assert [fixed.size for fixed in FIXED.values()] == [80, 92, 92, 104]

PACK_FIXED: Final = {key: fixed.pack for key, fixed in FIXED.items()}
PACK_TOPIC_SIZE: Final = {MAGIC_V1: struct.Struct(">b").pack, MAGIC_V2: struct.Struct(">h").pack}
PACK_PROPERTIES_SIZE: Final = struct.Struct(">h").pack
"""Both are signed and so refuse just what exceeds its limit."""


def encode_record(
    buffer: Buffer,
    position: int,
    magic: int,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: Buffer,
    store_timestamp_ms: int,
    store_host: Buffer,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: Buffer,
    topic: Buffer,
    properties: Buffer,
    /,
) -> int:
    """Write one record, its first eight bytes last; return its size in bytes. See `native.encode_record`."""
    target: Any = buffer
    kind = type(target)
    try:
        # A view must be contiguous; its slices refuse all else that is wrong. Other types mean other things by slices.
        if (kind is bytearray or kind is mmap.mmap or (kind is memoryview and target.c_contiguous)) and (
            type(born_host) is type(store_host) is type(body) is type(topic) is type(properties) is bytes
        ):
            rest = b"".join(
                (
                    PACK_FIXED[sys_flag & HOST_BITS, len(born_host), len(store_host)](
                        zlib.crc32(body) & 0x7FFFFFFF,
                        queue_id,
                        flag,
                        queue_offset,
                        physical_offset,
                        sys_flag,
                        born_timestamp_ms,
                        born_host,
                        store_timestamp_ms,
                        store_host,
                        reconsume_times,
                        prepared_transaction_offset,
                        len(body),
                    ),
                    body,
                    PACK_TOPIC_SIZE[magic](len(topic)),
                    topic,
                    PACK_PROPERTIES_SIZE(len(properties)),
                    properties,
                )
            )
            size = len(rest) + 8
            head = PACK_HEAD(size, magic)
            # Whatever could be wrong with the values was found by packing them: from here on nothing fails half-way.
            if 0 <= position <= len(target) - size:
                target[position + 8 : position + size] = rest
                target[position : position + 8] = head
                return size
    except (struct.error, TypeError, ValueError, KeyError, NotImplementedError):
        pass  # not for the quick way; the careful one says why, if there is a reason
    return _encode_carefully(
        buffer,
        (position, magic, queue_id, flag, queue_offset, physical_offset, sys_flag),
        (born_timestamp_ms, store_timestamp_ms, reconsume_times, prepared_transaction_offset),
        (born_host, store_host, body, topic, properties),
    )


def _encode_carefully(
    buffer: Buffer,
    leading: tuple[int, int, int, int, int, int, int],
    trailing: tuple[int, int, int, int],
    parts: tuple[Buffer, Buffer, Buffer, Buffer, Buffer],
) -> int:
    position = integer(leading[0], "position", 64)
    magic = integer(leading[1], "magic", 32)
    queue_id = integer(leading[2], "queue_id", 32)
    flag = integer(leading[3], "flag", 32)
    queue_offset = integer(leading[4], "queue_offset", 64)
    physical_offset = integer(leading[5], "physical_offset", 64)
    sys_flag = integer(leading[6], "sys_flag", 32)
    born_timestamp_ms = integer(trailing[0], "born_timestamp_ms", 64)
    store_timestamp_ms = integer(trailing[1], "store_timestamp_ms", 64)
    reconsume_times = integer(trailing[2], "reconsume_times", 32)
    prepared_transaction_offset = integer(trailing[3], "prepared_transaction_offset", 64)
    target = writable(buffer, "buffer")
    views = [readable(part) for part in parts]

    if magic not in TOPIC_MAX_SIZE:
        raise ValueError("magic is neither that of a V1 nor that of a V2 record")
    fixed_key = (sys_flag & HOST_BITS, len(views[0]), len(views[1]))
    if fixed_key not in FIXED:
        raise ValueError("a host must have 8 bytes, or 20 with bit 0x10 (born_host) or 0x20 (store_host) of sys_flag")
    if len(views[3]) > TOPIC_MAX_SIZE[magic]:
        raise ValueError("topic exceeds 127 bytes (V1) or 32767 bytes (V2)")
    if len(views[4]) > PROPERTIES_MAX_SIZE:
        raise ValueError("properties exceed 32767 bytes")
    topic_size = PACK_TOPIC_SIZE[magic](len(views[3]))
    size = 8 + FIXED[fixed_key].size + len(topic_size) + 2 + sum(len(view) for view in views[2:])
    if size > RECORD_MAX_SIZE:
        raise ValueError("the record exceeds 2147483647 bytes")
    if not 0 <= position <= len(target) - size:
        raise ValueError(
            f"a record of {size} bytes at position {position} does not fit into a buffer of {len(target)} bytes"
        )
    # Copies: the parts may change meanwhile, or lie where the record is going to stand.
    born_host, store_host, body, topic, properties = (bytes(view) for view in views)
    fixed = PACK_FIXED[fixed_key](
        zlib.crc32(body) & 0x7FFFFFFF,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp_ms,
        born_host,
        store_timestamp_ms,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        len(body),
    )
    rest = b"".join((fixed, body, topic_size, topic, PACK_PROPERTIES_SIZE(len(properties)), properties))
    target[position + 8 : position + size] = rest
    target[position : position + 8] = PACK_HEAD(size, magic)
    return size
