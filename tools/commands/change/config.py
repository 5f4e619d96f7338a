"""`flightlog config`: the settings that a store keeps itself."""

from __future__ import annotations

import typer

from .config_set import config_set
from .config_show import config_show

app = typer.Typer(name="config", help="Show and set what a store keeps of its settings.", no_args_is_help=True)
app.command("show")(config_show)
app.command("set")(config_set)
