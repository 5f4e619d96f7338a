"""`flightlog demo`: run both stages of the demo, the second one only if Spark is installed."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ..demo import store_stage


def demo(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A new or empty folder; else a temporary one.", show_default=False, readable=False),
    ] = None,
) -> None:
    """Put orders, kill their writer, recover, verify, read; then scan it all with Spark. Half a minute."""
    place = folder or Path(tempfile.mkdtemp(prefix="flightlog-demo-"))
    code = store_stage.run(place)
    if all(find_spec(name) for name in ("pyspark", "pyarrow")):
        from ..demo import spark_stage

        print()
        code = code or spark_stage.run(place)
    else:
        print("\nThe other half scans these stores with Spark: pip install 'flightlog[spark]' (about 550 MB)")
    raise typer.Exit(code)
