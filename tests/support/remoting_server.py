"""A remoting server in this process, in a thread with an event loop of its own."""

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
from flightlog.tests.support.remoting_client import reserved_port
from flightlog.tests.support.rocketmq_server import ServedStore


class RemotingStore(ServedStore):
    """An open store with its server. Its message ids have the server's own address, as a broker's have."""

    def __init__(
        self, path: Path, settings: StoreSettings, tls: ssl.SSLContext | None = None, acl: AclFile | None = None
    ) -> None:
        with reserved_port() as port:
            super().__init__(path, replace(settings, store_host=("127.0.0.1", port)), tls, acl)
            self.port = port
            self.start()

    async def _serve(self, started: Future[int]) -> None:
        ending = asyncio.Event()
        self._ending = asyncio.get_running_loop(), ending
        server = RemotingServer(Broker.of(self.store), auto_create=self.auto_create, acl=self.acl)
        try:
            started.set_result(await server.start(port=self.port, tls=self._tls))
        except BaseException as e:
            started.set_exception(e)
            raise
        await ending.wait()
        await server.stop()
