"""The remoting port of a store: started, looked after, and stopped."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress

from ...consume.store import Store
from ...store.errors import FlightlogError
from ..access.acl_file import AclFile
from ..calls.clients import ConnectedClient
from ..metrics.traffic import Traffic
from .listener import Listener
from .service import Service

log = logging.getLogger("flightlog.serve")

TEND_S = 1.0
"""How often transactions that are old enough are left to the checks, and clients looked for that are gone."""
DRAIN_S = 5.0
"""How long requests that run are waited for."""


class RemotingServer:
    """Serves an open store, which it does not close. Used in one event loop."""

    def __init__(
        self,
        store: Store,
        *,
        advertised_host: str | None = None,
        auto_create: bool = True,
        acl: AclFile | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """`advertised_host`: what clients are told to dial; None: what they dialled. `acl`: who may do what, which its
        owner refreshes; None: everybody everything. `traffic` counts what they send and receive; None: this server's
        alone."""
        self._traffic = Traffic() if traffic is None else traffic
        self._store, self._advertised_host, self._auto_create, self._acl = store, advertised_host, auto_create, acl
        self._service: Service | None = None
        self._listener: Listener | None = None
        self._tending: asyncio.Task[None] | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 9876, *, tls: ssl.SSLContext | None = None) -> int:
        """Take clients from now on; returns the port, which the system chose if it was 0. Raises OSError."""
        service = Service(
            self._store,
            advertised_host=self._advertised_host,
            auto_create=self._auto_create,
            acl=self._acl,
            traffic=self._traffic,
        )
        listener = Listener(service.handle, service.members.forget)
        self._service, self._listener = service, listener
        await listener.start(host, port, tls)
        self._tending = asyncio.create_task(self._tend(service))
        return listener.port

    async def _tend(self, service: Service) -> None:
        loop, interval_s = asyncio.get_running_loop(), self._store.settings.offset_save_interval_ms / 1000
        save_s = loop.time() + interval_s
        while True:
            await asyncio.sleep(TEND_S)
            service.sweep()
            try:
                await service.off_loop.run(service.leave_due)
                if loop.time() >= save_s:
                    save_s = loop.time() + interval_s
                    await service.off_loop.run(service.save)
            except FlightlogError as e:
                log.warning("the offsets of groups are not saved: %s", e, extra={"cause": repr(e)})

    def consumers(self) -> dict[str, list[ConnectedClient]]:
        """The consumers that are connected, by group. Any thread may ask."""
        service = self._service
        return {} if service is None else service.members.connected()

    async def stop(self, drain_s: float = DRAIN_S) -> None:
        """Take no more clients, let requests that run come to their end, and close."""
        if self._service is None or self._listener is None or self._tending is None:
            return
        service, listener, self._service = self._service, self._listener, None
        listener.stop_accepting()
        service.stop_waiting()
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + drain_s
        while service.running and loop.time() < ends_s:
            await asyncio.sleep(0.01)
        self._tending.cancel()
        with suppress(asyncio.CancelledError):
            await self._tending
        await listener.close()
        service.transactions.served.close()
        with suppress(FlightlogError):  # a store that is poisoned says so elsewhere
            await service.off_loop.run(service.save)
        await loop.run_in_executor(None, service.off_loop.close)
