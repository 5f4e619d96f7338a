"""`flightlog group`: the commands that change consumer groups."""

from __future__ import annotations

import typer

from .group_commit import group_commit
from .group_delete import group_delete
from .group_reset import group_reset

app = typer.Typer(name="group", help="Change consumer groups: their offsets, or delete them.", no_args_is_help=True)
app.command("commit")(group_commit)
app.command("reset")(group_reset)
app.command("delete")(group_delete)
