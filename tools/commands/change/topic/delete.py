"""`flightlog topic delete PATH TOPIC`: delete a topic and its queues."""

from __future__ import annotations

from .....store.errors import TopicNotFoundError
from ....output import Output
from ....words import count_text, printable
from ...arguments import Settings, StorePath, Write, open_view
from ..opening import open_to_change
from .fields import TopicName


def topic_delete(path: StorePath, name: TopicName, settings: Settings = None, write: Write = False) -> None:
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
    text = f"topic {printable(name)}: {count_text(count, 'message')} in {count_text(len(bounds), 'queue')}"
    Output().line(f"deleted: {text}" if write else f"to be deleted: {text}. Delete it with --write")
