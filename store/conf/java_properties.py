"""Java's properties files, as `java.util.Properties.load` reads them: RocketMQ's `broker.conf` is one.

One byte is one character (ISO-8859-1), `\\uXXXX` gives all others. A line ends at \\n, \\r or \\r\\n; with a backslash
before its end it goes on with the next one, whose leading blanks do not count. `#` and `!` begin a comment. A key ends
at the first `=`, `:` or blank that no backslash stands before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

BLANKS = " \t\f"
LINE_ENDS = "\r\n"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class Property(NamedTuple):
    """One key and its value."""

    line: int
    """Where it begins, from 1."""
    key: str
    value: str


class MalformedEscapeError(ValueError):
    """A `\\u` without four hexadecimal digits, at which Java gives up the whole file."""

    def __init__(self, line: int, found: str) -> None:
        super().__init__(f"line {line}: found {found!r}, expected \\u and four hexadecimal digits")
        self.line = line


def parse_properties(raw: bytes) -> list[Property]:
    """All properties in the order of the file, repeated keys too (the last one counts). Raises MalformedEscapeError."""
    properties = []
    for line, text in _logical_lines(raw.decode("iso-8859-1")):
        key, value = _split(text)
        properties.append(Property(line, _unescape(key, line), _unescape(value, line)))
    return properties


def _natural_lines(text: str) -> Iterator[str]:
    start = 0
    for here, character in enumerate(text):
        if character in LINE_ENDS:
            if not (character == "\n" and here and text[here - 1] == "\r"):
                yield text[start:here]
            start = here + 1
    if start < len(text):
        yield text[start:]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Number of the first natural line, and the text without line ends, continuations and leading blanks."""
    parts: list[str] = []
    first = 0
    is_continued = False
    for number, natural in enumerate(_natural_lines(text), start=1):
        line = natural.lstrip(BLANKS)
        if not any(parts):  # also behind a continuation that brought nothing yet
            if not line or line[0] in "#!":
                parts, is_continued = [], False
                continue
            first = number
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        parts.append(line[:-1] if is_continued else line)
        if not is_continued:
            yield first, "".join(parts)
            parts = []
    # Of a backslash alone at the very end Java makes an empty key, unless two characters end its line.
    if is_continued and (any(parts) or not text.endswith("\r\n")):
        yield first, "".join(parts)


def _split(text: str) -> tuple[str, str]:
    """Key and value, with their escapes."""
    end = 0
    while end < len(text) and text[end] not in "=:" + BLANKS:
        end += 2 if text[end] == "\\" else 1
    value = text[end:].lstrip(BLANKS)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(BLANKS)
    return text[:end], value


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    parts = []
    here = 0
    while (at := text.find("\\", here)) >= 0:
        parts.append(text[here:at])
        character = text[at + 1 : at + 2]
        here = at + 2
        if character == "u":
            digits = text[here : here + 4]
            if len(digits) < 4 or not HEX_DIGITS.issuperset(digits):
                raise MalformedEscapeError(line, text[at : at + 6])
            parts.append(chr(int(digits, 16)))
            here += 4
        else:
            parts.append(ESCAPES.get(character, character))
    parts.append(text[here:])
    # Java's characters are UTF-16: two escapes may be one character here.
    return "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def escaped_value(text: str) -> str:
    """`text` as a value of such a file, in ASCII: `parse_properties` gives it back."""
    parts = []
    for character in text:
        if character == "\\":
            parts.append("\\\\")
        elif " " <= character <= "~":
            parts.append(character)
        else:
            raw = character.encode("utf-16-be", "surrogatepass")
            parts.extend(f"\\u{unit:04x}" for (unit,) in struct.iter_unpack(">H", raw))
    value = "".join(parts)
    return "\\" + value if value[:1] == " " else value  # blanks before a value do not count
