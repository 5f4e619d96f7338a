"""`flightlog delays`: the commands for messages that wait for their delivery."""

from __future__ import annotations

import typer

from .delays_cancel import delays_cancel
from .delays_list import delays_list

app = typer.Typer(name="delays", help="List delayed messages, and cancel timers.", no_args_is_help=True)
app.command("list")(delays_list)
app.command("cancel")(delays_cancel)
