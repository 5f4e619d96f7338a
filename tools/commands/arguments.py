"""Arguments shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...engine.read_only import ReadOnlyStore
from ...store.conf.broker_conf import read_broker_conf
from ...store.settings import StoreSettings
from ..inspecting import open_to_inspect

StorePath = Annotated[
    Path,
    # readable=False: an unreadable folder is a store that cannot be read (exit code 3), not a wrong call (2).
    typer.Argument(help="The folder of a store, flightlog's or RocketMQ's.", show_default=False, readable=False),
]

Write = Annotated[bool, typer.Option("--write", help="Do it; otherwise it is only shown. No other writer may be open.")]

Group = Annotated[str, typer.Argument(help="The name of a consumer group.", show_default=False)]

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]

Settings = Annotated[
    Path | None,
    typer.Option(
        "--settings", help="A broker.conf with the settings that the store is opened with here.", show_default=False
    ),
]


def settings_of(conf: Path | None, root: Path) -> StoreSettings:
    """What `--settings` says of how the store at `root` is opened. Raises InvalidSettingsError, with file and line, and
    for a conf with folders of another store's log."""
    return StoreSettings() if conf is None else read_broker_conf(conf).settings_for(root)


def open_view(path: Path, settings: Path | None) -> ReadOnlyStore:
    """The store with these settings, to look at. Raises as `settings_of` and `open_to_inspect`."""
    return open_to_inspect(path, settings=settings_of(settings, path))
