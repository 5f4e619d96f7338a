"""`flightlog serve PATH...`: stores for RocketMQ's own clients."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from ...store.errors import MissingExtraError
from ..records.json_log import JsonFormatter


def serve(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="The folder of a store; several are several brokers.",
            show_default=False,
            readable=False,
        ),
    ],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: one that is free.")] = 8081,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:QUEUES[:TYPE]", help="A topic that each store has, as orders:8:fifo. Repeatable."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:TYPE", help="A group that receives in order, such as billing:fifo. Repeatable."),
    ] = None,
    auto_create: Annotated[
        bool, typer.Option("--auto-create/--no-auto-create", help="Make a topic that a client asks for.")
    ] = True,
    advertise: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="What clients are told to dial; otherwise what they dialled."),
    ] = None,
    tls_dev: Annotated[
        bool, typer.Option("--tls-dev", help="TLS, too, on the same port, with a certificate made for development.")
    ] = False,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TLS, too, on the same port, with this certificate chain (PEM)."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The key of --tls-cert (PEM), if it is not in the same file.")
    ] = None,
    acl: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Who may do what: RocketMQ's plain_acl.yml. Changes count at once."),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen where other machines reach it, with neither --acl nor TLS."),
    ] = False,
    remoting: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Speak RocketMQ's remoting protocol, too, for 4.x clients and mqadmin: on this port, as 9876, and "
            "those behind it, one for each further store.",
        ),
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Answer /metrics (Prometheus), /health and /ready by HTTP on this port, such as 5557.",
        ),
    ] = None,
    ui: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Show topics, groups and messages to people, by HTTP on this port, such as 8080. The link is logged.",
        ),
    ] = None,
    ui_write: Annotated[
        bool,
        typer.Option("--ui-write", help="Have that page redrive, reset offsets and cancel delays; it asks before."),
    ] = False,
    sync_flush: Annotated[
        bool, typer.Option("--sync-flush", help="Answer a send once its message is on the disk, not before.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each call.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Log JSON, an object a line, instead of text.")] = False,
) -> None:
    """Serve stores to RocketMQ's clients until SIGTERM or Ctrl-C. Makes a store that is not there."""
    try:
        from ...serve.program import ServeOptions, run  # asyncio and protobuf, which other commands do without
    except ImportError as e:
        raise MissingExtraError("serve", f"serving RocketMQ's clients (no module {e.name} here)") from e
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(JsonFormatter() if as_json else text)
    logging.basicConfig(handlers=[log], level=logging.INFO)
    if verbose:
        logging.getLogger("flightlog.serve.access").setLevel(logging.DEBUG)
    run(
        ServeOptions(
            tuple(paths),
            host=host,
            port=port,
            topics=tuple(topic or ()),
            groups=tuple(group or ()),
            auto_create=auto_create,
            advertise=advertise,
            tls_dev=tls_dev,
            tls_cert=tls_cert,
            tls_key=tls_key,
            acl=acl,
            insecure=insecure,
            remoting=remoting,
            metrics=metrics,
            ui=ui,
            ui_write=ui_write,
            sync_flush=sync_flush,
        )
    )
