"""The port of gRPC clients, and the connections that came in."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable

from .grpc_connection import GrpcConnection
from .port import Port

FIRST_BYTE_S = 30.0
"""How long a connection may say nothing at all."""
SWEEP_S = 10.0
SILENT_S = 60.0
"""After how long a client that says nothing is asked whether it is there."""
GONE_S = 90.0
"""After how long without an answer it is not."""
IDLE_S = 120.0
"""After how long a connection without a call is closed (`grpcClientIdleTimeMills`)."""


class GrpcListener:
    """In one event loop."""

    def __init__(self, make: Callable[[Callable[[GrpcConnection], None]], GrpcConnection]) -> None:
        """`make` makes the protocol of a connection, given what to call when it is lost."""
        self._make = make
        self._port = Port(self._connection, FIRST_BYTE_S)
        self._sweeping: asyncio.Task[None] | None = None
        self.connections: set[GrpcConnection] = set()

    @property
    def port(self) -> int:
        return self._port.number

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Listen. With port 0 the system chooses one. Raises OSError."""
        await self._port.start(host, port, tls)
        self._sweeping = asyncio.create_task(self._sweep())

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
        self._port.close()
        if self._sweeping is not None:
            self._sweeping.cancel()

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
