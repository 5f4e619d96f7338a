"""A remoting server and one of gRPC in this process, in a thread with an event loop of their own."""

from __future__ import annotations

import asyncio
import ssl
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from flightlog import StoreSettings
from flightlog.serve.access.acl_file import AclFile
from flightlog.serve.brokers.broker import Broker
from flightlog.serve.remoting.server import RemotingServer
from flightlog.serve.server import Server
from flightlog.tests.support.remoting_client import reserved_port
from flightlog.tests.support.rocketmq_server import ServedStore


class RemotingStore(ServedStore):
    """An open store with its servers, of which `address` is remoting's. Its message ids have this one, as a broker's
    have."""

    def __init__(
        self, path: Path, settings: StoreSettings, tls: ssl.SSLContext | None = None, acl: AclFile | None = None
    ) -> None:
        with reserved_port() as port:
            super().__init__(path, replace(settings, store_host=("127.0.0.1", port)), tls, acl)
            self.port, self.grpc_port = port, 0
            self.start()

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    async def _serve(self, started: Future[int]) -> None:
        ending = asyncio.Event()
        self._ending = asyncio.get_running_loop(), ending
        self.broker = Broker.of(self.store)
        self.server = Server([self.broker], auto_create=self.auto_create, acl=self.acl)
        remoting = RemotingServer(
            self.broker, auto_create=self.auto_create, acl=self.acl, grpc_clients=lambda: self.server.clients
        )
        try:
            self.grpc_port = await self.server.start(port=self.grpc_port, tls=self._tls)
            started.set_result(await remoting.start(port=self.port, tls=self._tls))
        except BaseException as e:
            started.set_exception(e)
            raise
        await ending.wait()
        await self.server.stop()
        await remoting.stop()
