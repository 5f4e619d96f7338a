"""`flightlog dead-letters`: the commands for messages that a consumer group gave up."""

from __future__ import annotations

import typer

from .dead_letters_list import dead_letters_list
from .dead_letters_redrive import dead_letters_redrive

app = typer.Typer(
    name="dead-letters", help="List the dead letters of consumer groups, and bring them back.", no_args_is_help=True
)
app.command("list")(dead_letters_list)
app.command("redrive")(dead_letters_redrive)
