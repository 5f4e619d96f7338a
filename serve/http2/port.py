"""The sockets of one address, for clients with TLS and without: the first byte of a connection tells which.

The byte is looked at and stays in the socket, so asyncio's own TLS takes the connection from its first byte on.
RocketMQ's proxy and its remoting servers (`tls.server.mode=permissive`) do the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine

log = logging.getLogger("flightlog.serve")

TLS_HANDSHAKE = 0x16
"""The first byte of a TLS connection. HTTP/2 begins with `P`, a frame of remoting with 0 or 1."""
HANDSHAKE_S = 30.0
BACKLOG = 1024


class Port:
    """In one event loop."""

    def __init__(self, make: Callable[[], asyncio.Protocol], first_byte_s: float) -> None:
        """`make` makes the protocol of a connection; `first_byte_s`: how long one may say nothing at all."""
        self._make, self._first_byte_s = make, first_byte_s
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.tls: ssl.SSLContext | None = None
        self.number = 0

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Listen. With port 0 the system chooses one. Raises OSError."""
        self.tls = tls
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            if port == 0 and self.number:  # `localhost` is two addresses: one port for both
                address = (address[0], self.number, *address[2:])
            listening = socket.socket(family, kind, protocol)
            self._sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(BACKLOG)
            self.number = listening.getsockname()[1]
            self._go(self._accept(listening))

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
            first = await asyncio.wait_for(_peek(accepted), self._first_byte_s)
            tls = self.tls if first == TLS_HANDSHAKE else None
            if first == TLS_HANDSHAKE and tls is None:
                text = "a client wants TLS, and this server has none: start it with --tls-dev"
                log.warning(text, extra={"port": self.number})
            if first is None or (first == TLS_HANDSHAKE and tls is None):
                accepted.close()
                return
            await loop.connect_accepted_socket(
                self._make, accepted, ssl=tls, ssl_handshake_timeout=HANDSHAKE_S if tls else None
            )
        except (OSError, TimeoutError, ssl.SSLError) as e:
            accepted.close()
            log.info("a connection was not taken: %s", e or type(e).__name__, extra={"cause": repr(e)})
        except BaseException:
            accepted.close()
            raise

    def close(self) -> None:
        """Take no more connections; those that were taken stay."""
        for listening in self._sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
            listening.close()
        self._sockets = []
        for task in tuple(self._tasks):
            task.cancel()


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
