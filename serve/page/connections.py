"""The connections of browsers: so many at a time, and each asks for something soon."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

log = logging.getLogger("flightlog.serve")

MAX_CONNECTIONS: Final = 256
"""A browser opens six at most."""
FIRST_REQUEST_S: Final = 10.0
"""How long a connection may take until its first request has come whole; also a TLS handshake."""

Make = Callable[[], asyncio.Protocol]


class Connections:
    """Makes the protocol of each connection. In one event loop."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._open: set[_Connection] = set()

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self._make, self._open)

    def note_request(self, transport: asyncio.BaseTransport | None) -> None:
        """A request has come whole."""
        connection = transport.get_protocol() if isinstance(transport, asyncio.Transport) else None
        if isinstance(connection, _Connection):
            connection.stop_waiting()


class _Connection(asyncio.Protocol):
    """Hands everything on to the protocol that `make` makes."""

    def __init__(self, make: Make, all_open: set[_Connection]) -> None:
        self._make, self._open = make, all_open
        self._inner = asyncio.Protocol()
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if len(self._open) >= MAX_CONNECTIONS:
            fields = {"limit": MAX_CONNECTIONS}
            log.warning("a browser is refused: the page has %d connections", MAX_CONNECTIONS, extra=fields)
            transport.abort()
            return
        self._open.add(self)
        self._waiting = asyncio.get_running_loop().call_later(FIRST_REQUEST_S, transport.abort)
        self._inner = self._make()
        self._inner.connection_made(transport)

    def stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def connection_lost(self, error: Exception | None) -> None:
        self.stop_waiting()
        self._open.discard(self)
        self._inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
