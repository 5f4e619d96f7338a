"""`flightlog group delete PATH GROUP`: delete a consumer group's offsets and settings."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ....consume.group.group_errors import GroupNotFoundError
from ....consume.group.stored_groups import stored_groups
from ....store.disk.disk import RealDisk
from ...output import Output
from ...words import count_text, printable
from ..arguments import AsJson, Group, Settings, StorePath, Write, open_view
from .opening import open_to_change


def group_delete(
    path: StorePath,
    group: Group,
    with_topics: Annotated[
        bool, typer.Option("--with-topics", help="Also its retry topics and dead letters, with their messages.")
    ] = False,
    settings: Settings = None,
    write: Write = False,
    as_json: AsJson = False,
) -> None:
    """Show what a consumer group has in a store. Deletes it only with --write."""
    with open_view(path, settings) as view:
        found = stored_groups(RealDisk(), path, view.queues(), include_system=True).get(group)
    if write:
        with open_to_change(path, settings) as store:
            store.delete_group(group, with_topics=with_topics)
    elif found is None:
        raise GroupNotFoundError(path, group)
    lag, topics = (found.lag, len(found.topics)) if found is not None else (0, 0)
    if as_json:
        print(json.dumps({"is_written": write, "group": group, "topics": topics, "lag": lag}, indent=2))
        return
    text = f"group {printable(group)}: offsets in {count_text(topics, 'topic')}, lag {lag:,}"
    Output().line(f"deleted: {text}" if write else f"to be deleted: {text}. Delete it with --write")
