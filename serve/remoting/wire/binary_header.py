"""Headers in RocketMQ's own serialization (`RocketMQSerializable`), big-endian:

code      i16
language  u8
version   i16
opaque    i32
flag      i32
remark    i32 + n     UTF-8; 0: none
fields    i32 + n     each a name (i16 + n) and a value (i32 + n), UTF-8
"""

from __future__ import annotations

import struct

from .command import LANGUAGES, Command, HeaderKind, InvalidFrameError

HEAD = struct.Struct(">hBhii")
LENGTH = struct.Struct(">i")
NAME_LENGTH = struct.Struct(">h")
LANGUAGE_NUMBERS = {name: number for number, name in LANGUAGES.items()}
OTHER = 7


def encode(command: Command) -> bytes:
    """Raises InvalidFrameError for what has no room in its field: a code has 16 bits."""
    try:
        return _encoded(command)
    except struct.error as e:
        raise InvalidFrameError(f"code {command.code} in RocketMQ's own serialization: {e}") from e


def _encoded(command: Command) -> bytes:
    parts = []
    for name, value in command.fields.items():
        raw_name, raw = name.encode("utf-8", "replace"), value.encode("utf-8", "replace")
        parts += [NAME_LENGTH.pack(len(raw_name)), raw_name, LENGTH.pack(len(raw)), raw]
    fields = b"".join(parts)
    remark = (command.remark or "").encode("utf-8", "replace")
    language = LANGUAGE_NUMBERS.get(command.language, OTHER)
    head = HEAD.pack(command.code, language, command.version, command.opaque, command.flag)
    return b"".join([head, LENGTH.pack(len(remark)), remark, LENGTH.pack(len(fields)), fields])


def decode(raw: bytes, body: bytes) -> Command:
    """Raises InvalidFrameError."""
    if len(raw) < HEAD.size:
        raise InvalidFrameError("the header ends within its fixed fields")
    code, language, version, opaque, flag = HEAD.unpack_from(raw)
    remark, position = _take(raw, HEAD.size, LENGTH)
    fields_raw, position = _take(raw, position, LENGTH)
    if position != len(raw):
        raise InvalidFrameError("the header goes on behind its fields")
    fields, position = {}, 0
    while position < len(fields_raw):
        name, position = _take(fields_raw, position, NAME_LENGTH)
        value, position = _take(fields_raw, position, LENGTH)
        fields[_text(name)] = _text(value)
    kind = HeaderKind.ROCKETMQ
    remark_text = _text(remark) if remark else None
    return Command(code, opaque, flag, fields, body, remark_text, LANGUAGES.get(language, "OTHER"), version, kind)


def _take(raw: bytes, position: int, length: struct.Struct) -> tuple[bytes, int]:
    """The bytes behind a length, and the position behind them."""
    start = position + length.size
    if start > len(raw):
        raise InvalidFrameError("the header ends within a length")
    (size,) = length.unpack_from(raw, position)
    if not 0 <= size <= len(raw) - start:
        raise InvalidFrameError(f"a length in the header is {size}, with {len(raw) - start} bytes behind it")
    return raw[start : start + size], start + size


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as e:
        raise InvalidFrameError("a text of the header is no UTF-8") from e
