"""A server: a store, its service, and the port on which clients reach it."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress

from ..consume.store import Store
from ..store.errors import FlightlogError
from .access.acl_file import AclFile
from .calls.clients import ConnectedClient
from .calls.service import Service
from .http2.grpc_connection import GrpcConnection
from .http2.limits import HeldBytes
from .http2.listener import Listener
from .metrics.traffic import Traffic

log = logging.getLogger("flightlog.serve")

TEND_S = 1.0
DRAIN_S = 5.0
"""How long calls that run, and acknowledgements of messages that were handed out, are waited for."""
QUIET_S = 0.2
"""After how long without a call there are no more to come."""


class Server:
    """Serves an open store, which it does not close. Used in one event loop."""

    def __init__(
        self,
        store: Store,
        *,
        advertised: str | None = None,
        auto_create: bool = True,
        acl: AclFile | None = None,
        refresh: Callable[[], None] | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """`advertised`: the address that clients are told, `host:port`; None: the one that they dialled. `acl`: who
        may do what; None: everybody everything. `refresh` is called once a second, by a thread. `traffic` counts
        what clients send and receive; None: this server's alone."""
        self.traffic = Traffic() if traffic is None else traffic
        self._refresh = refresh
        self._store, self._advertised, self._auto_create, self._acl = store, advertised, auto_create, acl
        self._service: Service | None = None
        self._listener: Listener | None = None
        self._tending: asyncio.Task[None] | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 8081, *, tls: ssl.SSLContext | None = None) -> int:
        """Take clients from now on; returns the port, which the system chose if it was 0. Raises OSError."""
        service = Service(
            self._store,
            advertised=self._advertised,
            auto_create=self._auto_create,
            acl=self._acl,
            traffic=self.traffic,
        )
        held = HeldBytes()
        listener = Listener(lambda on_lost: GrpcConnection(service.handle, on_lost, held))
        self._service, self._listener = service, listener
        await listener.start(host, port, tls)
        self._tending = asyncio.create_task(self._tend(service))
        return listener.port

    async def _tend(self, service: Service) -> None:
        while True:
            await asyncio.sleep(TEND_S)
            service.sweep()
            try:
                await service.off_loop.run(service.tend)
                if self._refresh is not None:
                    await service.off_loop.run(self._refresh)
            except FlightlogError as e:
                log.warning("the store is not looked after: %s", e, extra={"cause": repr(e)})

    @property
    def waiting_count(self) -> int:
        """Receives that wait for a message now."""
        return 0 if self._service is None else len(self._service.polls.waiting)

    def consumers(self) -> dict[str, list[ConnectedClient]]:
        """The consumers that are connected, by group. Any thread may ask."""
        service = self._service
        return {} if service is None else service.clients.consumers()

    async def stop(self, drain_s: float = DRAIN_S) -> None:
        """Take no more clients, answer the receives that wait, let calls that run come to their end, and close."""
        if self._service is None or self._listener is None or self._tending is None:
            return
        service, listener, self._service = self._service, self._listener, None
        listener.stop_accepting()
        service.polls.close()
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + drain_s
        quiet_s = loop.time()
        while listener.connections and loop.time() < ends_s and loop.time() - quiet_s < QUIET_S:
            await asyncio.sleep(0.01)
            if service.running:
                quiet_s = loop.time()
        self._tending.cancel()
        with suppress(asyncio.CancelledError):
            await self._tending
        await listener.close()
        service.transactions.close()
        await loop.run_in_executor(None, service.off_loop.close)
