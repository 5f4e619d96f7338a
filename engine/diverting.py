"""The seam before the append: what happens to a message that is not meant for its topic yet."""

from __future__ import annotations

from collections.abc import Callable

from ..store import property_names as props
from ..store.errors import InvalidMessageError
from ..store.message import Message

Divert = Callable[[Message], Message]
"""Called with every message before it is appended; returns the message to append in its place. Pure."""


def refuse_delays(message: Message) -> Message:
    """Let everything pass but messages that ask for a later delivery: nothing in an open store would deliver them."""
    asked = message.properties
    if asked:
        for name in (props.DELAY, *props.TIMER_PROPERTIES):
            if asked.get(name, "0") != "0":
                raise InvalidMessageError(
                    f"topic {message.topic!r}: the property {name} asks for a later delivery, which this "
                    "version of flightlog does not do: it would wait for ever. Put it without the property, or let "
                    "RocketMQ deliver it"
                )
    return message
