"""`flightlog trace PATH KEY`: the whole life of a message."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ...output import Column, Output
from ...program import EXIT_FINDINGS
from ...records.fields import fields_of, iso_time
from ...tracing import Step
from ...tracing import trace as steps_of
from ...words import count_text, printable
from ..arguments import AsJson, Settings, StorePath, open_view
from .printing import tell_skipped


def trace(
    path: StorePath,
    key: Annotated[str, typer.Argument(help="A key or uniq key of the message.", show_default=False)],
    as_json: AsJson = False,
    settings: Settings = None,
) -> None:
    """Show every record of a message's life: half, commit, delays, retries, dead letter, and which groups have read it.

    Exit code 1: no record has this key.
    """
    with open_view(path, settings) as view:
        steps = steps_of(view, key)
        if as_json:
            print(json.dumps([_as_object(step) for step in steps], indent=2))
        else:
            _show(steps)
        tell_skipped(view)
    if not steps:
        raise typer.Exit(EXIT_FINDINGS)


def _as_object(step: Step) -> dict[str, object]:
    return {**fields_of(step.message), "what": step.what, "read_by": step.read_by}


def _show(steps: list[Step]) -> None:
    output = Output()
    columns = [Column("stored"), Column("physical offset", True), Column("what"), Column("queue offset")]
    rows = [
        [
            iso_time(step.message.store_timestamp_ms),
            f"{step.message.physical_offset:,}",
            printable("; ".join([step.what, *(_reader_text(group, has) for group, has in step.read_by.items())])),
            printable(f"{step.message.topic}/{step.message.queue_id}@{step.message.queue_offset}"),
        ]
        for step in steps
    ]
    output.table("Records", columns, rows)
    output.line(count_text(len(steps), "record"))


def _reader_text(group: str, has_read: bool) -> str:
    return f"group {group} is {'past' if has_read else 'not past'} it"
