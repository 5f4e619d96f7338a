"""One call of a client: its messages in, and its answer out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Protocol

from .limits import HeldBytes

MAX_REQUEST = 16 << 20
"""Bytes of one message of a request: a body of the largest size, its properties, and room to answer what is larger."""
PREFIX_SIZE = 5

OK, CANCELLED, INVALID_ARGUMENT, DEADLINE, EXHAUSTED, UNIMPLEMENTED, INTERNAL = 0, 1, 3, 4, 8, 12, 13
"""Status codes of gRPC."""
UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
"""Time units of the header grpc-timeout."""


class CallError(Exception):
    """Ends a call with this status of gRPC."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class Connection(Protocol):
    """What a call asks of the connection that it came by."""

    held: HeldBytes
    peer: tuple[str, int]

    def send(self, call: Call, data: bytes) -> None: ...

    def acknowledge(self, call: Call, count: int) -> None: ...


class Call:
    """For its handler, in the event loop."""

    def __init__(self, connection: Connection, stream_id: int, headers: Mapping[str, str], window: int) -> None:
        """`window`: bytes that the client may send at first."""
        self._connection, self.stream_id, self.headers = connection, stream_id, headers
        self.peer, self.peer_port = connection.peer
        self.path = headers.get(":path", "")
        self.began_s = time.monotonic()
        self.timeout_s = _timeout_s(headers["grpc-timeout"]) if "grpc-timeout" in headers else None
        self.task: asyncio.Task[None] | None = None
        self._received: bytes | bytearray = b""
        self._unacknowledged = 0
        self._arrived: asyncio.Future[None] | None = None
        """Future of a handler that waits."""
        self._is_over = self._is_too_much = False
        # What the connection keeps of the stream.
        self.has_ended = self.is_answered = False
        """The client sends no more; the headers of the answer were sent."""
        self.receive_room, self.consumed = window, 0
        """Bytes that the client may send still; those that were taken since it was last allowed more."""
        self.send_credit = 0
        """Bytes that the client takes, beside the first window of its streams."""
        self.unsent = bytearray()
        """Bytes of the answer that wait for the client."""
        self.trailers: bytes | None = None
        """What follows the last of them."""

    def left_s(self) -> float | None:
        """How long the client will wait still; None: for ever."""
        return None if self.timeout_s is None else max(0.0, self.began_s + self.timeout_s - time.monotonic())

    async def receive(self) -> bytes | None:
        """The next message; None after the last one. Raises CallError for what is no message."""
        while True:
            if self._is_too_much:
                raise CallError(EXHAUSTED, "the server holds too many bytes of requests and answers")
            ends = PREFIX_SIZE + self._next_size()
            if len(self._received) >= ends:
                message = bytes(self._received[PREFIX_SIZE:ends])
                if len(self._received) == ends:
                    self._received = b""
                else:
                    self._received = self._received[ends:]
                self._connection.held.add(-ends)
                self._acknowledge()
                return message
            if self.has_ended:
                if self._received:
                    raise CallError(INTERNAL, "the request ends within a message")
                return None
            self._acknowledge()  # the rest of the message may be larger than the window
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived

    def _next_size(self) -> int:
        """Size of the next message; as long as it is unknown, that of an empty one, which has not arrived yet,
        either."""
        if len(self._received) < PREFIX_SIZE:
            return 0
        if self._received[0]:
            raise CallError(UNIMPLEMENTED, "the message is compressed: expected grpc-encoding identity")
        size = int.from_bytes(self._received[1:PREFIX_SIZE], "big")
        if size > MAX_REQUEST:
            raise CallError(EXHAUSTED, f"a message of {size} bytes: expected {MAX_REQUEST} at most")
        return size

    def _acknowledge(self) -> None:
        count, self._unacknowledged = self._unacknowledged, 0
        if count:
            self._connection.acknowledge(self, count)

    def send(self, *messages: bytes) -> None:
        """Send these messages with one write. Raises CallError where the client reads too slowly."""
        self._connection.send(self, b"".join([b"\x00" + len(each).to_bytes(4, "big") + each for each in messages]))

    # -- called by the connection

    def feed(self, data: bytes, size: int) -> None:
        """`size` is what flow control counts."""
        self._unacknowledged += size
        if self._is_over:
            self._acknowledge()
            return
        self._is_too_much = self._is_too_much or not self._connection.held.has_room(len(data))
        if not self._is_too_much:
            self._connection.held.add(len(data))
            if not self._received:
                self._received = data
            elif isinstance(self._received, bytearray):
                self._received += data
            else:
                self._received = bytearray(self._received + data)
        self._wake()

    def close(self) -> None:
        """No handler takes what comes from now on."""
        if not self._is_over:
            self._is_over = True
            self._connection.held.add(-len(self._received))
            self._received = b""
            self._acknowledge()

    def end(self) -> None:
        self.has_ended = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._arrived = self._arrived, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)


def _timeout_s(text: str) -> float | None:
    """Parse the header grpc-timeout, such as `20S`; None if it cannot be read."""
    unit = UNITS_S.get(text[-1:])
    if unit is None or not (text[:-1].isascii() and text[:-1].isdigit()) or len(text) > 9:
        return None
    return int(text[:-1]) * unit
