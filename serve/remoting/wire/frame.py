"""A frame: lengths, a header in one of two serializations, and a body.

    0        4              5            8
    ┌────────┬──────────────┬────────────┬────────┬──────┐
    │ length │ header kind  │ header     │ header │ body │
    │ u32    │ u8           │ length u24 │        │      │
    └────────┴──────────────┴────────────┴────────┴──────┘

`length` counts what follows it. Big-endian.
"""

from __future__ import annotations

import struct

from . import binary_header, json_header
from .command import Command, HeaderKind, InvalidFrameError

LENGTH = struct.Struct(">I")
LEAST_LENGTH = LENGTH.size
MAX_LENGTH = 16 << 20
"""`com.rocketmq.remoting.frameMaxLength`; also limits what a connection can make the server keep."""
HTTP2 = b"PRI "
"""How a gRPC client begins."""
HEADER_MASK = (1 << 24) - 1
MAX_HEADER_SIZE = 1 << 20
"""Ours: properties of a message are at most 32,767 bytes, and every other field is shorter."""


def encode(command: Command) -> bytes:
    """The frame of a command. Raises InvalidFrameError if it would be too long."""
    codec = binary_header if command.kind is HeaderKind.ROCKETMQ else json_header
    header = codec.encode(command)
    length = LENGTH.size + len(header) + len(command.body)
    if len(header) > HEADER_MASK or length > MAX_LENGTH:
        raise InvalidFrameError(f"a frame of {length} bytes, the limit is {MAX_LENGTH}")
    return b"".join([LENGTH.pack(length), LENGTH.pack(command.kind << 24 | len(header)), header, command.body])


def decode(frame: bytes) -> Command:
    """The command of a frame, without the frame's length in front. Raises InvalidFrameError."""
    (word,) = LENGTH.unpack_from(frame)
    kind, size = word >> 24, word & HEADER_MASK
    if size > min(len(frame) - LENGTH.size, MAX_HEADER_SIZE):
        raise InvalidFrameError(f"a header of {size} bytes in a frame of {len(frame)}")
    header, body = frame[LENGTH.size : LENGTH.size + size], frame[LENGTH.size + size :]
    if kind == HeaderKind.JSON:
        return json_header.decode(header, body)
    if kind == HeaderKind.ROCKETMQ:
        return binary_header.decode(header, body)
    raise InvalidFrameError(f"a header of the unknown kind {kind}")


class FrameReader:
    """Finds the frames in what a connection delivers, in pieces of any size."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data

    @property
    def size(self) -> int:
        """Bytes that were fed and are in no command yet."""
        return len(self._data)

    def next(self) -> Command | None:
        """The next command; None if it is not whole yet. Raises InvalidFrameError as soon as a length is seen that
        cannot be."""
        if len(self._data) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._data)
        if not LEAST_LENGTH <= length <= MAX_LENGTH:
            if self._data.startswith(HTTP2):
                raise InvalidFrameError("the connection begins as one of HTTP/2: gRPC clients need the other port")
            raise InvalidFrameError(f"a frame of {length} bytes, expected {LEAST_LENGTH} to {MAX_LENGTH}")
        end = LENGTH.size + length
        if len(self._data) < end:
            return None
        frame = bytes(memoryview(self._data)[LENGTH.size : end])
        del self._data[:end]
        return decode(frame)
