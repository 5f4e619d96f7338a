"""`flightlog delays cancel PATH TOPIC UNIQ_KEY`: have timers not be delivered."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ....engine.delay.waiting_delays import waiting_delays
from ....store.timer_errors import UnknownTimerError
from ...output import Output
from ...records.fields import iso_time
from ...words import printable, time_text
from ..arguments import AsJson, Settings, StorePath, Write, open_view, settings_of
from .opening import open_to_change
from .topic.fields import TopicName


def delays_cancel(
    path: StorePath,
    topic: TopicName,
    uniq_key: Annotated[
        str, typer.Argument(help="The uniq key of the timer: `delays list` has it.", show_default=False)
    ],
    settings: Settings = None,
    write: Write = False,
    as_json: AsJson = False,
) -> None:
    """Show the timers of a uniq key. Cancels them only with --write. Not for delay levels."""
    opened = settings_of(settings, path)
    with open_view(path, settings) as view:
        found = [each for each in waiting_delays(view, opened) if (each.topic, each.uniq_key) == (topic, uniq_key)]
    due = [each.deliver_at_ms for each in found if each.level is None]
    if not due:
        seen = "found it with a delay level" if found else "found no timer of it that waits"
        raise UnknownTimerError(topic, uniq_key, seen, "a timer: `flightlog delays list` shows them")
    if write:
        with open_to_change(path, settings) as store:
            for deliver_at_ms in due:
                store.cancel_timer(topic, uniq_key, deliver_at_ms)
            store.flush()
    if as_json:
        print(
            json.dumps(
                {"is_written": write, "topic": topic, "uniq_key": uniq_key, "deliver_at": [iso_time(ms) for ms in due]},
                indent=2,
            )
        )
        return
    text = f"{printable(topic)} {printable(uniq_key)}, due {', '.join(map(time_text, due))}"
    Output().line(f"cancelled: {text}" if write else f"to be cancelled: {text}. Cancel it with --write")
