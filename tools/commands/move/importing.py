"""`flightlog import PATH FILE`: put the messages of an exported file into a store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ....consume.store import open_store
from ....store.settings import FlushMode
from ...output import Column, Output
from ...progress_bar import ProgressBar
from ...transfer.import_messages import import_messages, plan_import
from ...words import count_text, printable
from ..arguments import Settings, StorePath, Write, settings_of


def import_(
    path: StorePath,
    source: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A file that `flightlog export` made.", show_default=False, exists=True),
    ],
    settings: Settings = None,
    write: Write = False,
) -> None:
    """Show which messages a file has. Puts them into a store, new or not, only with --write.

    Each goes to the queue that it was in, behind what is there, with a new queue offset and store time. Interrupted,
    the same command continues and puts none twice.
    """
    with ProgressBar(f"importing {printable(str(source))}"):
        if write:
            opened = replace(settings_of(settings), deliver_delayed=False, flush_mode=FlushMode.ASYNC)  # flushed once
            with open_store(path, opened) as store:
                result = import_messages(store, source)
        else:
            result = plan_import(source)
    output = Output()
    rows = [[f"{count:,}", printable(topic)] for topic, count in sorted(result.by_topic.items())]
    output.table("Messages", [Column("count", True), Column("topic")], rows)
    before = f", {result.found_count:,} more were there" if result.found_count else ""
    what = count_text(sum(result.by_topic.values()), "message") + before
    output.line(f"imported: {what}" if write else f"to be imported: {what}. Import them with --write")
