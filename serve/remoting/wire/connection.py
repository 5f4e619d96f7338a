"""One client's connection: requests come in, responses and the server's own requests go out.

Invariants:
- No more than MAX_RUNNING requests of a connection are at work: the rest is not read before one has ended.
- A client that does not read what it asked for is closed once UNREAD_MAX bytes wait for it.
- A request of the server's own is answered, or ends with its connection or its time.
- What has come of frames that are not whole yet is counted over all connections, and bounded.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from . import frame
from .command import ONE_WAY, Command, InvalidFrameError

log = logging.getLogger("flightlog.serve")

MAX_RUNNING = 1024
"""A push consumer has one pull at work for each of its queues."""
UNREAD_MAX = 32 << 20
INTAKE_MAX = 256 << 20
"""Bytes of frames that are not whole yet, of all connections together."""


class Intake:
    """What all connections keep of frames that are not whole."""

    def __init__(self) -> None:
        self.size = 0


class ClientLostError(Exception):
    """The connection was closed before the client answered."""


Handle = Callable[["Connection", Command], Awaitable[None]]


class Connection(asyncio.Protocol):
    """In one event loop."""

    def __init__(self, handle: Handle, on_lost: Callable[[Connection], None], intake: Intake) -> None:
        self._handle, self._on_lost, self._intake = handle, on_lost, intake
        self._reader = frame.FrameReader()
        self._kept = 0
        self._opaque = itertools.count()
        self._asked: dict[int, asyncio.Future[Command]] = {}
        """The server's own requests that wait for their answers, by opaque."""
        self._transport: asyncio.Transport
        self._running: set[asyncio.Future[None]] = set()
        self._is_paused = False
        self.heard_s = time.monotonic()
        self.peer = self.local = ("", 0)
        """Addresses of the client, and of the server as the client dialled it."""
        self.is_lost = False

    # -- asyncio's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer, self.local = (transport.get_extra_info(name)[:2] for name in ("peername", "sockname"))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self._intake.size -= self._kept
        self._kept = 0
        for task in tuple(self._running):
            task.cancel()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ClientLostError("the client is gone"))
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        self.heard_s = time.monotonic()
        self._reader.feed(data)
        self._take()

    def eof_received(self) -> bool:
        return False

    # -- requests

    def _take(self) -> None:
        """Start the requests that are whole, as many as may be at work."""
        try:
            while len(self._running) < MAX_RUNNING and (command := self._reader.next()) is not None:
                if not command.is_response:
                    self._start(command)
                elif (answer := self._asked.get(command.opaque)) is not None and not answer.done():
                    answer.set_result(command)
        except InvalidFrameError as e:
            log.warning("%s:%d sent no frame of the remoting protocol: %s", *self.peer, e, extra={"cause": repr(e)})
            self.abort()
            return
        self._intake.size += self._reader.size - self._kept
        self._kept = self._reader.size
        if self._intake.size > INTAKE_MAX:
            log.warning("%s:%d is closed: too many frames are not whole", *self.peer, extra={"size": self._intake.size})
            self.abort()
            return
        is_full = len(self._running) >= MAX_RUNNING
        if is_full is not self._is_paused and not self._transport.is_closing():
            self._is_paused = is_full
            if is_full:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _start(self, command: Command) -> None:
        task = asyncio.ensure_future(self._handle(self, command))
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Future[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a request failed", exc_info=error, extra={"cause": repr(error)})
        if self._is_paused and not self.is_lost:
            self._take()

    @property
    def running_count(self) -> int:
        return len(self._running)

    # -- what goes out

    def send(self, command: Command) -> None:
        """Raises InvalidFrameError for a command that is too long for a frame."""
        if self.is_lost or self._transport.is_closing():
            return
        self._transport.write(frame.encode(command))
        if self._transport.get_write_buffer_size() > UNREAD_MAX:
            log.warning("%s:%d is closed: it does not read its answers", *self.peer, extra={"client": self.peer[0]})
            self.abort()

    def tell(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> None:
        """Send a request of the server's own, which is not answered."""
        self.send(Command(code, next(self._opaque) & 0x7FFFFFFF, ONE_WAY, fields, body))

    async def ask(self, code: int, fields: Mapping[str, str], body: bytes, timeout_s: float) -> Command:
        """Send a request of the server's own, and wait for its answer. Raises TimeoutError, ClientLostError,
        InvalidFrameError."""
        if self.is_lost:
            raise ClientLostError("the client is gone")
        opaque = next(self._opaque) & 0x7FFFFFFF
        answer = self._asked[opaque] = asyncio.get_running_loop().create_future()
        try:
            self.send(Command(code, opaque, 0, fields, body))
            return await asyncio.wait_for(answer, timeout_s)
        finally:
            del self._asked[opaque]

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()
