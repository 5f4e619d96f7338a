"""The remoting port, and the connections that came in."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable

from ..http2.port import Port
from .wire.connection import Connection, Handle, Intake

log = logging.getLogger("flightlog.serve")

MAX_CONNECTIONS = 10_000
SWEEP_S = 10.0
IDLE_S = 120.0
"""After how long without a word a connection is closed (`serverChannelMaxIdleTimeSeconds`)."""


class RemotingListener:
    """In one event loop."""

    def __init__(self, handle: Handle, on_lost: Callable[[Connection], None]) -> None:
        self._handle, self._on_lost = handle, on_lost
        self._intake = Intake()
        self._port = Port(self._connection, IDLE_S)
        self._sweeping: asyncio.Task[None] | None = None
        self.connections: set[Connection] = set()

    @property
    def port(self) -> int:
        return self._port.number

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Listen. With port 0 the system chooses one. Raises OSError."""
        await self._port.start(host, port, tls)
        self._sweeping = asyncio.create_task(self._sweep())

    def _connection(self) -> asyncio.Protocol:
        if len(self.connections) >= MAX_CONNECTIONS:
            log.warning("a connection is refused: there are %d", MAX_CONNECTIONS, extra={"port": self.port})
            return _Refusing()
        made = Connection(self._handle, self._lost, self._intake)
        self.connections.add(made)
        return made

    def _lost(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._on_lost(connection)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            oldest_s = time.monotonic() - IDLE_S
            for connection in tuple(self.connections):
                if connection.heard_s < oldest_s and not connection.running_count:
                    connection.abort()

    def stop_accepting(self) -> None:
        self._port.close()
        if self._sweeping is not None:
            self._sweeping.cancel()

    async def close(self) -> None:
        """Close every connection, once it has what was written to it, or after a second."""
        self.stop_accepting()
        for connection in tuple(self.connections):
            connection.close()
        for _ in range(100):
            if not self.connections:
                return
            await asyncio.sleep(0.01)
        for connection in tuple(self.connections):
            connection.abort()


class _Refusing(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
