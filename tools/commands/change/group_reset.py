"""`flightlog group reset PATH GROUP TOPIC --to WHERE`: have a consumer group go on elsewhere."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from ....consume.group.offset_reset import Target, checked_target, reset_places
from ....engine.topics.offset_table import read_offsets
from ....store.disk.disk import RealDisk
from ....store.errors import TopicNotFoundError
from ....store.format.light_queues import is_light
from ...output import Column, Output
from ...typed_values import EXPECTED, parse_time_ms
from ..arguments import AsJson, Group, Settings, StorePath, Write, open_view
from .opening import open_to_change


def group_reset(
    path: StorePath,
    group: Group,
    topic: Annotated[str, typer.Argument(help="The topic.", show_default=False)],
    to: Annotated[
        str,
        typer.Option(
            help="first, last, a queue offset, a time such as 2026-05-01T12:00:00Z, or 2h for two hours ago.",
            show_default=False,
        ),
    ],
    queue: Annotated[int | None, typer.Option(min=0, help="One queue id; otherwise all queues.")] = None,
    settings: Settings = None,
    write: Write = False,
    as_json: AsJson = False,
) -> None:
    """Show where a consumer group would go on in a topic. Resets its offsets only with --write."""
    target = _target(to)
    before, after = _places(path, settings, group, topic, target, queue)
    if write:
        with open_to_change(path, settings) as store:
            after = store.reset_offset(group, topic, target, queue_id=queue)
    if as_json:
        moved = [{"queue_id": i, "before": before.get(i), "offset": after[i]} for i in after]
        print(json.dumps({"is_written": write, "group": group, "topic": topic, "queues": moved}, indent=2))
        return
    output = Output()
    columns = [Column("queue", True), Column("offset", True), Column("new offset", True)]
    rows = [[str(i), f"{before[i]:,}" if i in before else "none", f"{after[i]:,}"] for i in after]
    output.table("Offsets", columns, rows)
    what = f"{len(after)} queues"
    output.line(f"reset: {what}" if write else f"to be reset: {what}. Reset them with --write")


def _target(to: str) -> Target:
    if to.isascii() and to.isdigit():
        return checked_target(int(to))
    if to in ("first", "last"):
        return checked_target(to)
    timestamp_ms = parse_time_ms("--to", to, f"first, last, a queue offset, {EXPECTED}")
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=max(timestamp_ms, 0))


def _places(
    path: Path, settings: Path | None, group: str, topic: str, target: Target, queue: int | None
) -> tuple[dict[int, int], dict[int, int]]:
    with open_view(path, settings) as view:
        if not is_light(topic) and view.topic(topic) is None:
            raise TopicNotFoundError(path, topic, "its offsets cannot be set")
        before = read_offsets(RealDisk(), path).get(group, {}).get(topic, {})
        return before, reset_places(view, before, topic, target, queue)
