"""Arguments shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StorePath = Annotated[
    Path,
    # readable=False: an unreadable folder is a store that cannot be read (exit code 3), not a wrong call (2).
    typer.Argument(help="The folder of a store, flightlog's or RocketMQ's.", show_default=False, readable=False),
]

Write = Annotated[bool, typer.Option("--write", help="Do it; otherwise it is only shown. No other writer may be open.")]

Group = Annotated[str, typer.Argument(help="The name of a consumer group.", show_default=False)]

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]
