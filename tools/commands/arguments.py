"""Arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StorePath = Annotated[
    Path,
    # Without `readable=False` a folder that may not be read would be a wrong call: it is a store that cannot be read.
    typer.Argument(help="The folder of a store, flightlog's or RocketMQ's.", show_default=False, readable=False),
]

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]
