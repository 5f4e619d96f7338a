"""The remoting port of a broker: started, looked after, and stopped."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress

from ...store.errors import FlightlogError
from ..access.acl_file import AclFile
from ..brokers.broker import Broker
from ..calls.clients import Clients, ConnectedClient
from .answers.directory import Directory
from .listener import RemotingListener
from .service import RemotingService

log = logging.getLogger("flightlog.serve")

TEND_S = 1.0
"""How often transactions that are old enough are left to the checks, and clients looked for that are gone."""
DRAIN_S = 5.0
"""How long requests that run are waited for."""


class RemotingServer:
    """Serves a broker while it is up: the port is closed while it is away. Used in one event loop."""

    def __init__(
        self,
        broker: Broker,
        directory: Directory | None = None,
        *,
        advertised_host: str | None = None,
        auto_create: bool = True,
        acl: AclFile | None = None,
        grpc_clients: Callable[[], Clients | None] = lambda: None,
    ) -> None:
        """`directory`: where the other brokers are that routes name. `advertised_host`: what clients are told to dial;
        None: what they dialled. `acl`: who may do what, which its owner refreshes; None: everybody everything.
        `grpc_clients`: tools may ask those as well."""
        self._broker, self._directory = broker, directory or Directory()
        self._advertised_host, self._auto_create, self._acl = advertised_host, auto_create, acl
        self._grpc_clients = grpc_clients
        self._host, self._port = "", 0
        self._tls: ssl.SSLContext | None = None
        self._service: RemotingService | None = None
        self._listener: RemotingListener | None = None
        self._tending: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 9876, *, tls: ssl.SSLContext | None = None) -> int:
        """Take clients from now on; returns the port, which the system chose if it was 0. Of a broker that is away it
        is opened once that is up. Raises OSError."""
        self._host, self._port, self._tls = host, port, tls
        if self._broker.is_up:
            await self._begin()
        if self._broker.comes_back:
            self._watching = asyncio.create_task(self._watch())
        return self._port

    async def _watch(self) -> None:
        """End with a broker that is lost, and begin again with one that is back."""
        while True:
            await asyncio.sleep(TEND_S)
            if self._service is not None and not (self._broker.is_up and self._service.store is self._broker.store):
                await self._end(drain_s=0)
            if self._service is None and self._broker.is_up:
                try:
                    await self._begin()
                except OSError as e:
                    log.error("remoting of broker %s has no port: %s", self._broker.name, e, extra={"cause": repr(e)})

    async def _begin(self) -> None:
        """Raises OSError."""
        service = RemotingService(
            self._broker,
            self._directory,
            advertised_host=self._advertised_host,
            auto_create=self._auto_create,
            acl=self._acl,
            grpc_clients=self._grpc_clients,
        )
        listener = RemotingListener(service.handle, service.members.forget)
        await listener.start(self._host, self._port, self._tls)
        self._service, self._listener, self._port = service, listener, listener.port
        self._directory.note(self._broker, listener.port)
        self._tending = asyncio.create_task(self._tend(service))

    async def _tend(self, service: RemotingService) -> None:
        loop, interval_s = asyncio.get_running_loop(), service.store.settings.offset_save_interval_ms / 1000
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
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        await self._end(drain_s)

    async def _end(self, drain_s: float) -> None:
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
