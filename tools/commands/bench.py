"""`flightlog bench`: the bench harness of `tools/bench/`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..bench.run import Options, run


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="A twentieth of the messages, two rounds: a smoke test.")
    ] = False,
    rounds: Annotated[
        int | None, typer.Option(help="How often each case is measured; the median counts.", show_default="5")
    ] = None,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Leave the Spark scan out.")] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="Measure in this folder's file system.", show_default="temporary", readable=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of the table.")] = False,
) -> None:
    """Measure put, read, recovery and Spark scan beside what this machine can do at best."""
    raise typer.Exit(run(Options(quick, rounds, no_spark, folder, as_json)))
