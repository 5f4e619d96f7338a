"""gRPC on one HTTP/2 connection: frames in, calls out, and answers joined to as few writes as there can be.

Invariants:
- A handler runs as one task for each call. It ends when the client resets the stream or the connection is lost.
- Bytes that a client sends are acknowledged for flow control once its handler has taken them, or waits for the rest of
  a message. What waits for a handler or for a slow reader is bounded (`limits.py`): a call that would pass it is
  refused.
- A client that does not read is not read from, so nothing that it sends makes answers pile up.
- A message of a call is one gRPC frame; all messages that a handler sends at once are one write.
- A client that says GOAWAY has its calls answered; the connection is closed behind the last answer.
- Nothing that a client sends raises out of here: a wrong frame ends its connection, a wrong call its stream.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from . import frames
from .call import CANCELLED, EXHAUSTED, INTERNAL, OK, Call, CallError
from .frame_reader import FrameReader
from .frames import DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, HEADERS, PROTOCOL_ERROR, FrameError
from .header_blocks import ANSWER, MAX_LIST_SIZE, NO_TABLE, RequestHeaders, trailers
from .limits import (
    CONTROLS,
    CONTROLS_PER_S,
    MAX_HELD_OF_CONNECTION,
    RESETS,
    RESETS_PER_S,
    HeldByAddress,
    HeldBytes,
    Rate,
)

log = logging.getLogger("flightlog.serve")

STREAM_WINDOW = 1 << 20
CONNECTION_WINDOW = 16 << 20
MAX_CALLS = 1000
"""Calls at a time on one connection."""
MAX_UNSENT = 32 << 20
"""Bytes of answers that wait for a client to read them, on one connection."""
GREETING = frames.settings(
    {
        frames.ENABLE_PUSH: 0,
        frames.MAX_CONCURRENT_STREAMS: MAX_CALLS,
        frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        frames.MAX_HEADER_LIST_SIZE: MAX_LIST_SIZE,
    }
) + frames.window_update(0, CONNECTION_WINDOW)
SETTINGS_SEEN = frames.frame(frames.SETTINGS, frames.ACK, 0)
ASK = frames.frame(frames.PING, 0, 0, b"flightlg")

Handler = Callable[[Call], Awaitable[None]]


class GrpcConnection(asyncio.Protocol):
    """The connection of one client. `handle` serves its calls; `on_lost` is called when it is gone."""

    def __init__(
        self, handle: Handler, on_lost: Callable[[GrpcConnection], None], all_held: HeldByAddress | None = None
    ) -> None:
        """`all_held` counts what waits in all connections of an address, and of a server."""
        self._all_held = all_held
        self.held = HeldBytes(MAX_HELD_OF_CONNECTION)
        self._resets, self._controls = Rate(RESETS, RESETS_PER_S), Rate(CONTROLS, CONTROLS_PER_S)
        self._handle, self._on_lost = handle, on_lost
        self._reader, self._headers = FrameReader(), RequestHeaders()
        self._transport: asyncio.Transport | None = None
        self.calls: dict[int, Call] = {}
        """Those without the end of an answer."""
        self.answered: dict[int, Call] = {}
        """Those with it, of which the client has not sent all."""
        self._last_stream_id = 0
        """Stream id of the newest call."""
        self._waiting: dict[int, Call] = {}
        """Those with bytes that wait for the client."""
        self._unsent_size = 0
        self._receive_room, self._consumed = frames.FIRST_WINDOW + CONNECTION_WINDOW, 0
        """Bytes that the client may send still; those that were taken since it was last allowed more."""
        self._send_room = self._first_window = frames.FIRST_WINDOW
        """Bytes that the client takes on this connection, and of a new stream."""
        self._max_frame_size = frames.MAX_FRAME_SIZE
        self._out: list[bytes] = []
        """What the next flush writes."""
        self._is_flushing, self._can_write, self._is_greeted, self._is_closing = False, True, False, False
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
        if self._all_held is not None:
            self.held = HeldBytes(MAX_HELD_OF_CONNECTION, self._all_held.of(self.peer[0]))
        transport.write(GREETING)

    def data_received(self, data: bytes) -> None:
        self.heard_s = time.monotonic()
        try:
            for kind, flags, stream_id, payload, size in self._reader.frames(data):
                if kind == DATA:
                    self._data_received(flags, stream_id, payload, size)
                elif kind == HEADERS:
                    self._headers_received(flags, stream_id, payload)
                elif kind == frames.WINDOW_UPDATE:
                    self._window_updated(stream_id, frames.number_of(payload))
                elif kind == frames.RST_STREAM:
                    self._stream_reset(stream_id)
                else:
                    self._control_received(kind, flags, payload)
                if self._is_closing:
                    return
        except FrameError as e:
            log.warning("a client at %s:%d sent what is no HTTP/2: %s", *self.peer, e, extra={"peer": self.peer})
            self._out.append(frames.goaway(self._last_stream_id, e.code))
            self.close()
            return
        if self._waiting:
            self._send_waiting()
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
        self._send_waiting()
        self._flush()

    # -- frames

    def _headers_received(self, flags: int, stream_id: int, block: bytes) -> None:
        call = self.calls.get(stream_id) or self.answered.get(stream_id)
        headers = self._headers.decode(block, are_trailers=call is not None)
        if call is not None:
            if call.has_ended or not flags & END_STREAM:
                raise FrameError(PROTOCOL_ERROR, f"headers within stream {stream_id}")
            self._ended(call)
            return
        if stream_id <= self._last_stream_id or not stream_id % 2:
            raise FrameError(PROTOCOL_ERROR, f"stream {stream_id} is opened after {self._last_stream_id}")
        if len(self.calls) + len(self.answered) >= MAX_CALLS:
            raise FrameError(ENHANCE_YOUR_CALM, f"more than {MAX_CALLS} calls at a time")
        self._last_stream_id = stream_id
        call = Call(self, stream_id, headers, STREAM_WINDOW)
        self.used_s = call.began_s
        self.calls[stream_id] = call
        if flags & END_STREAM:
            call.end()
        call.task = asyncio.get_running_loop().create_task(self._run(call))

    def _data_received(self, flags: int, stream_id: int, data: bytes, size: int) -> None:
        if not data and not self._controls.allows():
            raise FrameError(ENHANCE_YOUR_CALM, "too many frames without data")
        call = self.calls.get(stream_id) or self.answered.get(stream_id)
        if call is None or call.has_ended:
            code = frames.STREAM_CLOSED if stream_id <= self._last_stream_id else PROTOCOL_ERROR
            raise FrameError(code, f"data of stream {stream_id}, which is not open")
        self._receive_room -= size
        call.receive_room -= size
        if self._receive_room < 0 or call.receive_room < 0:
            raise FrameError(frames.FLOW_CONTROL_ERROR, "more data than flow control allows")
        call.feed(data, size)
        if flags & END_STREAM:
            self._ended(call)

    def _ended(self, call: Call) -> None:
        """The client has sent all of a call."""
        call.end()
        self.answered.pop(call.stream_id, None)

    def _window_updated(self, stream_id: int, count: int) -> None:
        if not count:
            raise FrameError(PROTOCOL_ERROR, "a window grows by nothing")
        if not stream_id:
            self._send_room += count
            room = self._send_room
        elif (call := self.calls.get(stream_id)) is not None:
            call.send_credit += count
            room = self._first_window + call.send_credit
        elif stream_id > self._last_stream_id:
            raise FrameError(PROTOCOL_ERROR, f"a window of stream {stream_id}, which was never open")
        else:  # the answer is out
            return
        if room > frames.MAX_WINDOW:
            raise FrameError(frames.FLOW_CONTROL_ERROR, f"a window of {room} bytes: expected {frames.MAX_WINDOW}")

    def _stream_reset(self, stream_id: int) -> None:
        if not self._resets.allows():
            raise FrameError(ENHANCE_YOUR_CALM, "too many calls that are reset")
        if stream_id > self._last_stream_id:
            raise FrameError(PROTOCOL_ERROR, f"stream {stream_id} is reset, and was never open")
        self._forget(stream_id)

    def _control_received(self, kind: int, flags: int, payload: bytes) -> None:
        """What carries no call. Kinds that are not known are none of ours, as HTTP/2 wants it."""
        if not self._controls.allows():
            raise FrameError(ENHANCE_YOUR_CALM, "too many frames that carry no call")
        if kind == frames.SETTINGS and not flags & frames.ACK:
            for name, value in frames.settings_of(payload):
                self._set(name, value)
            self._out.append(SETTINGS_SEEN)
        elif kind == frames.PING and not flags & frames.ACK:
            self._out.append(frames.frame(frames.PING, frames.ACK, 0, payload))
        elif kind == frames.GOAWAY:
            self._is_leaving = True
            if frames.goaway_code(payload):
                self.close()

    def _set(self, name: int, value: int) -> None:
        """Answers use no dynamic table, so its size does not matter."""
        if name == frames.INITIAL_WINDOW_SIZE:
            if value > frames.MAX_WINDOW:
                raise FrameError(frames.FLOW_CONTROL_ERROR, f"a first window of {value} bytes")
            self._first_window = value
        elif name == frames.PEER_MAX_FRAME_SIZE:
            if not frames.MAX_FRAME_SIZE <= value < 1 << 24:
                raise FrameError(PROTOCOL_ERROR, f"frames of {value} bytes: expected {frames.MAX_FRAME_SIZE} at least")
            self._max_frame_size = value
        elif name == frames.ENABLE_PUSH and value > 1:
            raise FrameError(PROTOCOL_ERROR, f"push is {value}: expected 0 or 1")

    def _forget(self, stream_id: int) -> None:
        """The client wants no answer any more."""
        self.answered.pop(stream_id, None)
        call = self.calls.pop(stream_id, None)
        if call is None:
            return
        if self._waiting.pop(stream_id, None) is not None:
            self._unsent_size -= len(call.unsent)
            self.held.add(-len(call.unsent))
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
        if self._transport is None or self.calls.get(call.stream_id) is not call:
            return
        if self._unsent_size + len(data) > MAX_UNSENT:
            raise CallError(EXHAUSTED, f"{self._unsent_size} bytes of answers wait to be read on this connection")
        if not self.held.has_room(len(data)):
            raise CallError(EXHAUSTED, "the server holds too many bytes of requests and answers")
        if not call.is_answered:
            call.is_answered = True
            self._send_block(call.stream_id, ANSWER, 0)
        call.unsent += data
        self._waiting[call.stream_id] = call
        self._unsent_size += len(data)
        self.held.add(len(data))
        self._send_stream(call)
        self._flush_soon()

    def _end(self, call: Call, code: int, text: str) -> None:
        """Send the trailers behind what was sent."""
        if self._transport is None or self.calls.get(call.stream_id) is not call:
            return
        block = trailers(code, text)
        if not call.is_answered:
            call.is_answered = True
            block = ANSWER + block
        call.trailers = block
        self._waiting[call.stream_id] = call
        self._send_stream(call)
        self._flush_soon()

    def acknowledge(self, call: Call, count: int) -> None:
        """The client may send so many more bytes. It is told when half of a window is free."""
        if self._transport is None:
            return
        self._consumed += count
        if self._consumed >= CONNECTION_WINDOW // 2:
            self._out.append(frames.window_update(0, self._consumed))
            self._receive_room, self._consumed = self._receive_room + self._consumed, 0
            self._flush_soon()
        call.consumed += count
        if call.consumed >= STREAM_WINDOW // 2 and not call.has_ended:
            self._out.append(frames.window_update(call.stream_id, call.consumed))
            call.receive_room, call.consumed = call.receive_room + call.consumed, 0
            self._flush_soon()

    # -- writing

    def _send_waiting(self) -> None:
        for call in tuple(self._waiting.values()):
            self._send_stream(call)

    def _send_stream(self, call: Call) -> None:
        """Send as much of a call as its client takes now, and its trailers behind the last byte."""
        if not self._can_write:
            return
        stream_id, unsent, sent = call.stream_id, call.unsent, 0
        if unsent:
            room = min(self._send_room, self._first_window + call.send_credit, len(unsent))
            while sent < room:
                part = bytes(unsent[sent : min(sent + self._max_frame_size, room)])
                self._out.append(frames.frame(DATA, 0, stream_id, part))
                sent += len(part)
            self._send_room -= sent
            call.send_credit -= sent
            self._unsent_size -= sent
            self.held.add(-sent)
            if sent < len(unsent):
                del unsent[:sent]
                return
            unsent.clear()
        self._waiting.pop(stream_id, None)
        if call.trailers is not None:
            self._send_block(stream_id, call.trailers, END_STREAM)
            del self.calls[stream_id]
            if not call.has_ended:
                self.answered[stream_id] = call

    def _send_block(self, stream_id: int, block: bytes, flags: int) -> None:
        if not self._is_greeted:
            self._is_greeted = True
            block = NO_TABLE + block
        self._out.append(frames.frame(HEADERS, END_HEADERS | flags, stream_id, block))

    def _flush_soon(self) -> None:
        """Write once for all that is sent in this turn of the loop."""
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if self._transport is None or self._is_closing:
            return
        if self._out:
            data, self._out = b"".join(self._out), []
            self._transport.write(data)
        if self._is_leaving and not self.calls:
            self.close()

    # -- life

    def ping(self) -> None:
        """Ask whether the client is still there: an answer changes `heard_s`."""
        self._out.append(ASK)
        self._flush()

    def go_away(self) -> None:
        """Have the client open no more calls here; those that run go on."""
        self._out.append(frames.goaway(frames.MAX_STREAM_ID, frames.NO_ERROR))
        self._flush()

    def close(self) -> None:
        """Write what is to be written, and close. Nothing is taken any more."""
        if self._transport is not None and not self._is_closing:
            self._is_closing = True
            self._transport.write(b"".join(self._out))
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
