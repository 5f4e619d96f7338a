"""Arguments shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...store.settings import StoreSettings

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
    typer.Option("--settings", help="A broker.conf with the settings of the store.", show_default=False),
]


def settings_of(conf: Path | None) -> StoreSettings:
    """The settings that the `broker.conf` of `Settings` gives, or the defaults. Raises InvalidSettingsError."""
    return StoreSettings() if conf is None else StoreSettings.from_broker_conf(conf)
