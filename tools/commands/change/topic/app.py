"""`flightlog topic`: the commands that create, change and delete topics."""

from __future__ import annotations

import typer

from .alter import topic_alter
from .create import topic_create
from .delete import topic_delete

app = typer.Typer(name="topic", help="Create, change and delete topics.", no_args_is_help=True)
app.command("create")(topic_create)
app.command("alter")(topic_alter)
app.command("delete")(topic_delete)
