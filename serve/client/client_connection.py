"""One HTTP/2 connection to a server, for one gRPC call at a time.

Invariant: `LostError.was_sent` is False only if the server cannot have done the call: it never got the whole request,
or said so.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from contextlib import suppress
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

WINDOW = 16 << 20
"""Bytes that a server may send ahead."""
PART = 1 << 16
REFUSED_STREAM = 7
PREFIX = struct.Struct(">BI")
"""Before a message: whether it is compressed, and its size."""
# fmt: off
CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)
# fmt: on
"""Status codes of gRPC, by number."""


class LostError(Exception):
    """The connection is of no use any more."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.was_sent = was_sent


class StatusError(Exception):
    """The call ended with another status of gRPC than OK."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class ClientConnection:
    """Used by one thread at a time; any thread may call `close`."""

    def __init__(self, address: str, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        """Connect. Raises OSError; ssl.SSLError is one."""
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        self._address, self._scheme = address, "https" if tls else "http"
        self._socket = socket.create_connection((host, int(port)), timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
            config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
            self._h2 = h2.connection.H2Connection(config)
            self._h2.local_settings.update({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})
            self._h2.initiate_connection()
            self._h2.increment_flow_control_window(WINDOW)
            self._socket.sendall(self._h2.data_to_send())
        except BaseException:
            self._socket.close()
            raise
        self._is_ending = False
        self.used_s = time.monotonic()

    def is_reusable(self) -> bool:
        """Whether another call may be made. Reads what the server said meanwhile."""
        try:
            while not self._is_ending and select.select([self._socket], [], [], 0)[0]:
                self._read(time.monotonic() + 1)
        except (OSError, ValueError, LostError, h2.exceptions.ProtocolError):
            return False
        return not self._is_ending

    def call(self, path: str, headers: list[tuple[str, str]], message: bytes, due_s: float) -> list[bytes]:
        """The messages of the answer. Raises LostError, also when it is too late, and StatusError."""
        call = _Call(self._h2.get_next_available_stream_id())
        timeout_ms = max(int((due_s - time.monotonic()) * 1000), 1)
        head = [(":method", "POST"), (":scheme", self._scheme), (":authority", self._address), (":path", path)]
        head += [("te", "trailers"), ("content-type", "application/grpc"), ("grpc-timeout", f"{timeout_ms}m"), *headers]
        try:
            self._h2.send_headers(call.stream_id, head)
            self._send_body(call, PREFIX.pack(0, len(message)) + message, due_s)
            while not call.is_over:
                call.take(self._read(due_s), self._h2)
            self._socket.sendall(self._h2.data_to_send())
        except (OSError, ValueError, h2.exceptions.ProtocolError) as e:  # ValueError: closed by another thread
            raise LostError(str(e) or type(e).__name__, was_sent=call.was_sent) from e
        self.used_s = time.monotonic()
        return call.messages()

    def _send_body(self, call: _Call, body: bytes, due_s: float) -> None:
        place = 0
        while place < len(body) and not call.is_over:
            room = min(self._h2.local_flow_control_window(call.stream_id), self._h2.max_outbound_frame_size)
            if room <= 0:
                call.take(self._read(due_s), self._h2)
                continue
            part = body[place : place + room]
            place += len(part)
            self._h2.send_data(call.stream_id, part, end_stream=place == len(body))
            call.was_sent = place == len(body)
            self._set_timeout(due_s)
            self._socket.sendall(self._h2.data_to_send())

    def _read(self, due_s: float) -> list[h2.events.Event]:
        """What the server says next. Raises OSError, LostError, ProtocolError."""
        if pending := self._h2.data_to_send():
            self._socket.sendall(pending)
        self._set_timeout(due_s)
        data = self._socket.recv(PART)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        events: list[h2.events.Event] = self._h2.receive_data(data)
        self._is_ending |= any(isinstance(event, h2.events.ConnectionTerminated) for event in events)
        return events

    def _set_timeout(self, due_s: float) -> None:
        left_s = due_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("no answer in time")
        self._socket.settimeout(left_s)

    def abort(self) -> None:
        """End the call that another thread makes: it raises LostError."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the descriptor of this process. Nothing is said to the server, which a forked child must not."""
        self._socket.close()


class _Call:
    """What is known of one call."""

    def __init__(self, stream_id: int) -> None:
        self.stream_id = stream_id
        self.was_sent = self.is_over = False
        self._data = bytearray()
        self._trailers: dict[str, str] = {}

    def take(self, events: list[h2.events.Event], connection: h2.connection.H2Connection) -> None:
        """Raises LostError where the server ends the call without an answer."""
        for event in events:
            if isinstance(event, h2.events.ConnectionTerminated):
                if (event.last_stream_id or 0) < self.stream_id:
                    raise LostError("the server is closing", was_sent=False)
            elif getattr(event, "stream_id", None) != self.stream_id:
                continue
            elif isinstance(event, h2.events.DataReceived):
                self._data += event.data or b""
                connection.acknowledge_received_data(event.flow_controlled_length or 0, self.stream_id)
            elif isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                self._trailers.update((str(name), str(value)) for name, value in event.headers or ())
            elif isinstance(event, h2.events.StreamReset):
                was_sent = self.was_sent and event.error_code != REFUSED_STREAM
                raise LostError(f"the server reset the call ({event.error_code!s})", was_sent=was_sent)
            elif isinstance(event, h2.events.StreamEnded):
                self.is_over = True

    def messages(self) -> list[bytes]:
        """Raises StatusError; LostError for an answer that is none."""
        number = self._trailers.get("grpc-status", "")
        if not number.isdigit() or int(number) >= len(CODES):
            raise LostError(f"no gRPC server answers: {self._trailers.get(':status', 'no status')}", was_sent=True)
        if code := int(number):
            raise StatusError(CODES[code], unquote(self._trailers.get("grpc-message", "")))
        found, place = [], 0
        while place < len(self._data):
            _, size = PREFIX.unpack_from(self._data, place)
            place += PREFIX.size
            found.append(bytes(self._data[place : place + size]))
            place += size
        return found
