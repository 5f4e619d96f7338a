"""The program `flightlog serve`: from its arguments to its last log line."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..consume.store import Store, open_store
from ..store.errors import FlightlogError, InvalidArgumentError, MissingExtraError, UsageError
from ..store.settings import FlushMode, StoreSettings
from ..store.state.progress import FLIGHTLOG_FOLDER
from .access.acl_file import AclFile
from .arguments import (
    GroupArgument,
    TopicArgument,
    broker_names,
    check_loopback,
    check_metrics,
    checked_address,
    is_loopback,
    store_host,
)
from .brokers.broker import Broker
from .calls.clients import ConnectedClient
from .http2.certificates import browser_tls, development_tls
from .http2.limits import raise_file_limit
from .http2.own_certificate import OwnCertificate
from .remoting.answers.directory import Directory
from .remoting.server import RemotingServer
from .server import Server

if TYPE_CHECKING:
    from .page.page import Page
    from .page.site import Opened

log = logging.getLogger("flightlog.serve")

YOUNG_OBJECTS = 5_000
"""After so many new objects the collector looks for circles: calls at work have more than Python's 700 at any time, and
were looked at again and again, for a tenth of the server's CPU. What a call has is freed without the collector."""


@dataclass(frozen=True)
class ServeOptions:
    """See the command's help."""

    paths: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = 8081
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    auto_create: bool = True
    advertise: str | None = None
    tls_dev: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    acl: Path | None = None
    insecure: bool = False
    remoting: int | None = None
    metrics: int | None = None
    ui: int | None = None
    ui_write: bool = False
    sync_flush: bool = False
    settings: StoreSettings | None = None


def run(options: ServeOptions) -> None:
    """Open the stores and serve them until a SIGTERM or SIGINT. Raises InvalidArgumentError, DiskError and what opening
    raises, if no store can be opened."""
    topics = [TopicArgument.parsed(text) for text in options.topics]
    groups = [GroupArgument.parsed(text) for text in options.groups]
    advertise = None if options.advertise is None else checked_address(options.advertise)
    acl = None if options.acl is None else AclFile(options.acl)
    certificate = _certificate(options)
    if not (options.insecure or options.tls_dev or certificate or acl):
        check_loopback(options.host)
    if options.ui_write and options.ui is None:
        raise InvalidArgumentError("--ui-write", "it", "--ui PORT as well")
    raise_file_limit()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    if options.metrics is not None and not options.insecure:
        check_metrics(options.metrics, options.host)
    brokers = []
    for place, (path, name) in enumerate(zip(options.paths, broker_names(options.paths), strict=True)):
        settings = replace(options.settings or StoreSettings(), broker_name=name)
        if options.remoting:  # tools dial the address that is part of a message id
            settings = replace(settings, store_host=store_host(advertise, options.host, options.remoting + place))
        if options.sync_flush:
            settings = replace(settings, flush_mode=FlushMode.SYNC)
        brokers.append(Broker(name, path, partial(_opened, path, settings, topics, groups)))
    is_ready = threading.Event()
    with _open(brokers), _metrics(brokers, options, is_ready):
        asyncio.run(_serve(brokers, options, advertise, acl, certificate, is_ready))


def _opened(
    path: Path, settings: StoreSettings, topics: Sequence[TopicArgument], groups: Sequence[GroupArgument]
) -> Store:
    """The store with what it is to have."""
    store = open_store(path, settings)
    try:
        for topic in topics:
            topic.make(store)
        for group in groups:
            group.make(store)
    except BaseException:
        store.close()
        raise
    return store


@contextmanager
def _open(brokers: Sequence[Broker]) -> Iterator[None]:
    """Open the stores, and close them at the end of the block. One that cannot be opened is left to be opened later,
    unless that is so of all, or the call is wrong."""
    with ExitStack() as opened:
        failures: list[FlightlogError] = []
        for broker in brokers:
            opened.callback(broker.close)
            try:
                broker.open()
            except UsageError:
                raise
            except FlightlogError as e:
                failures.append(e)
        if len(failures) == len(brokers):
            raise failures[0]
        yield


async def _serve(
    brokers: Sequence[Broker],
    options: ServeOptions,
    advertise: str | None,
    acl: AclFile | None,
    certificate: OwnCertificate | None,
    is_ready: threading.Event,
) -> None:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    refresh = None if certificate is None else certificate.refresh
    server = Server(brokers, advertised=advertise, auto_create=options.auto_create, acl=acl, refresh=refresh)
    tls = _development_tls(options, advertise) if certificate is None else certificate.context
    try:
        port = await server.start(options.host, options.port, tls=tls)
    except OSError as e:
        expected = "an address of this machine, and a port that is free"
        raise InvalidArgumentError("--host and --port", f"{options.host}:{options.port}", f"{expected}: {e}") from e
    kinds = "plaintext and TLS" if tls else "plaintext"
    paths = ", ".join(map(str, options.paths))
    fields = {"path": paths, "port": port}
    if acl is None and not is_loopback(options.host):
        log.warning("whoever reaches this server can read and write everything: it has no --acl", extra=fields)
    log.info("serving %s on %s:%d (%s)", paths, options.host, port, kinds, extra=fields)
    remoting = await _serve_remoting(brokers, options, advertise, acl, tls, server)
    stores = {broker.name: broker.current for broker in brokers}
    page = await _serve_page(stores, options, advertise, certificate, server, remoting)
    is_ready.set()
    await ending.wait()
    is_ready.clear()  # before a port is closed, so that no new client is sent here
    log.info("closing: no more clients are taken", extra=fields)
    await asyncio.gather(*(each.stop() for each in (server, *remoting, page) if each is not None))
    log.info("closed", extra=fields)


@contextmanager
def _metrics(brokers: Sequence[Broker], options: ServeOptions, is_ready: threading.Event) -> Iterator[None]:
    """Answers by HTTP while the block runs, if `--metrics` was given."""
    if options.metrics is None:
        yield
        return
    try:
        from .metrics.endpoint import Endpoint  # prometheus_client, which servers without --metrics do without
    except ImportError as e:
        raise MissingExtraError("serve", f"--metrics (no module {e.name} here)") from e
    try:
        endpoint = Endpoint(brokers, is_ready, options.host, options.metrics)
    except OSError as e:
        expected = f"a port of {options.host} that is free: {e}"
        raise InvalidArgumentError("--metrics", str(options.metrics), expected) from e
    with endpoint:
        fields = {"port": endpoint.port}
        log.info("metrics and health on %s:%d", options.host, endpoint.port, extra=fields)
        yield


def _certificate(options: ServeOptions) -> OwnCertificate | None:
    if options.tls_cert is None:
        if options.tls_key is not None:
            raise InvalidArgumentError("--tls-key", str(options.tls_key), "--tls-cert as well")
        return None
    if options.tls_dev:
        raise InvalidArgumentError("--tls-cert", str(options.tls_cert), "it, or --tls-dev, and not both")
    return OwnCertificate(options.tls_cert, options.tls_key)


async def _serve_remoting(
    brokers: Sequence[Broker],
    options: ServeOptions,
    advertise: str | None,
    acl: AclFile | None,
    tls: ssl.SSLContext | None,
    server: Server,
) -> list[RemotingServer]:
    """A port for each broker, one behind the other."""
    if options.remoting is None:
        return []
    host = None if advertise is None else advertise.rpartition(":")[0].strip("[]")
    directory, found = Directory(), []
    for place, broker in enumerate(brokers):
        remoting = RemotingServer(
            *(broker, directory),
            advertised_host=host,
            auto_create=options.auto_create,
            acl=acl,
            grpc_clients=lambda: server.clients,
        )
        port = options.remoting + place if options.remoting else 0
        try:
            port = await remoting.start(options.host, port, tls=tls)
        except OSError as e:
            expected = f"a port of {options.host} that is free: {e}"
            raise InvalidArgumentError("--remoting", str(port), expected) from e
        fields = {"path": str(broker.path), "port": port, "broker": broker.name}
        log.info("remoting, name server and broker %s, on %s:%d", broker.name, options.host, port, extra=fields)
        found.append(remoting)
    return found


async def _serve_page(
    stores: Mapping[str, Opened],
    options: ServeOptions,
    advertise: str | None,
    certificate: OwnCertificate | None,
    server: Server,
    remoting: Sequence[RemotingServer],
) -> Page | None:
    if options.ui is None:
        return None
    try:
        from .page.page import Page  # aiohttp and jinja2, which servers without --ui do without
    except ImportError as e:
        raise MissingExtraError("ui", f"--ui (no module {e.name} here)") from e

    def connected() -> dict[str, list[ConnectedClient]]:
        found = server.consumers()
        for each in remoting:
            for group, clients in each.consumers().items():
                found.setdefault(group, []).extend(clients)
        return found

    tls = certificate.for_browsers if certificate is not None else None
    if options.tls_dev:
        tls = browser_tls(options.paths[0] / FLIGHTLOG_FOLDER / "tls")
    names = [options.host] + ([] if advertise is None else [advertise.rpartition(":")[0]])
    page = Page(stores, connected=connected, can_write=options.ui_write, hosts=names, is_secure=tls is not None)
    try:
        port = await page.start(options.host, options.ui, tls)
    except OSError as e:
        expected = f"a port of {options.host} that is free: {e}"
        raise InvalidArgumentError("--ui", str(options.ui), expected) from e
    what = "read and write" if options.ui_write else "read-only"
    fields = {"path": ", ".join(map(str, options.paths)), "port": port}
    log.info("page for people (%s): %s", what, page.link(names[-1], port), extra=fields)
    return page


def _development_tls(options: ServeOptions, advertise: str | None) -> ssl.SSLContext | None:
    if not options.tls_dev:
        return None
    names = [options.host] + ([] if advertise is None else [advertise.rpartition(":")[0].strip("[]")])
    folder = options.paths[0] / FLIGHTLOG_FOLDER / "tls"
    context = development_tls(folder, [name for name in names if name not in ("0.0.0.0", "::")])
    log.info("clients may trust %s", folder / "ca.pem", extra={"path": str(folder)})
    return context
