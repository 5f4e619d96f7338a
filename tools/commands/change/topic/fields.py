"""What `topic create` and `topic alter` share: the fields of a topic as options, and their text."""

from __future__ import annotations

from typing import Annotated

import typer

from .....store.errors import InvalidArgumentError
from .....store.topic import Topic, TopicPermission
from ....words import count_text, printable

TopicName = Annotated[str, typer.Argument(help="The topic.", show_default=False)]
Queues = Annotated[int | None, typer.Option(min=1, help="Read and write queues.", show_default=False)]
ReadQueues = Annotated[int | None, typer.Option(min=0, help="Queues that consumers read.", show_default=False)]
WriteQueues = Annotated[int | None, typer.Option(min=0, help="Queues that puts go to.", show_default=False)]
Perm = Annotated[str | None, typer.Option(help="What it is open for: rw, r, w, or none.", show_default=False)]
Order = Annotated[bool | None, typer.Option("--order/--no-order", help="RocketMQ's order.", show_default=False)]
Attributes = Annotated[
    list[str] | None, typer.Option("--attribute", help="NAME=VALUE, such as message.type=FIFO.", show_default=False)
]
LETTERS = {"r": TopicPermission.READ, "w": TopicPermission.WRITE}


def perm_of(text: str) -> TopicPermission:
    """'rw' -> READ | WRITE. Raises InvalidArgumentError."""
    if text != "none" and (not text or set(text) - set(LETTERS)):
        raise InvalidArgumentError("perm", text, "rw, r, w, or none")
    found = TopicPermission(0)
    for letter in "" if text == "none" else text:
        found |= LETTERS[letter]
    return found


def attributes_of(texts: list[str]) -> dict[str, str]:
    """['a=b'] -> {'a': 'b'}. Raises InvalidArgumentError."""
    pairs = [text.partition("=") for text in texts]
    for text, (name, equals, _) in zip(texts, pairs, strict=True):
        if not name or not equals:
            raise InvalidArgumentError("attribute", text, "NAME=VALUE")
    return {name: value for name, _, value in pairs}


def topic_text(topic: Topic) -> str:
    perm = "".join(letter for letter, bit in LETTERS.items() if topic.perm & bit) or "none"
    attributes = "".join(f", {name}={value}" for name, value in sorted(topic.attributes.items()))
    order = ", ordered" if topic.is_ordered else ""
    queues = f"{count_text(topic.read_queue_count, 'read queue')}, {count_text(topic.write_queue_count, 'write queue')}"
    return printable(f"{topic.name}: {queues}, {perm}{order}{attributes}")
