"""Header blocks of HTTP/2 (HPACK, RFC 7541): those of clients decoded and checked, those of a server's answers.

hpack's own decoder takes 30 us for the headers of a call, which is more than the rest of its frames. This one looks up
checked text: whatever stands in a table was decoded and checked once, when it came. Huffman's code is hpack's.

Answers refer to no dynamic table: their blocks are constant, but for what a status says.
"""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from typing import NamedTuple

from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from .frames import COMPRESSION_ERROR, PROTOCOL_ERROR, FrameError

MAX_LIST_SIZE = 64 << 10
"""Decoded size of a call's headers, counted as `MAX_HEADER_LIST_SIZE` is."""
TABLE_SIZE = 4096
"""Size of a client's dynamic table: HTTP/2's default unless a server says otherwise."""
ENTRY_SIZE = 32
"""What HPACK counts for an entry besides its bytes."""
MAX_NUMBER = 1 << 31
MAX_RESIZES = 2
"""Changes of a table's size before the headers of a block."""

PSEUDO = frozenset((":method", ":scheme", ":path", ":authority"))
NEEDED = (":method", ":scheme", ":path")
OF_HTTP_1 = frozenset(("connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"))
NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9a-z]+")
"""What HTTP allows, in lower case as HTTP/2 wants it."""
NOT_IN_VALUES = re.compile("[\x00\r\n]")


class Entry(NamedTuple):
    """A header. `fault` says why no request may have it; empty if it may."""

    name: str
    value: str
    size: int
    is_pseudo: bool
    fault: str


def _entry(name: bytes, value: bytes) -> Entry:
    try:
        name_text, value_text = name.decode(), value.decode()
    except UnicodeDecodeError as e:
        raise FrameError(COMPRESSION_ERROR, f"a header is not UTF-8: {e}") from e
    is_pseudo = name_text.startswith(":")
    fault = _fault(name_text, value_text)
    return Entry(name_text, value_text, ENTRY_SIZE + len(name) + len(value), is_pseudo, fault)


def _fault(name: str, value: str) -> str:
    if name.startswith(":"):
        if name not in PSEUDO:
            return f"no request has {name[:40]!r}"
    elif NAME.fullmatch(name) is None:
        return f"{name[:40]!r} is no name of a header"
    if name in OF_HTTP_1 or (name == "te" and value != "trailers"):
        return f"no request of HTTP/2 has {name}: {value[:40]!r}"
    if NOT_IN_VALUES.search(value):
        return f"the value of {name[:40]} has an end of line or a NUL"
    return ""


STATIC = (None, *(_entry(*each) for each in HeaderTable.STATIC_TABLE))
"""By index, which begins at 1."""
STATIC_COUNT = len(STATIC)


_remembered_entry = lru_cache(4096)(_entry)
"""For short ones: most headers of a client's call are those of its last one."""
MAX_REMEMBERED = 256


def _unpacked(data: bytes) -> bytes:
    """Out of Huffman's code."""
    try:
        return bytes(decode_huffman(data))
    except HPACKDecodingError as e:
        raise FrameError(COMPRESSION_ERROR, str(e)) from e


_remembered_unpacked = lru_cache(4096)(_unpacked)


class RequestHeaders:
    """Decodes the header blocks of one client. They depend on each other: none may be left out."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        """The newest one first."""
        self._size, self._max_size = 0, TABLE_SIZE

    def decode(self, block: bytes, *, are_trailers: bool = False) -> dict[str, str]:
        """The headers; of a name that comes twice the last one. Raises FrameError."""
        found: dict[str, str] = {}
        at, end, size, only_pseudo, resizes = 0, len(block), 0, True, 0
        try:
            while at < end:
                first = block[at]
                if first & 0x80:
                    index, at = (first & 0x7F, at + 1) if first != 0xFF else _number(block, at, 0x7F)
                    entry = self._at(index)
                elif first & 0x40:
                    entry, at = self._literal(block, at, 0x3F)
                    self._add(entry)
                elif first & 0x20:
                    resizes += 1
                    if found or resizes > MAX_RESIZES:
                        raise FrameError(COMPRESSION_ERROR, "the size of the table changes within a header block")
                    at = self._resize(block, at)
                    continue
                else:
                    entry, at = self._literal(block, at, 0x0F)
                name, value, entry_size, is_pseudo, fault = entry
                size += entry_size
                if fault or size > MAX_LIST_SIZE:
                    raise FrameError(PROTOCOL_ERROR, fault or f"headers of more than {MAX_LIST_SIZE} bytes")
                if not is_pseudo:
                    only_pseudo = False
                elif are_trailers or not only_pseudo or name in found:
                    raise FrameError(PROTOCOL_ERROR, f"{name} where it cannot be")
                found[name] = value
        except IndexError:
            raise FrameError(COMPRESSION_ERROR, "a header block ends within a header") from None
        if not are_trailers:
            for name in NEEDED:
                if name not in found:
                    raise FrameError(PROTOCOL_ERROR, f"a request without {name}")
        return found

    def _at(self, index: int) -> Entry:
        if index < STATIC_COUNT:
            entry = STATIC[index]
            if entry is not None:
                return entry
        elif index - STATIC_COUNT < len(self._entries):
            return self._entries[index - STATIC_COUNT]
        raise FrameError(COMPRESSION_ERROR, f"no header has the index {index}")

    def _literal(self, block: bytes, at: int, mask: int) -> tuple[Entry, int]:
        """A header of which at least the value is spelled out; raises IndexError where the block ends within it."""
        index = block[at] & mask
        if index:
            index, at = (index, at + 1) if index != mask else _number(block, at, mask)
            name = self._at(index).name.encode()
        else:
            name, at = _text(block, at + 1)
        value, at = _text(block, at)
        if len(name) + len(value) > MAX_REMEMBERED:
            return _entry(name, value), at
        return _remembered_entry(name, value), at

    def _add(self, entry: Entry) -> None:
        """One that is larger than the table empties it."""
        self._entries.appendleft(entry)
        self._size += entry.size
        self._shrink()

    def _resize(self, block: bytes, at: int) -> int:
        size, at = _number(block, at, 0x1F) if block[at] & 0x1F == 0x1F else (block[at] & 0x1F, at + 1)
        if size > TABLE_SIZE:
            raise FrameError(COMPRESSION_ERROR, f"a table of {size} bytes: expected {TABLE_SIZE} at most")
        self._max_size = size
        self._shrink()
        return at

    def _shrink(self) -> None:
        while self._size > self._max_size:
            self._size -= self._entries.pop().size


def _number(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """A number that does not fit into its first byte, and where it ends."""
    found, shift = mask, 0
    while True:
        at += 1
        byte = block[at]
        found += (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at + 1
        shift += 7
        if found > MAX_NUMBER or shift > 28:
            raise FrameError(COMPRESSION_ERROR, "a number in a header block is too large")


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    first = block[at]
    size, at = (first & 0x7F, at + 1) if first & 0x7F != 0x7F else _number(block, at, 0x7F)
    text = block[at : at + size]
    if len(text) != size:
        raise IndexError
    if first & 0x80:
        text = _remembered_unpacked(text) if size < MAX_REMEMBERED else _unpacked(text)
    return text, at + size


# -- answers


def literal(name: bytes, value: bytes) -> bytes:
    """A header that goes into no table."""
    return b"\x00" + _sized(name) + _sized(value)


def _sized(text: bytes) -> bytes:
    size = len(text)
    if size < 0x7F:
        return bytes((size,)) + text
    size -= 0x7F
    found = bytearray((0x7F,))
    while size >= 0x80:
        found.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(found) + bytes((size,)) + text


NO_TABLE = b"\x20"
"""Before the first block of a connection: its dynamic table has no room, whatever size a client will allow."""
ANSWER = b"\x88" + literal(b"content-type", b"application/grpc")
"""`:status` 200 is the entry 8 of the static table."""
MAX_TEXT = 1000
"""Characters of a status: at most 12,000 bytes, which fit into a frame."""
OK_TRAILERS = literal(b"grpc-status", b"0")


def trailers(code: int, text: str) -> bytes:
    """How a call ended. A longer text is cut."""
    if not code and not text:
        return OK_TRAILERS
    block = literal(b"grpc-status", str(code).encode())
    return block + literal(b"grpc-message", _percent_encoded(text[:MAX_TEXT])) if text else block


def _percent_encoded(text: str) -> bytes:
    """As gRPC wants its messages: printable ASCII, the rest as `%XX`."""
    data = text.encode("utf-8", "replace")
    return "".join(chr(byte) if 0x20 <= byte < 0x7F and byte != 0x25 else f"%{byte:02X}" for byte in data).encode()
