"""`flightlog stats PATH`: how a store is doing, once or again and again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ....engine.read_only import ReadOnlyStore
from ...output import Output
from ...rates import StoreRates, a_minute_ago, rates, sample
from ...records.fields import iso_time
from ..arguments import AsJson, Settings, StorePath, open_view
from .stats_screen import line_of, show, watch_on_screen


def stats(
    path: StorePath,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again and again, until Ctrl-C.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", help="Seconds between two looks with --watch.", min=0.1, max=3600)
    ] = 1.0,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show rates of topics, lag of groups, flush and disk. Takes no lock and changes nothing.

    Rates are those of the last minute; with --watch, from the second look on, those since the look before. --watch is a
    full screen on a terminal, a line a look in a pipe, and an object a line with --json.
    """
    output = Output()
    with open_view(path, settings) as view:
        looks = _looks(view, interval)
        if not watch:
            found = next(looks)
            if as_json:
                print(json.dumps(_as_object(found), indent=2))
            else:
                show(found, output)
        elif as_json or not output.is_terminal:
            for found in looks:
                print(json.dumps(_as_object(found)) if as_json else line_of(found))
                sys.stdout.flush()
        else:
            watch_on_screen(looks)


def _looks(view: ReadOnlyStore, interval_s: float) -> Iterator[StoreRates]:
    before = a_minute_ago(view)
    while True:
        now = sample(view)
        yield rates(view, before, now)
        before = now
        time.sleep(interval_s)
        view.refresh()


def _as_object(found: StoreRates) -> dict[str, Any]:
    sizes, lag = found.statistics.sizes, found.statistics.lag
    return {
        "time": iso_time(found.at_ms),
        "interval_s": round(found.interval_s, 3),
        "messages_per_s": found.messages_per_s,
        "size_per_s": found.size_per_s,
        "log_size": sizes.log_size,
        "disk_free_size": sizes.disk_free_size,
        "flush_behind_size": lag.flush_size,
        "dispatch_behind_size": lag.dispatch_size,
        "topics": [
            {"topic": each.topic, "messages": each.messages, "messages_per_s": each.per_s} for each in found.topics
        ],
        "groups": [{"group": each.group, "lag": each.lag, "messages_per_s": each.per_s} for each in found.groups],
    }
