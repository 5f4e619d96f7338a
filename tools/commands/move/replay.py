"""`flightlog replay SOURCE DESTINATION`: put messages again, into a store or to a server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ....consume.store import open_store
from ....engine.read.selection import Selection
from ....serve.client.connect import connect
from ....store.errors import UsageError
from ...output import Output
from ...progress_bar import ProgressBar
from ...transfer.replay_messages import for_server, replay_messages
from ...transfer.sources import as_they_were, read_source
from ...words import count_text, printable, seconds_text
from ..arguments import AsJson, Settings, Write, settings_of
from ..selecting import with_selection
from .importing import Source, SourceSettings


@with_selection
def replay(
    source: Source,
    destination: Annotated[Path | None, typer.Argument(help="The folder of a store.", show_default=False)] = None,
    to_server: Annotated[
        str | None, typer.Option("--connect", help="HOST:PORT of a `flightlog serve` instead.", show_default=False)
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="At most so many messages a second.", show_default="no limit")
    ] = None,
    settings: Settings = None,
    source_settings: SourceSettings = None,
    write: Write = False,
    as_json: AsJson = False,
    *,
    selection: Selection,
) -> None:
    """Count the messages of a file or a store. Puts them again, in their order, only with --write.

    Into a store each goes to the queue that it was in; a server chooses the queue. Queue offsets and store times are
    new. Unlike `import` it starts at the beginning each time.
    """
    if (destination is None) == (to_server is None):
        raise UsageError("replay: expected the folder of a store, or --connect HOST:PORT")
    messages = read_source(source, selection, settings_of(source_settings, source) if source.is_dir() else None)
    with ProgressBar(f"replaying {printable(str(source))}"):
        if not write:
            count = sum(1 for _ in messages)
        elif to_server is not None:
            with connect(to_server) as server:
                count = replay_messages(lambda message: server.put(for_server(message)), messages, rate)
        elif destination is not None:
            opened = replace(settings_of(settings, destination), deliver_delayed=False)
            with open_store(destination, as_they_were(opened)) as store:
                count = replay_messages(store.put, messages, rate)
    to = to_server or str(destination)
    if as_json:
        print(json.dumps({"source": str(source), "to": to, "is_written": write, "messages": count}, indent=2))
        return
    what = f"{count_text(count, 'message')} to {printable(to)}"
    if write:
        Output().line(f"replayed: {what}")
    else:
        takes = "" if rate is None else f", which takes {seconds_text(max(count - 1, 0) / rate)}"
        Output().line(f"to be replayed: {what}{takes}. Replay them with --write")
