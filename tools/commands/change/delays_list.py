"""`flightlog delays list PATH`: which messages wait for their delivery."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ....engine.delay.waiting_delays import waiting_delays
from ...output import Column, Output
from ...records.fields import iso_time
from ...words import count_text, printable, time_text
from ..arguments import AsJson, Settings, StorePath, open_view, settings_of


def delays_list(
    path: StorePath,
    topic: Annotated[str | None, typer.Option(help="Those for this topic alone.", show_default=False)] = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """List the messages that wait for their delivery, by delay level or timer. Changes nothing."""
    opened = settings_of(settings, path)
    with open_view(path, settings) as view:
        found = [each for each in waiting_delays(view, opened) if topic in (None, each.topic)]
    if as_json:
        listed = [
            {
                "deliver_at": iso_time(each.deliver_at_ms),
                "level": each.level,
                "topic": each.topic,
                "uniq_key": each.uniq_key,
                "message_id": each.message.message_id,
                "body_size": len(each.message.body),
            }
            for each in found
        ]
        print(json.dumps(listed, indent=2))
        return
    output = Output()
    columns = [Column("due"), Column("by"), Column("topic"), Column("uniq key")]
    rows = [
        [
            *(time_text(each.deliver_at_ms), "timer" if each.level is None else f"level {each.level}"),
            *(printable(each.topic), printable(each.uniq_key)),
        ]
        for each in found
    ]
    output.table("Waiting", columns, rows)
    timers = sum(each.level is None for each in found)
    output.line(f"{count_text(len(found), 'message')} waiting: {len(found) - timers:,} by level, {timers:,} by timer")
