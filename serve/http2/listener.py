"""One port for clients with TLS and without: the first byte of a connection tells which, as in RocketMQ's proxy.

The byte is looked at and stays in the socket, so asyncio's own TLS takes the connection from its first byte on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable, Coroutine

from .grpc_connection import GrpcConnection

log = logging.getLogger("flightlog.serve")

TLS_HANDSHAKE = 0x16
"""The first byte of a TLS connection. HTTP/2 begins with `P`."""
FIRST_BYTE_S = 30.0
"""How long a connection may say nothing at all."""
HANDSHAKE_S = 30.0
BACKLOG = 1024
SWEEP_S = 10.0
SILENT_S = 60.0
"""After how long a client that says nothing is asked whether it is there."""
GONE_S = 90.0
"""After how long without an answer it is not."""
IDLE_S = 120.0
"""After how long a connection without a call is closed (`grpcClientIdleTimeMills`)."""


class Listener:
    """The sockets of one address, and the connections that came in. In one event loop."""

    def __init__(self, make: Callable[[Callable[[GrpcConnection], None]], GrpcConnection]) -> None:
        """`make` makes the protocol of a connection, given what to call when it is lost."""
        self._make = make
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections: set[GrpcConnection] = set()
        self.tls: ssl.SSLContext | None = None
        self.port = 0

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Listen. With port 0 the system chooses one. Raises OSError."""
        self.tls = tls
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            if port == 0 and self.port:  # `localhost` is two addresses: one port for both
                address = (address[0], self.port, *address[2:])
            listening = socket.socket(family, kind, protocol)
            self._sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(BACKLOG)
            self.port = listening.getsockname()[1]
            self._go(self._accept(listening))
        self._go(self._sweep())

    def _go(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as e:  # no descriptor is left; those who wait are taken later
                log.warning("no connection can be accepted: %s", e, extra={"cause": repr(e)})
                await asyncio.sleep(1)
                continue
            accepted.setblocking(False)
            with contextlib.suppress(OSError):  # asyncio sets it only on sockets that were made with a protocol
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._go(self._take(accepted))

    async def _take(self, accepted: socket.socket) -> None:
        """Look at the first byte, and hand the connection over."""
        loop = asyncio.get_running_loop()
        try:
            first = await asyncio.wait_for(_peek(accepted), FIRST_BYTE_S)
            tls = self.tls if first == TLS_HANDSHAKE else None
            if first == TLS_HANDSHAKE and tls is None:
                text = "a client wants TLS, and this server has none: start it with --tls-dev"
                log.warning(text, extra={"port": self.port})
            if first is None or (first == TLS_HANDSHAKE and tls is None):
                accepted.close()
                return
            await loop.connect_accepted_socket(
                self._connection, accepted, ssl=tls, ssl_handshake_timeout=HANDSHAKE_S if tls else None
            )
        except (OSError, TimeoutError, ssl.SSLError) as e:
            accepted.close()
            log.info("a connection was not taken: %s", e or type(e).__name__, extra={"cause": repr(e)})
        except BaseException:
            accepted.close()
            raise

    def _connection(self) -> GrpcConnection:
        made = self._make(self.connections.discard)
        self.connections.add(made)
        return made

    async def _sweep(self) -> None:
        """Find clients that are gone without a word, and connections that are not used."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now_s = time.monotonic()
            for connection in tuple(self.connections):
                silent_s = now_s - connection.heard_s
                if silent_s > GONE_S:
                    connection.abort()
                elif silent_s > SILENT_S:
                    connection.ping()
                if not connection.calls and now_s - connection.used_s > IDLE_S:
                    connection.go_away()
                    connection.close()

    def stop_accepting(self) -> None:
        for listening in self._sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
            listening.close()
        self._sockets = []
        for task in tuple(self._tasks):
            task.cancel()

    async def close(self) -> None:
        """Close every connection, and wait until they are closed."""
        self.stop_accepting()
        for connection in tuple(self.connections):
            connection.go_away()
            connection.close()
        for _ in range(100):
            if not self.connections:
                return
            await asyncio.sleep(0.01)
        for connection in tuple(self.connections):
            connection.abort()


async def _peek(accepted: socket.socket) -> int | None:
    """The first byte, which stays there; None if the client closed."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            data = accepted.recv(1, socket.MSG_PEEK)
            return data[0] if data else None
        except BlockingIOError:
            pass
        readable: asyncio.Future[None] = loop.create_future()
        loop.add_reader(accepted.fileno(), _resolve, readable)
        try:
            await readable
        finally:
            loop.remove_reader(accepted.fileno())


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
