"""A server: brokers, their service, and the port on which clients reach them."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence

from ..store.errors import FlightlogError
from .access.acl_file import AclFile
from .brokers.broker import Broker
from .calls.brokers import ServedBroker
from .calls.clients import Clients, ConnectedClient
from .calls.service import GrpcService
from .http2.grpc_connection import GrpcConnection
from .http2.limits import HeldByAddress
from .http2.listener import GrpcListener

log = logging.getLogger("flightlog.serve")

TEND_S = 1.0
OPEN_AGAIN_S = 10.0
"""After how long, at most, it is tried again to open a store."""
DRAIN_S = 5.0
"""How long calls that run, and acknowledgements of messages that were handed out, are waited for."""
QUIET_S = 0.2
"""After how long without a call there are no more to come."""


class Server:
    """Serves brokers, at least one of them open, which it does not close. Used in one event loop.

    One that is lost, or was not opened yet, is opened again if it may be: it is tried after a second, and then after
    twice the time. The others are served as before.
    """

    def __init__(
        self,
        brokers: Sequence[Broker],
        *,
        advertised: str | None = None,
        auto_create: bool = True,
        acl: AclFile | None = None,
        refresh: Callable[[], None] | None = None,
    ) -> None:
        """`advertised`: the address that clients are told, `host:port`; None: the one that they dialled. `acl`: who
        may do what; None: everybody everything. `refresh` is called once a second, by a thread."""
        self._refresh = refresh
        self._brokers, self._advertised, self._auto_create, self._acl = brokers, advertised, auto_create, acl
        self._service: GrpcService | None = None
        self._listener: GrpcListener | None = None
        self._tending: list[asyncio.Task[None]] = []

    async def start(self, host: str = "127.0.0.1", port: int = 8081, *, tls: ssl.SSLContext | None = None) -> int:
        """Take clients from now on; returns the port, which the system chose if it was 0. Raises OSError."""
        service = GrpcService(self._brokers, advertised=self._advertised, auto_create=self._auto_create, acl=self._acl)
        held = HeldByAddress()
        listener = GrpcListener(lambda on_lost: GrpcConnection(service.handle, on_lost, held))
        self._service, self._listener = service, listener
        await listener.start(host, port, tls)
        self._tending = [asyncio.create_task(self._tend(service))]
        self._tending += [asyncio.create_task(self._tend_broker(service, each)) for each in service.brokers]
        return listener.port

    async def _tend(self, service: GrpcService) -> None:
        while True:
            await asyncio.sleep(TEND_S)
            service.sweep()
            try:
                await service.off_loop.run(service.refresh)
                if self._refresh is not None:
                    await service.off_loop.run(self._refresh)
            except FlightlogError as e:
                log.warning("accounts and certificates are not looked after: %s", e, extra={"cause": repr(e)})

    async def _tend_broker(self, service: GrpcService, served: ServedBroker) -> None:
        while True:
            await asyncio.sleep(TEND_S)
            if not served.is_up and served.broker.comes_back:
                await self._open_again(service, served)
            try:
                await served.off_loop.run(served.tend)
            except FlightlogError as e:
                log.warning("broker %s is not looked after: %s", served.name, e, extra={"cause": repr(e)})

    async def _open_again(self, service: GrpcService, served: ServedBroker) -> None:
        """Return once it is open."""
        fields, wait_s, told = {"broker": served.name, "path": str(served.broker.path)}, TEND_S, served.broker.reason
        log.error("broker %s is away: %s", served.name, told, extra=fields)
        while True:
            try:
                await served.off_loop.run(served.open_again)
                break
            except FlightlogError as e:
                if str(e) != told:
                    told = str(e)
                    log.error("broker %s stays away: %s", served.name, told, extra=fields)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, OPEN_AGAIN_S)
        service.note_opened(served)
        log.info("broker %s is back", served.name, extra=fields)

    @property
    def waiting_count(self) -> int:
        """Receives that wait for a message now."""
        return 0 if self._service is None else len(self._service.polls.waiting)

    @property
    def clients(self) -> Clients | None:
        """Those that are connected; None unless it serves."""
        return None if self._service is None else self._service.clients

    def consumers(self) -> dict[str, list[ConnectedClient]]:
        """The consumers that are connected, by group. Any thread may ask."""
        clients = self.clients
        return {} if clients is None else clients.consumers()

    async def stop(self, drain_s: float = DRAIN_S) -> None:
        """Take no more clients, answer the receives that wait, let calls that run come to their end, and close."""
        if self._service is None or self._listener is None:
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
        for task in self._tending:
            task.cancel()
        await asyncio.gather(*self._tending, return_exceptions=True)
        await listener.close()
        await loop.run_in_executor(None, service.close)
