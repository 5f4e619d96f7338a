"""Cuts what a client sends into frames.

Invariants:
- A frame is looked at as soon as its header is there: one that is too long is refused before it is waited for.
- A header block is handed on whole, in its HEADERS frame: CONTINUATION frames are joined to it, and bounded.
- Frames have the sizes and the streams that their kinds have. Padding and priorities are taken off.
"""

from __future__ import annotations

from collections.abc import Iterator

from .frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    ENHANCE_YOUR_CALM,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HAS_PRIORITY,
    HEADER,
    HEADERS,
    MAX_FRAME_SIZE,
    MAX_STREAM_ID,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    FrameError,
)

MAX_CONTINUATIONS = 64
"""Frames that a header block goes on in (CVE-2024-27316)."""
MAX_BLOCK_SIZE = 256 << 10
"""Encoded size of a header block: four times the decoded limit, which Huffman's code cannot reach."""
FIXED_SIZES = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
OF_STREAMS = frozenset((DATA, HEADERS, PRIORITY, RST_STREAM, CONTINUATION))
OF_CONNECTIONS = frozenset((SETTINGS, PING, GOAWAY))
PRIORITY_SIZE = 5
SETTING_SIZE, GOAWAY_SIZE = 6, 8

Frame = tuple[int, int, int, bytes, int]
"""Kind, flags, stream, payload without padding, and how many bytes it was with padding, which flow control counts."""


class FrameReader:
    """Reads the frames of one connection."""

    def __init__(self) -> None:
        self._rest, self._preface = b"", PREFACE
        """The beginning of a frame whose end is to come; the part of the preface that is to come."""
        self._block: list[bytes] = []
        """Parts of a header block that goes on; the first one may be empty."""
        self._block_flags = self._block_stream = self._block_size = 0

    def frames(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now. Raises FrameError, after which the reader is of no use."""
        if self._preface:
            data = self._without_preface(data)
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while end - at >= HEADER.size:
            high, low, kind, flags, stream_id = HEADER.unpack_from(data, at)
            size = high << 16 | low
            if size > MAX_FRAME_SIZE:
                raise FrameError(FRAME_SIZE_ERROR, f"a frame of {size} bytes: expected {MAX_FRAME_SIZE} at most")
            begins = at + HEADER.size
            if begins + size > end:
                break
            at = begins + size
            payload, stream_id = data[begins:at], stream_id & MAX_STREAM_ID
            if kind == DATA and stream_id and not flags & PADDED and not self._block:
                yield kind, flags, stream_id, payload, size
                continue
            _check(kind, flags, stream_id, size)
            if self._block or kind == CONTINUATION:
                if not self._block or kind != CONTINUATION or stream_id != self._block_stream:
                    raise FrameError(PROTOCOL_ERROR, f"a frame of kind {kind} where a header block does not go on")
            elif kind in (DATA, HEADERS):
                payload = _without_padding(kind, flags, payload)
            if kind not in (HEADERS, CONTINUATION) or (kind == HEADERS and flags & END_HEADERS):
                yield kind, flags, stream_id, payload, size
            else:
                if kind == HEADERS:
                    self._block_flags, self._block_stream, self._block_size = flags, stream_id, 0
                self._block.append(payload)
                self._block_size += size
                if len(self._block) > MAX_CONTINUATIONS or self._block_size > MAX_BLOCK_SIZE:
                    text = f"a header block of {self._block_size} bytes in {len(self._block)} frames: too much"
                    raise FrameError(ENHANCE_YOUR_CALM, text)
                if flags & END_HEADERS:
                    block, self._block = b"".join(self._block), []
                    yield HEADERS, self._block_flags, stream_id, block, self._block_size
        self._rest = data[at:]

    def _without_preface(self, data: bytes) -> bytes:
        count = min(len(data), len(self._preface))
        if data[:count] != self._preface[:count]:
            is_remoting = data[:1] in (b"\0", b"\1")  # the length of a frame
            hint = ", but as one of remoting, whose clients need the port of --remoting" if is_remoting else ""
            raise FrameError(PROTOCOL_ERROR, f"the connection does not begin as one of HTTP/2{hint}")
        self._preface = self._preface[count:]
        return data[count:]


def _check(kind: int, flags: int, stream_id: int, size: int) -> None:
    """Raises FrameError for a frame that has another size or stream than its kind can have."""
    if size != FIXED_SIZES.get(kind, size):
        raise FrameError(FRAME_SIZE_ERROR, f"a frame of kind {kind} of {size} bytes: expected {FIXED_SIZES[kind]}")
    if kind == SETTINGS and (size % SETTING_SIZE or (flags & 1 and size)):
        raise FrameError(FRAME_SIZE_ERROR, f"settings of {size} bytes: expected {SETTING_SIZE} each")
    if kind == GOAWAY and size < GOAWAY_SIZE:
        raise FrameError(FRAME_SIZE_ERROR, f"a GOAWAY of {size} bytes: expected {GOAWAY_SIZE} at least")
    if (kind in OF_STREAMS and not stream_id) or (kind in OF_CONNECTIONS and stream_id):
        raise FrameError(PROTOCOL_ERROR, f"a frame of kind {kind} of stream {stream_id}")
    if kind == PUSH_PROMISE:
        raise FrameError(PROTOCOL_ERROR, "a client pushes nothing")


def _without_padding(kind: int, flags: int, payload: bytes) -> bytes:
    """The data or the header block. Raises FrameError."""
    begins, ends = 0, len(payload)
    if flags & PADDED:
        if not payload:
            raise FrameError(FRAME_SIZE_ERROR, "a padded frame without the size of its padding")
        begins, ends = 1, ends - payload[0]
    if kind == HEADERS and flags & HAS_PRIORITY:
        begins += PRIORITY_SIZE
    if begins > ends:
        raise FrameError(PROTOCOL_ERROR, "more padding than the frame is long")
    return payload[begins:ends]
