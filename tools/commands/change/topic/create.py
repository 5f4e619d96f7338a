"""`flightlog topic create PATH TOPIC`: create a topic."""

from __future__ import annotations

import json
from dataclasses import asdict

from .....engine.topics.topic_admin import created_topic
from .....store.errors import TopicExistsError
from .....store.topic import READ_WRITE
from ....output import Output
from ...arguments import AsJson, Settings, StorePath, Write, open_view, settings_of
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


def topic_create(
    path: StorePath,
    name: TopicName,
    queues: Queues = None,
    read_queues: ReadQueues = None,
    write_queues: WriteQueues = None,
    perm: Perm = None,
    order: Order = None,
    attribute: Attributes = None,
    settings: Settings = None,
    write: Write = False,
    as_json: AsJson = False,
) -> None:
    """Show the topic that would be created. Creates it only with --write."""
    bits = READ_WRITE if perm is None else perm_of(perm)
    attributes = None if attribute is None else attributes_of(attribute)
    opened = settings_of(settings, path)
    with open_view(path, settings) as view:
        if view.topic(name) is not None:
            raise TopicExistsError(f"{path}: there is a topic {name!r} already. Change it with `flightlog topic alter`")
    topic = created_topic(
        *(opened.default_queue_count, name, queues, read_queues, write_queues, bits, bool(order), attributes)
    )
    if write:
        with open_to_change(path, settings) as store:
            topic = store.create_topic(
                *(name, queues),
                read_queue_count=read_queues,
                write_queue_count=write_queues,
                perm=bits,
                order=bool(order),
                attributes=attributes,
            )
    if as_json:
        print(json.dumps({"is_written": write, "topic": asdict(topic)}, indent=2))
        return
    text = topic_text(topic)
    Output().line(f"created: {text}" if write else f"to be created: {text}. Create it with --write")
