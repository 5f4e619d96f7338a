"""`flightlog export PATH OUT`: write messages to a file, as JSON lines, CSV or Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ....engine.read.selection import Selection
from ...output import Output
from ...program import EXIT_FINDINGS
from ...progress_bar import ProgressBar
from ...transfer.export_messages import FileForm, export_messages
from ...words import count_text, printable
from ..arguments import AsJson, Settings, StorePath, open_view
from ..selecting import with_selection


@with_selection
def export(
    path: StorePath,
    out: Annotated[Path, typer.Argument(help="The file to make.", show_default=False)],
    form: Annotated[
        FileForm | None,
        typer.Option(help="What the file is.", show_default="by its suffix .csv or .parquet, else json"),
    ] = None,
    settings: Settings = None,
    as_json: AsJson = False,
    *,
    selection: Selection,
) -> None:
    """Write messages to a new file, for `flightlog import` or other tools. Changes nothing.

    All that are there when it begins, in the order of the log, with their bodies decompressed. Interrupted, the same
    command continues. Exit code 1: damaged messages were passed over.
    """
    if form is None:
        form = {".csv": FileForm.CSV, ".parquet": FileForm.PARQUET}.get(out.suffix, FileForm.JSON)
    with open_view(path, settings) as view, ProgressBar(f"exporting {printable(str(path))}"):
        result = export_messages(view, out, selection, form)
    if as_json:
        found = {"path": str(out), "form": form.value, "messages": result.messages, "skipped": result.skipped}
        print(json.dumps({**found, "is_continued": result.is_continued}, indent=2))
    else:
        continued = ", continuing an interrupted export" if result.is_continued else ""
        output = Output()
        output.line(f"exported: {count_text(result.messages, 'message')} to {printable(str(out))}{continued}")
        if result.skipped:
            output.line(f"passed over: {count_text(result.skipped, 'damaged message')}. `flightlog verify` names them")
    if result.skipped:
        raise typer.Exit(EXIT_FINDINGS)
