"""Frames of HTTP/2 (RFC 9113) as a server writes them.

size 3 bytes | kind 1 | flags 1 | stream 4 (the first bit is reserved) | payload of that size
"""

from __future__ import annotations

from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client says first."""
HEADER = Struct(">BHBBI")
assert HEADER.size == 9
MAX_FRAME_SIZE = 16 << 10
"""Bytes of a payload that a server takes unless it says more."""
MAX_STREAM_ID = (1 << 31) - 1
MAX_WINDOW = (1 << 31) - 1
FIRST_WINDOW = 65_535
"""Initial window of a connection, and of a stream unless settings change it."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
"""Kinds."""
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, HAS_PRIORITY = 0x4, 0x8, 0x20
"""Flags."""
ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, PEER_MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 2, 3, 4, 5, 6
"""Settings."""
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR = 0, 1, 3, 5, 6
COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 9, 11
"""Error codes."""

_U32, _SETTING, _GOAWAY = Struct(">I"), Struct(">HI"), Struct(">II")


class FrameError(Exception):
    """What a client sent ends its connection, with this error code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return HEADER.pack(size >> 16, size & 0xFFFF, kind, flags, stream_id) + payload


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*each) for each in values.items()))


def settings_of(payload: bytes) -> list[tuple[int, int]]:
    """In the order in which they count."""
    return list(_SETTING.iter_unpack(payload))


def window_update(stream_id: int, count: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, _U32.pack(count))


def number_of(payload: bytes) -> int:
    """The number in a WINDOW_UPDATE, without its reserved bit."""
    return int(_U32.unpack(payload)[0]) & MAX_WINDOW


def goaway(last_stream_id: int, code: int) -> bytes:
    return frame(GOAWAY, 0, 0, _GOAWAY.pack(last_stream_id, code))


def goaway_code(payload: bytes) -> int:
    return int(_GOAWAY.unpack_from(payload)[1])
