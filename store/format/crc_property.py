"""The property `__CRC32#`: a checksum over a whole record, where a body's CRC covers the body alone.

    ... properties, each ended by 0x02 │ __CRC32# 0x01 DDDDDDDDDD 0x02 │   the last 20 bytes of the record

D is the CRC of everything before these 20 bytes as decimal digits, the least significant one first, filled up with
zeros to ten; as the body's, it is CRC-32 without its top bit. The 20 bytes count as properties. RocketMQ 5.2 and later
writes it if `enabledAppendPropCRC` is set, and requires it if `forceVerifyPropCRC` is.

(RocketMQ's `MessageDecoder#createCrc32` and `CommitLog#checkMessageAndReturnSize`. Where the properties of a member of
a batch lack their last 0x02, RocketMQ writes none before `__CRC32#`: here the last 20 bytes decide.)
"""

from __future__ import annotations

import re

from .. import native
from .frame import Rows

CRC_PROPERTY = "__CRC32#"
DIGITS = 10
CRC_PROPERTY_SIZE = len(CRC_PROPERTY) + 1 + DIGITS + 1
assert CRC_PROPERTY_SIZE == 20

EMPTY = f"{CRC_PROPERTY}\x01{'0' * DIGITS}\x02".encode()
"""Placeholder until the CRC is known."""
PATTERN = re.compile(rb"__CRC32#\x01([0-9]{10})\x02")


def put_crc_property(record: bytearray) -> None:
    """Fill in the CRC of a record whose last bytes are EMPTY and which is otherwise complete."""
    start = len(record) - CRC_PROPERTY_SIZE
    crc = native.masked_crc32(memoryview(record)[:start])
    record[start:] = EMPTY[: -DIGITS - 1] + f"{crc:0{DIGITS}d}"[::-1].encode() + EMPTY[-1:]


def stored_crc(tail: bytes) -> int | None:
    """The CRC that the last 20 bytes of a record hold; None if they are no CRC property."""
    found = PATTERN.fullmatch(tail)
    return int(found[1][::-1]) if found else None


def has_right_crc(record: bytes | memoryview, properties_size: int) -> bool:
    """Whether a record ends with a CRC property that fits it."""
    if properties_size < CRC_PROPERTY_SIZE:
        return False
    start = len(record) - CRC_PROPERTY_SIZE
    return stored_crc(bytes(record[start:])) == native.masked_crc32(record[:start])


def check_crc_properties(piece: bytes | memoryview, rows: Rows) -> None:
    """Set `crc_ok` of the rows whose record has no CRC property, or one that does not fit, to 0."""
    view = memoryview(piece)
    places = zip(rows["position"].tolist(), rows["size"].tolist(), rows["properties_size"].tolist(), strict=True)
    for i, (start, size, properties_size) in enumerate(places):
        if not has_right_crc(view[start : start + size], properties_size):
            rows["crc_ok"][i] = 0
