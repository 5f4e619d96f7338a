"""`flightlog import PATH SOURCE`: put the messages of an exported file, or of another store, into a store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ....consume.store import open_store
from ....engine.read.selection import Selection
from ....engine.repair.new_store import check_is_new, make_store
from ....store.settings import FlushMode
from ...output import Column, Output
from ...progress_bar import ProgressBar
from ...transfer.import_messages import ImportResult, import_messages, plan_import
from ...transfer.sources import as_they_were, read_source
from ...words import count_text, printable
from ..arguments import AsJson, Settings, StorePath, Write, settings_of
from ..selecting import with_selection

Source = Annotated[
    Path,
    typer.Argument(
        help="A file that `flightlog export` or `cat` wrote as json, csv or parquet; or the folder of a store.",
        show_default=False,
        exists=True,
    ),
]
SourceSettings = Annotated[
    Path | None,
    typer.Option("--source-settings", help="As --settings, for a SOURCE that is a store.", show_default=False),
]


@with_selection
def import_(
    path: StorePath,
    source: Source,
    keep_offsets: Annotated[
        bool, typer.Option("--keep-offsets", help="Keep queue offsets and store times. PATH must be empty or new.")
    ] = False,
    settings: Settings = None,
    source_settings: SourceSettings = None,
    write: Write = False,
    as_json: AsJson = False,
    *,
    selection: Selection,
) -> None:
    """Show which messages a file or a store has. Puts them into a store, new or not, only with --write.

    Each goes to the queue that it was in, behind what is there, with a new queue offset and store time. Interrupted,
    the same command continues and puts none twice. The selection is for a SOURCE that is a store.
    """
    messages = read_source(source, selection, settings_of(source_settings, source) if source.is_dir() else None)
    ours = settings_of(settings, path)
    if keep_offsets:
        check_is_new(path)
    with ProgressBar(f"importing {printable(str(source))}"):
        if not write:
            result = plan_import(messages)
        elif keep_offsets:
            result = ImportResult(make_store(path, messages, ours))
        else:
            opened = replace(ours, deliver_delayed=False, flush_mode=FlushMode.ASYNC)  # flushed once
            with open_store(path, as_they_were(opened)) as store:
                result = import_messages(store, messages, f"{source.resolve()} {selection}")
    if as_json:
        found = {"path": str(path), "source": str(source), "is_written": write, "by_topic": result.by_topic}
        print(json.dumps({**found, "found_count": result.found_count}, indent=2))
        return
    output = Output()
    rows = [[f"{count:,}", printable(topic)] for topic, count in sorted(result.by_topic.items())]
    output.table("Messages", [Column("count", True), Column("topic")], rows)
    before = f", {result.found_count:,} more were there" if result.found_count else ""
    what = count_text(sum(result.by_topic.values()), "message") + before
    output.line(f"imported: {what}" if write else f"to be imported: {what}. Import them with --write")
