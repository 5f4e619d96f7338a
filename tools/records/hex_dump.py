"""The bytes of a record, field by field, in words. The layout is that of store/format/frame.py."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ...store.format import sys_flag as flags
from ...store.format.frame import MAGIC_V1, MAGIC_V2, TOPIC_SIZE
from ...store.format.host import HOST_V4_SIZE, HOST_V6_SIZE, decode_host
from ..words import printable
from .fields import iso_time

SHOWN_BYTES = 32
"""Bytes of a field that a line shows."""
TEXT_SHOWN = 100
FLAG_WORDS = {
    flags.COMPRESSED: "compressed",
    flags.MULTI_TAGS: "several tags",
    flags.BORN_HOST_V6: "born host IPv6",
    flags.STORE_HOST_V6: "store host IPv6",
    flags.NEED_UNWRAP: "to be unwrapped",
    flags.INNER_BATCH: "inner batch",
}
TRANSACTION_WORDS = {
    flags.TRANSACTION_PREPARED: "half message",
    flags.TRANSACTION_COMMIT: "committed",
    flags.TRANSACTION_ROLLBACK: "rolled back",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record."""

    at: int
    """Byte of the record."""
    name: str
    raw: bytes
    meaning: str


def record_fields(record: bytes) -> Iterator[Field]:
    """The fields of a whole, intact record."""
    at = 0

    def take(name: str, size: int, meaning: str) -> Field:
        nonlocal at
        field = Field(at, name, record[at : at + size], meaning)
        at += size
        return field

    def number(name: str, width: str, words: str = "") -> tuple[int, Field]:
        (value,) = struct.unpack_from(f">{width}", record, at)
        return value, take(name, struct.calcsize(width), f"{value:,}{words and f': {words}'}")

    yield number("size", "i", "bytes of the whole record")[1]
    magic, field = number("magic", "i")
    version = {MAGIC_V1: "V1, one byte of topic length", MAGIC_V2: "V2, two bytes of topic length"}[magic]
    yield Field(field.at, field.name, field.raw, version)
    yield number("body CRC", "i", "CRC-32 of the body")[1]
    yield number("queue id", "i")[1]
    yield number("flag", "i", "the application's")[1]
    yield number("queue offset", "q")[1]
    yield number("physical offset", "q", "of this record's first byte")[1]
    sys_flag, field = number("sys flag", "i")
    words = [word for bit, word in FLAG_WORDS.items() if sys_flag & bit]
    words += [word for kind, word in TRANSACTION_WORDS.items() if sys_flag & flags.TRANSACTION_MASK == kind]
    yield Field(field.at, field.name, field.raw, f"{sys_flag:#x}: {', '.join(words) or 'none set'}")
    born_ms, field = number("born time", "q")
    yield Field(field.at, field.name, field.raw, iso_time(born_ms))
    size = HOST_V6_SIZE if sys_flag & flags.BORN_HOST_V6 else HOST_V4_SIZE
    yield take("born host", size, str(decode_host(record[at : at + size])))
    store_ms, field = number("store time", "q")
    yield Field(field.at, field.name, field.raw, iso_time(store_ms))
    size = HOST_V6_SIZE if sys_flag & flags.STORE_HOST_V6 else HOST_V4_SIZE
    yield take("store host", size, str(decode_host(record[at : at + size])))
    yield number("reconsume times", "i", "failed attempts before this one")[1]
    yield number("prepared offset", "q", "physical offset of its half message")[1]
    body_size, field = number("body size", "i")
    yield field
    yield take("body", body_size, _text(record[at : at + body_size]))
    topic_size, field = number("topic size", TOPIC_SIZE[magic].format.lstrip(">"))
    yield field
    yield take("topic", topic_size, _text(record[at : at + topic_size]))
    properties_size, field = number("properties size", "h")
    yield field
    properties = record[at : at + properties_size]
    pairs = (pair.replace(b"\x01", b"=") for pair in properties.split(b"\x02") if pair)
    yield take("properties", properties_size, _text(b"; ".join(pairs)))


def hex_lines(record: bytes, physical_offset: int) -> Iterator[str]:
    """A line for each field: physical offset, byte of the record, name, bytes, meaning."""
    for field in record_fields(record):
        shown = field.raw[:SHOWN_BYTES].hex(" ", -4)
        more = f" … {len(field.raw):,} bytes" if len(field.raw) > SHOWN_BYTES else ""
        yield f"{physical_offset + field.at:>16}  {field.at:>5}  {field.name:<16}  {shown}{more}"
        yield f"{'':>16}  {'':>5}  {'':<16}  = {field.meaning}"


def _text(raw: bytes) -> str:
    text = printable(raw.decode(errors="backslashreplace"))
    return text if len(text) <= TEXT_SHOWN else f"{text[:TEXT_SHOWN]}…"
