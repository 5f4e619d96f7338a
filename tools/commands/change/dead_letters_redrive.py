"""`flightlog dead-letters redrive PATH GROUP`: bring a consumer group's dead letters back."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ....consume.retry.redrive import stored_plan
from ....index.filter.sql_filter import sql
from ....store.disk.disk import RealDisk
from ...output import Column, Output
from ...words import count_text, printable
from ..arguments import AsJson, Group, Settings, StorePath, Write, open_view
from .opening import open_to_change


def dead_letters_redrive(
    path: StorePath,
    group: Group,
    to: Annotated[str | None, typer.Option(help="A topic for all; otherwise the origin of each.")] = None,
    where: Annotated[str | None, typer.Option(help='A SQL92 filter on their properties: "amount > 100".')] = None,
    settings: Settings = None,
    write: Write = False,
    as_json: AsJson = False,
) -> None:
    """Show which dead letters of a consumer group would be redriven. Puts copies only with --write, each once."""
    chosen = None if where is None else sql(where)
    with open_view(path, settings) as view:
        found = stored_plan(RealDisk(), view, group, to, chosen)
    if write:
        with open_to_change(path, settings) as store:
            found = store.redrive(group, to=to, where=chosen)
    if as_json:
        print(
            json.dumps(
                {"is_written": write, "group": group, "messages": len(found), "by_topic": found.by_topic}, indent=2
            )
        )
        return
    output = Output()
    rows = [[f"{count:,}", printable(topic)] for topic, count in sorted(found.by_topic.items())]
    output.table("Dead letters", [Column("count", True), Column("to topic")], rows)
    what = count_text(len(found), "dead letter")
    output.line(f"redriven: {what}" if write else f"to be redriven: {what}. Redrive them with --write")
