"""`flightlog topic delete PATH TOPIC`: delete a topic and its queues."""

from __future__ import annotations

import json

from .....store.errors import TopicNotFoundError
from ....output import Output
from ....words import count_text, printable
from ...arguments import AsJson, Settings, StorePath, Write, open_view
from ..opening import open_to_change
from .fields import TopicName


def topic_delete(
    path: StorePath, name: TopicName, settings: Settings = None, write: Write = False, as_json: AsJson = False
) -> None:
    """Show what a topic has. Deletes it, its queues and the offsets of groups in it only with --write.

    The records stay in the log until retention removes their segments, and are found by physical offset.
    """
    with open_view(path, settings) as view:
        if view.topic(name) is None:
            raise TopicNotFoundError(path, name, "it cannot be deleted")
        bounds = [bounds for (topic, _), bounds in view.queues().items() if topic == name]
    if write:
        with open_to_change(path, settings) as store:
            store.delete_topic(name)
    count = sum(end - first for first, end in bounds)
    if as_json:
        print(json.dumps({"is_written": write, "topic": name, "messages": count, "queues": len(bounds)}, indent=2))
        return
    text = f"topic {printable(name)}: {count_text(count, 'message')} in {count_text(len(bounds), 'queue')}"
    Output().line(f"deleted: {text}" if write else f"to be deleted: {text}. Delete it with --write")
