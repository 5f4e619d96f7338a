"""A server in this process, in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import flightlog
from flightlog import Store, StoreSettings
from flightlog.serve.access.acl_file import AclFile
from flightlog.serve.brokers.broker import Broker
from flightlog.serve.server import Server
from flightlog.testing import AheadClock

PATIENCE_S = 240.0


class ServedStore:
    """An open store with its server. It may be stopped and started again, on the same port."""

    def __init__(
        self, path: Path, settings: StoreSettings, tls: ssl.SSLContext | None = None, acl: AclFile | None = None
    ) -> None:
        self.acl = acl
        self.path, self._settings, self._tls = path, settings, tls
        self.clock = AheadClock()
        self.port = 0
        self.auto_create = True
        self._ending: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._thread: threading.Thread | None = None
        self.store: Store
        self.server: Server
        self.broker: Broker

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.store = flightlog.open(self.path, self._settings, clock=self.clock)
        started: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), name="served-store")
        self._thread.start()
        self.port = started.result(PATIENCE_S)

    async def _serve(self, started: Future[int]) -> None:
        ending = asyncio.Event()
        self._ending = asyncio.get_running_loop(), ending
        self.broker = Broker.of(self.store)
        self.server = Server([self.broker], auto_create=self.auto_create, acl=self.acl)
        try:
            started.set_result(await self.server.start(port=self.port, tls=self._tls))
        except BaseException as e:
            started.set_exception(e)
            raise
        await ending.wait()
        await self.server.stop()

    def stop(self) -> None:
        if self._ending is not None and self._thread is not None:
            loop, ending = self._ending
            self._ending = None
            loop.call_soon_threadsafe(ending.set)
            self._thread.join(PATIENCE_S)
            assert not self._thread.is_alive(), "the server does not end"
            self.store.close()


def deadline() -> float:
    """When a test that waits for an event gives up."""
    return time.monotonic() + PATIENCE_S
