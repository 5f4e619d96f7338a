"""`flightlog export PATH OUT`: write messages to a file, one line of JSON each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...output import Output
from ...program import EXIT_FINDINGS
from ...progress_bar import ProgressBar
from ...transfer.export_messages import export_messages
from ...words import count_text, printable
from ..arguments import Settings, StorePath, open_view


def export(
    path: StorePath,
    out: Annotated[Path, typer.Argument(help="The file to make.", show_default=False)],
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic; may be given several times. Otherwise all.", show_default=False)
    ] = None,
    settings: Settings = None,
) -> None:
    """Write messages to a new file of JSON lines, for `flightlog import` or other tools. Changes nothing.

    All that are there when it begins, but those of RocketMQ's own topics unless named. Interrupted, the same command
    continues. Exit code 1: damaged messages were passed over.
    """
    with open_view(path, settings) as view, ProgressBar(f"exporting {printable(str(path))}"):
        result = export_messages(view, out, topic or ())
    continued = ", continuing an interrupted export" if result.is_continued else ""
    output = Output()
    output.line(f"exported: {count_text(result.messages, 'message')} to {printable(str(out))}{continued}")
    if result.skipped:
        output.line(f"passed over: {count_text(result.skipped, 'damaged message')}. `flightlog verify` names them")
        raise typer.Exit(EXIT_FINDINGS)
