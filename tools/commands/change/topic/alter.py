"""`flightlog topic alter PATH TOPIC`: change a topic's queues, permissions, order or attributes."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Annotated

import typer

from .....engine.topics.topic_admin import topic_changes
from .....store.errors import TopicNotFoundError
from ....output import Output
from ...arguments import AsJson, Settings, StorePath, Write, open_view
from ..opening import open_to_change
from .fields import (
    Attributes,
    Order,
    Perm,
    Queues,
    ReadQueues,
    TopicName,
    WriteQueues,
    attributes_of,
    perm_of,
    topic_text,
)


def topic_alter(
    path: StorePath,
    name: TopicName,
    queues: Queues = None,
    read_queues: ReadQueues = None,
    write_queues: WriteQueues = None,
    perm: Perm = None,
    order: Order = None,
    attribute: Attributes = None,
    allow_unread: Annotated[
        bool, typer.Option("--allow-unread", help="Also if a group has unread messages in queues that are cut off.")
    ] = False,
    settings: Settings = None,
    write: Write = False,
    as_json: AsJson = False,
) -> None:
    """Show what a topic is, and what it would be. Changes it only with --write. Attributes replace all there were."""
    bits = None if perm is None else perm_of(perm)
    attributes = None if attribute is None else attributes_of(attribute)
    with open_view(path, settings) as view:
        before = view.topic(name)
    if before is None:
        raise TopicNotFoundError(path, name, "it cannot be changed")
    after = replace(before, **topic_changes(name, queues, read_queues, write_queues, bits, order, attributes))
    if write:
        with open_to_change(path, settings) as store:
            after = store.update_topic(
                *(name, queues),
                read_queue_count=read_queues,
                write_queue_count=write_queues,
                perm=bits,
                order=order,
                attributes=attributes,
                allow_unread=allow_unread,
            )
    if as_json:
        print(json.dumps({"is_written": write, "before": asdict(before), "topic": asdict(after)}, indent=2))
        return
    output = Output()
    output.line(f"was: {topic_text(before)}")
    text = topic_text(after)
    output.line(f"is: {text}" if write else f"to be: {text}. Change it with --write")
