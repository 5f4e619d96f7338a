"""`flightlog demo`: run both stages of the demo, the second one only if Spark is installed."""

from __future__ import annotations

import json
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ..demo import store_stage
from ..demo.telling import QuietTeller, Teller
from .arguments import AsJson


def demo(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A new or empty folder; else a temporary one.", show_default=False, readable=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put orders, kill their writer, recover, verify, read; then scan it all with Spark. Half a minute."""
    place = folder or Path(tempfile.mkdtemp(prefix="flightlog-demo-"))
    tell = QuietTeller() if as_json else Teller()
    code = store_stage.run(place, tell)
    if all(find_spec(name) for name in ("pyspark", "pyarrow")):
        from ..demo import spark_stage

        code = code or spark_stage.run(place, tell)
    else:
        tell.end("The other half scans these stores with Spark: pip install 'flightlog[spark]' (about 550 MB)")
    if isinstance(tell, QuietTeller):
        steps = [{"text": text, "results": results} for text, results in tell.steps]
        print(json.dumps({"folder": str(place), "steps": steps}, indent=2))
    raise typer.Exit(code)
