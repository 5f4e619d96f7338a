"""Stores with a server in this process, for tests of programs with RocketMQ's own clients."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ..consume.pop.pop_errors import ExpiredHandleError
from ..consume.store import Store
from ..serve.arguments import broker_names
from ..serve.brokers.broker import Broker
from ..store.errors import DiskError, MissingExtraError, UsageError
from ..store.settings import StoreSettings
from .clock import AheadClock
from .faulty_disk import FaultyDisk
from .popped_handles import PoppedHandles
from .stores import kill, verify_closed

SETTINGS = StoreSettings.small(segment_size=16 << 20)
"""Small files, in which RocketMQ's largest body (4 MiB) finds room."""
REVIVED_MS = 5_000
"""How long after its invisible time a message is redelivered, at the latest."""
PATIENCE_S = 60.0


Folder = str | os.PathLike[str]


class ServedStore:
    """A store, or several, that RocketMQ's 5.x clients reach at `address`. Made by `flightlog.testing.serve`.

    Its server runs in a thread of this process. The test looks into `store`, moves `clock`, and lets `disk` fail. A
    store that a failed sync has poisoned is opened again by the server, as by `flightlog serve`, once `disk` is healed.
    """

    def __init__(
        self,
        store: Store | Folder | Sequence[Folder],
        settings: StoreSettings | None = None,
        *,
        auto_create: bool = True,
        disk: FaultyDisk | None = None,
        clock: AheadClock | None = None,
    ) -> None:
        """See `serve`. Starts nothing yet."""
        self._given = store if isinstance(store, Store) else None
        folders = [store] if isinstance(store, str | os.PathLike) else [] if isinstance(store, Store) else store
        self._paths = [Path(folder) for folder in folders]
        self.path = store.path if isinstance(store, Store) else self._paths[0]
        self._settings, self._auto_create = settings or SETTINGS, auto_create
        self.disk, self.clock = disk or FaultyDisk(), clock or AheadClock()
        self._brokers: list[Broker] = []
        self._handles: dict[Path, PoppedHandles] = {}
        self._numbers = itertools.count(1)
        self._port = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._ending: asyncio.Event
        self._drains = True

    @property
    def address(self) -> str:
        """What clients dial, such as `127.0.0.1:40123`. It stays the same over restarts."""
        return f"127.0.0.1:{self._port}"

    @property
    def store(self) -> Store:
        """The store that is served, the first of several; another object after `restart`, and after it was lost."""
        return self._brokers[0].store

    @property
    def stores(self) -> dict[str, Store]:
        """All that are served, by the names of their folders, which are those of their brokers."""
        return {broker.name: broker.store for broker in self._brokers}

    def start(self) -> None:
        """Open the store and serve it. Raises MissingExtraError without the extra `serve`, and as `flightlog.open`."""
        if self._given is None:
            named = zip(self._paths, broker_names(self._paths), strict=True)
            self._brokers = [Broker(name, path, partial(self._open, name, path)) for path, name in named]
        else:
            self._brokers = [Broker.of(self._given)]
            self._handles[self.path] = PoppedHandles(self._given)
        try:
            for broker in self._brokers:
                broker.open()
            self._start_server()
        except BaseException:
            self._end_stores(is_killed=False)
            raise

    def _open(self, name: str, path: Path) -> Store:
        store = Store.open(path, replace(self._settings, broker_name=name), disk=self.disk, clock=self.clock)
        self._handles[path] = PoppedHandles(store)
        return store

    def _start_server(self) -> None:
        started: Future[int] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="served-store", daemon=True
        )
        self._thread.start()
        self._port = started.result(PATIENCE_S)

    async def _serve(self, started: Future[int]) -> None:
        try:
            from ..serve.server import Server

            server = Server(self._brokers, auto_create=self._auto_create)
            self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
            port = await server.start(port=self._port)
        except ImportError as e:
            missing = MissingExtraError("serve", f"serving RocketMQ's clients (no module {e.name} here)")
            missing.__cause__ = e
            started.set_exception(missing)
            return
        except BaseException as e:
            started.set_exception(e)
            return
        started.set_result(port)
        await self._ending.wait()
        await (server.stop() if self._drains else server.stop(drain_s=0))

    def stop(self, *, is_killed: bool = False) -> None:
        """End the server, then the store, as at SIGTERM; `is_killed`: as `kill -9` would end both."""
        if self._thread is None:
            return
        thread, self._thread, self._drains = self._thread, None, not is_killed
        self._loop.call_soon_threadsafe(self._ending.set)
        thread.join(PATIENCE_S)
        if thread.is_alive():
            raise UsageError(f"the server at {self.address} did not end within {PATIENCE_S:.0f} s: its disk is held?")
        self._end_stores(is_killed=is_killed)

    def _end_stores(self, *, is_killed: bool) -> None:
        for handles in self._handles.values():
            handles.close()
        for broker in self._brokers:
            if is_killed:
                kill(broker.store)
            with suppress(DiskError):  # of a sync that the test made fail
                broker.close()

    def restart(self, *, is_killed: bool = False) -> None:
        """End the server and its store, and start both again at the same address; `is_killed`: as after `kill -9`.

        A store that a failed sync has poisoned is recovered: call `disk.heal()` before. An open store that was given to
        `serve` stays open, and cannot be killed: UsageError.
        """
        if is_killed and self._given is not None:
            raise UsageError("restart: an open store was given to serve, so it cannot be killed: give its folder")
        self.stop(is_killed=is_killed)
        self.start()

    def expire_invisible(self) -> int:
        """End the invisible time of every message that was received from this server and not acknowledged; returns how
        many. They are redelivered within about two seconds. The clock moves by five seconds.

        Messages that were received before a restart are left alone.
        """
        found = 0
        for broker in self._brokers:
            for handle in self._handles[broker.path].take_all():
                with suppress(ExpiredHandleError):
                    broker.store.change_invisible(handle, 1)
                    found += 1
        self.clock.advance(REVIVED_MS)
        return found

    def new_name(self, prefix: str) -> str:
        """A name for a topic or a group that this server did not give before: `orders-1`, `orders-2`."""
        return f"{prefix}-{next(self._numbers)}"

    def close(self) -> None:
        """Heal the disk, end server and store, and verify it. A store that was killed or poisoned is recovered first.
        Raises AssertionError if it is not clean, and as `flightlog.open`."""
        self.disk.heal()
        self.stop()
        for path in self._paths:
            verify_closed(path, self._settings, disk=self.disk, clock=self.clock)
        if self._given is not None and not self._given.is_closed:
            report = self._given.verify()
            assert report.is_clean, "\n".join(map(str, report.findings))


@contextmanager
def serve(
    store: Store | Folder | Sequence[Folder] | None = None,
    settings: StoreSettings | None = None,
    *,
    auto_create: bool = True,
    disk: FaultyDisk | None = None,
    clock: AheadClock | None = None,
) -> Iterator[ServedStore]:
    """Serve a store to RocketMQ's 5.x clients while the block runs, at a free port of 127.0.0.1.

        with flightlog.testing.serve() as rocketmq:
            run_my_program(rocketmq.address)
            assert [message.body for message in rocketmq.store.read("orders")] == [b"created"]

    `store`: None makes a store in a temporary folder, which is removed at the end; a folder is opened, or made; several
    folders are served as several brokers; an open store stays open, and keeps its own disk and clock. `settings`,
    `disk` and `clock` are those of the stores that are opened here; None: small files, a new FaultyDisk and a new
    AheadClock. With `auto_create=False` an unknown topic is TOPIC_NOT_FOUND.

    At the end the disk is healed, server and store are closed, and the store is verified: AssertionError if it is not
    clean. It is not verified if the block raised. Raises MissingExtraError without the extra `serve`, and what
    `flightlog.open` raises.
    """
    if store is None:
        with (
            TemporaryDirectory(prefix="flightlog-") as folder,
            serve(Path(folder) / "store", settings, auto_create=auto_create, disk=disk, clock=clock) as served,
        ):
            yield served
        return
    served = ServedStore(store, settings, auto_create=auto_create, disk=disk, clock=clock)
    served.start()
    try:
        yield served
    except BaseException:
        served.disk.heal()
        served.stop()
        raise
    served.close()
