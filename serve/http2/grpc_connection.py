"""gRPC on one HTTP/2 connection: frames in, calls out, and answers joined to as few writes as there can be.

Invariants:
- A handler runs as one task for each call. It ends when the client resets the stream or the connection is lost.
- Bytes that a client sends are acknowledged for flow control once its handler has taken them, or waits for the rest of
  a message. What waits for a handler or for a slow reader is bounded (`limits.py`): a call that would pass it is
  refused.
- A client that does not read is not read from, so nothing that it sends makes answers pile up.
- A message of a call is one gRPC frame; all messages that a handler sends at once are one DATA write.
- A client that says GOAWAY has its calls answered; the connection is closed behind the last answer.
- Nothing that a client sends raises out of here: a wrong frame ends its connection, a wrong call its stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from hyperframe.frame import Frame, GoAwayFrame

from .limits import CONTROLS, CONTROLS_PER_S, MAX_HELD_OF_CONNECTION, RESETS, RESETS_PER_S, HeldBytes, Rate

log = logging.getLogger("flightlog.serve")

MAX_REQUEST = 16 << 20
"""Bytes of one message of a request: a body of the largest size, its properties, and room to answer what is larger."""
STREAM_WINDOW = 1 << 20
CONNECTION_WINDOW = 16 << 20
MAX_CALLS = 1000
"""Calls at a time on one connection."""
MAX_UNSENT = 32 << 20
"""Bytes of answers that wait for a client to read them, on one connection."""
PREFIX_SIZE = 5
PREFACE_SIZE, FRAME_HEADER_SIZE, MAX_FRAME_SIZE = 24, 9, 16 << 10
"""Of HTTP/2; the last is what a server takes unless it says more."""

OK, CANCELLED, INVALID_ARGUMENT, DEADLINE, EXHAUSTED, UNIMPLEMENTED, INTERNAL = 0, 1, 3, 4, 8, 12, 13
"""Status codes of gRPC."""
UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
"""Of the header grpc-timeout."""


class CallError(Exception):
    """Ends a call with this status of gRPC."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class Call:
    """One call of a client. For its handler, in the event loop."""

    def __init__(self, connection: GrpcConnection, stream_id: int, headers: Mapping[str, str]) -> None:
        self._connection, self.stream_id, self.headers = connection, stream_id, headers
        self.peer, self.peer_port = connection.peer
        self.began_s = time.monotonic()
        self.timeout_s = _timeout_s(headers.get("grpc-timeout", ""))
        self.task: asyncio.Task[None] | None = None
        self._received = bytearray()
        self._unacknowledged = 0
        self._has_ended, self._arrived = False, asyncio.Event()
        self._is_over = self._is_too_much = False
        self.is_answered = False

    @property
    def path(self) -> str:
        return self.headers.get(":path", "")

    def left_s(self) -> float | None:
        """How long the client will wait still; None: for ever."""
        return None if self.timeout_s is None else max(0.0, self.began_s + self.timeout_s - time.monotonic())

    async def receive(self) -> bytes | None:
        """The next message; None after the last one. Raises CallError for what is no message."""
        while True:
            if self._is_too_much:
                raise CallError(EXHAUSTED, "the server holds too many bytes of requests and answers")
            size = self._next_size()
            if size is not None and len(self._received) >= PREFIX_SIZE + size:
                message = bytes(self._received[PREFIX_SIZE : PREFIX_SIZE + size])
                del self._received[: PREFIX_SIZE + size]
                self._connection.held.add(-PREFIX_SIZE - size)
                self._acknowledge()
                return message
            if self._has_ended:
                if self._received:
                    raise CallError(INTERNAL, "the request ends within a message")
                return None
            self._acknowledge()  # the rest of the message may be larger than the window
            self._arrived.clear()
            await self._arrived.wait()

    def _next_size(self) -> int | None:
        if len(self._received) < PREFIX_SIZE:
            return None
        if self._received[0]:
            raise CallError(UNIMPLEMENTED, "the message is compressed: expected grpc-encoding identity")
        size = int.from_bytes(self._received[1:PREFIX_SIZE], "big")
        if size > MAX_REQUEST:
            raise CallError(EXHAUSTED, f"a message of {size} bytes: expected {MAX_REQUEST} at most")
        return size

    def _acknowledge(self) -> None:
        count, self._unacknowledged = self._unacknowledged, 0
        if count:
            self._connection.acknowledge(self.stream_id, count)

    def send(self, *messages: bytes) -> None:
        """Send these messages with one write. Raises CallError where the client reads too slowly."""
        self._connection.send(self, b"".join(b"\x00" + len(each).to_bytes(4, "big") + each for each in messages))

    # -- called by the connection

    def feed(self, data: bytes, size: int) -> None:
        self._unacknowledged += size
        if self._is_over:
            self._acknowledge()
            return
        self._is_too_much = self._is_too_much or not self._connection.held.has_room(len(data))
        if not self._is_too_much:
            self._received += data
            self._connection.held.add(len(data))
        self._arrived.set()

    def close(self) -> None:
        """No handler takes what comes from now on."""
        if not self._is_over:
            self._is_over = True
            self._connection.held.add(-len(self._received))
            self._received.clear()
            self._acknowledge()

    def end(self) -> None:
        self._has_ended = True
        self._arrived.set()


def _timeout_s(text: str) -> float | None:
    """Of the header grpc-timeout, such as `20S`; None if there is none that can be read."""
    unit = UNITS_S.get(text[-1:])
    if unit is None or not (text[:-1].isascii() and text[:-1].isdigit()) or len(text) > 9:
        return None
    return int(text[:-1]) * unit


Handler = Callable[[Call], Awaitable[None]]


class FrameSizes:
    """Looks at the length of each frame when its header comes. h2 does so when the whole frame is there, which may be
    16 MiB that nobody has asked for."""

    def __init__(self) -> None:
        self._left, self._header = PREFACE_SIZE, b""
        """Bytes of a frame that are to come; the part of a header that came."""

    def check(self, data: bytes) -> None:
        """Raises ValueError for a frame that is too long."""
        at = min(self._left, len(data))
        self._left -= at
        while at < len(data):
            part = data[at : at + FRAME_HEADER_SIZE - len(self._header)]
            self._header += part
            at += len(part)
            if len(self._header) == FRAME_HEADER_SIZE:
                size, self._header = int.from_bytes(self._header[:3], "big"), b""
                if size > MAX_FRAME_SIZE:
                    raise ValueError(f"a frame of {size} bytes: expected {MAX_FRAME_SIZE} at most")
                step = min(size, len(data) - at)
                at, self._left = at + step, size - step


class H2Connection(h2.connection.H2Connection):
    """Remembers fewer closed streams than h2 does: 65,536 of each connection were some MiB."""

    MAX_CLOSED_STREAMS = 2 * MAX_CALLS

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        """h2 takes nothing any more after a GOAWAY, and drops what it has to send. But a client that shuts down sends
        one and then ends its calls, which go on until then (RFC 9113, 6.8)."""
        event = h2.events.ConnectionTerminated()
        event.error_code, event.last_stream_id = frame.error_code, frame.last_stream_id
        return [], [event]


CONTROL_EVENTS = (
    h2.events.ConnectionTerminated,
    h2.events.PingReceived,
    h2.events.RemoteSettingsChanged,
    h2.events.PriorityUpdated,
    h2.events.UnknownFrameReceived,
)


class GrpcConnection(asyncio.Protocol):
    """Of one client. `handle` serves its calls; `on_lost` is told when it is gone."""

    def __init__(
        self, handle: Handler, on_lost: Callable[[GrpcConnection], None], all_held: HeldBytes | None = None
    ) -> None:
        """`all_held` counts what waits in all connections of a server."""
        self.held = HeldBytes(MAX_HELD_OF_CONNECTION, all_held)
        self._resets, self._controls = Rate(RESETS, RESETS_PER_S), Rate(CONTROLS, CONTROLS_PER_S)
        self._handle, self._on_lost = handle, on_lost
        config = h2.config.H2Configuration(
            client_side=False,
            header_encoding="utf-8",
            validate_outbound_headers=False,  # they are all below, in lower case
            normalize_outbound_headers=False,
        )
        self._h2 = H2Connection(config)
        self._frame_sizes = FrameSizes()
        self._transport: asyncio.Transport | None = None
        self.calls: dict[int, Call] = {}
        self._unsent: dict[int, bytearray] = {}
        """Stream -> bytes that wait for its window."""
        self._trailers: dict[int, list[tuple[str, str]]] = {}
        """Stream -> what follows the last of them."""
        self._unsent_size = 0
        self._is_flushing, self._can_write = False, True
        self._is_leaving = False
        """The client opens no more calls here."""
        self.heard_s = time.monotonic()
        """When the client sent something last."""
        self.used_s = self.heard_s
        """When its last call began or ended."""
        self.peer: tuple[str, int] = ("", 0)

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        address = transport.get_extra_info("peername") or ("", 0)
        self.peer = str(address[0]), int(address[1]) if len(address) > 1 else 0
        self._h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: MAX_CALLS,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 64 << 10,
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
            },
        )
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(CONNECTION_WINDOW)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self.heard_s = time.monotonic()
        try:
            self._frame_sizes.check(data)
            for event in self._h2.receive_data(data):
                self._on_event(event)
        except (h2.exceptions.H2Error, ValueError, KeyError, IndexError) as e:
            self._flush()  # the GOAWAY that says why
            log.warning("a client at %s:%d sent what is no HTTP/2: %s", *self.peer, e, extra={"peer": self.peer})
            self.close()
            return
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        for call in self.calls.values():
            call.close()
        self.held.clear()
        for call in tuple(self.calls.values()):
            if call.task is not None:
                call.task.cancel()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._can_write = False
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._can_write = True
        if self._transport is not None:
            self._transport.resume_reading()
        self._send_unsent()
        self._flush()

    # -- events

    def _on_event(self, event: h2.events.Event) -> None:
        if isinstance(event, CONTROL_EVENTS) and not self._controls.allows():
            raise ValueError("too many frames that carry no call")
        if isinstance(event, h2.events.StreamReset) and not self._resets.allows():
            raise ValueError("too many calls that are reset")
        if isinstance(event, h2.events.DataReceived):
            self._data_received(event)
        elif isinstance(event, h2.events.RequestReceived):
            self._request_received(event)
        elif isinstance(event, h2.events.StreamEnded):
            call = self.calls.get(event.stream_id or 0)
            if call is not None:
                call.end()
        elif isinstance(event, h2.events.StreamReset):
            self._forget(event.stream_id or 0)
        elif isinstance(event, h2.events.WindowUpdated) and event.stream_id:
            if event.stream_id in self._unsent:
                self._send_stream(event.stream_id)
        elif isinstance(event, (h2.events.WindowUpdated, h2.events.RemoteSettingsChanged)):
            self._send_unsent()
        elif isinstance(event, h2.events.ConnectionTerminated):
            self._is_leaving = True
            if event.error_code:
                self.close()

    def _request_received(self, event: h2.events.RequestReceived) -> None:
        stream_id = event.stream_id or 0
        headers: dict[str, str] = {}
        for name, value in event.headers or ():
            headers[_text(name)] = _text(value)
        self.used_s = time.monotonic()
        call = Call(self, stream_id, headers)
        self.calls[stream_id] = call
        call.task = asyncio.get_running_loop().create_task(self._run(call))

    def _data_received(self, event: h2.events.DataReceived) -> None:
        size = event.flow_controlled_length or 0
        if not event.data and not self._controls.allows():
            raise ValueError("too many frames without data")
        call = self.calls.get(event.stream_id or 0)
        if call is None:  # it was answered already
            self.acknowledge(event.stream_id or 0, size)
        else:
            call.feed(event.data or b"", size)

    def _forget(self, stream_id: int) -> None:
        """The client wants no answer any more."""
        call = self.calls.pop(stream_id, None)
        unsent = self._unsent.pop(stream_id, None)
        if unsent is not None:
            self._unsent_size -= len(unsent)
            self.held.add(-len(unsent))
        self._trailers.pop(stream_id, None)
        if call is not None:
            call.close()
            if call.task is not None:
                call.task.cancel()

    # -- calls

    async def _run(self, call: Call) -> None:
        code, text = OK, ""
        try:
            await self._handle(call)
            self.used_s = time.monotonic()
        except CallError as e:
            code, text = e.code, e.text
        except asyncio.CancelledError:
            if call.stream_id not in self.calls or self._transport is None:
                raise
            code, text = CANCELLED, "the server is closing"
        except Exception as e:
            log.exception("a call of %s failed", call.path, extra={"path": call.path, "cause": repr(e)})
            code, text = INTERNAL, f"{type(e).__name__}: {e}"
        call.close()
        self._end(call, code, text)

    def send(self, call: Call, data: bytes) -> None:
        """Send a part of a call's answer, as soon as the client takes it."""
        stream_id = call.stream_id
        if self._transport is None or self.calls.get(stream_id) is not call:
            return
        if self._unsent_size + len(data) > MAX_UNSENT:
            raise CallError(EXHAUSTED, f"{self._unsent_size} bytes of answers wait to be read on this connection")
        if not self.held.has_room(len(data)):
            raise CallError(EXHAUSTED, "the server holds too many bytes of requests and answers")
        if not call.is_answered:
            call.is_answered = True
            self._h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
        self._unsent.setdefault(stream_id, bytearray()).extend(data)
        self._unsent_size += len(data)
        self.held.add(len(data))
        self._send_stream(stream_id)
        self._flush_soon()

    def _end(self, call: Call, code: int, text: str) -> None:
        """Send the trailers behind what was sent."""
        stream_id = call.stream_id
        if self._transport is None or self.calls.get(stream_id) is not call:
            return
        trailers = [("grpc-status", str(code))]
        if text:
            trailers.append(("grpc-message", _percent_encoded(text)))
        with contextlib.suppress(h2.exceptions.H2Error):
            if not call.is_answered:
                call.is_answered = True
                headers = [(":status", "200"), ("content-type", "application/grpc"), *trailers]
                self._h2.send_headers(stream_id, headers, end_stream=True)
                del self.calls[stream_id]
            else:
                self._trailers[stream_id] = trailers
                self._unsent.setdefault(stream_id, bytearray())
                self._send_stream(stream_id)
        self._flush_soon()

    def acknowledge(self, stream_id: int, count: int) -> None:
        """The client may send so many more bytes."""
        if count and self._transport is not None:
            with contextlib.suppress(h2.exceptions.H2Error):
                self._h2.acknowledge_received_data(count, stream_id)
            self._flush_soon()

    # -- writing

    def _send_unsent(self) -> None:
        for stream_id in tuple(self._unsent):
            self._send_stream(stream_id)

    def _send_stream(self, stream_id: int) -> None:
        """Send as much of a stream as its client takes now, and its trailers behind the last byte."""
        if not self._can_write:
            return
        waiting = self._unsent[stream_id]
        try:
            sent = 0
            while sent < len(waiting):
                room = min(self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size)
                if room <= 0:
                    break
                part = bytes(waiting[sent : sent + room])
                self._h2.send_data(stream_id, part)
                sent += len(part)
            del waiting[:sent]
            self._unsent_size -= sent
            self.held.add(-sent)
            if waiting:
                return
            del self._unsent[stream_id]
            trailers = self._trailers.pop(stream_id, None)
            if trailers is not None:
                self._h2.send_headers(stream_id, trailers, end_stream=True)
                self.calls.pop(stream_id, None)
        except (h2.exceptions.H2Error, KeyError):  # the stream was reset meanwhile
            self._forget(stream_id)

    def _flush_soon(self) -> None:
        """Write once for all that is sent in this turn of the loop."""
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if self._transport is not None:
            data = self._h2.data_to_send()
            if data:
                self._transport.write(data)
            if self._is_leaving and not self.calls:
                self.close()

    # -- life

    def ping(self) -> None:
        """Ask whether the client is still there: an answer changes `heard_s`."""
        if self._transport is not None:
            with contextlib.suppress(h2.exceptions.H2Error):
                self._h2.ping(b"flightlg")
            self._flush()

    def go_away(self) -> None:
        """Have the client open no more calls here; those that run go on."""
        if self._transport is not None:
            self._flush()
            frame = GoAwayFrame(0)
            frame.last_stream_id, frame.error_code = (1 << 31) - 1, 0
            self._transport.write(frame.serialize())

    def close(self) -> None:
        """Write what is to be written, and close."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _percent_encoded(text: str) -> str:
    """As gRPC wants its messages: printable ASCII, the rest as `%XX`."""
    data = text.encode("utf-8", "replace")
    return "".join(chr(byte) if 0x20 <= byte < 0x7F and byte != 0x25 else f"%{byte:02X}" for byte in data)
