"""`flightlog group commit PATH GROUP TOPIC QUEUE OFFSET`: set the offset of a group in one queue."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ....engine.topics.offset_table import read_offsets
from ....store.disk.disk import RealDisk
from ....store.errors import TopicNotFoundError
from ....store.format.light_queues import is_light
from ...output import Output
from ...words import printable
from ..arguments import AsJson, Group, Settings, StorePath, Write, open_view
from .opening import open_to_change


def group_commit(
    path: StorePath,
    group: Group,
    topic: Annotated[str, typer.Argument(help="The topic.", show_default=False)],
    queue: Annotated[int, typer.Argument(min=0, help="The queue id.", show_default=False)],
    offset: Annotated[int, typer.Argument(min=0, help="The next queue offset to consume.", show_default=False)],
    settings: Settings = None,
    write: Write = False,
    as_json: AsJson = False,
) -> None:
    """Show a group's offset in one queue. Sets it only with --write, also for a group that is new."""
    with open_view(path, settings) as view:
        if not is_light(topic) and view.topic(topic) is None:
            raise TopicNotFoundError(path, topic, "its offsets cannot be set")
        first, end = view.queue_bounds(topic, queue)
    before = read_offsets(RealDisk(), path).get(group, {}).get(topic, {}).get(queue)
    if write:
        with open_to_change(path, settings) as store:
            store.commit_offset(group, topic, queue, offset)
    if as_json:
        print(
            json.dumps(
                {
                    "is_written": write,
                    "group": group,
                    "topic": topic,
                    "queue_id": queue,
                    "before": before,
                    "offset": offset,
                },
                indent=2,
            )
        )
        return
    was = "none" if before is None else f"{before:,}"
    text = (
        f"group {printable(group)}, topic {printable(topic)}, queue {queue} ({first:,} to {end:,}): {was} -> {offset:,}"
    )
    Output().line(f"committed: {text}" if write else f"to be committed: {text}. Commit it with --write")
