"""Light message queues (RocketMQ's LMQ): further queues that list a message, besides its topic's queue.

    INNER_MULTI_DISPATCH       %LMQ%a,%LMQ%b     asked for by the sender
    INNER_MULTI_QUEUE_OFFSET   7,0               the queue offset in each, written by the store that appends

The entries are in `consumequeue/%LMQ%a/0` and so on; a light queue has the queue id 0. They point at the one record,
whose topic, queue id and queue offset are those of its own queue. A record that its own queue does not list, such as a
prepared one, is in no light queue either. (RocketMQ counts such a record in the light queue's offsets and never lists
it; its brokers write none with that property.)

Names without the prefix have no entries here: RocketMQ 5.3 cannot dispatch them either.

(RocketMQ's `LmqDispatch`, `MultiDispatchUtils` and `ConsumeQueue#multiDispatchLmqQueue`.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import InvalidMessageError
from ..queue_offsets import QueueKey
from . import property_names as props
from .properties import decode_properties

LIGHT_PREFIX = "%LMQ%"
LIGHT_QUEUE_ID = 0
SEPARATOR = ","
EXCLUDED_PREFIXES = ("%RETRY%", "rmq_sys_")
EXCLUDED_TOPIC = "SCHEDULE_TOPIC_XXXX"
"""Topics whose messages are in no light queue, whatever their properties say."""

MAX_NAME_SIZE = 255
"""UTF-8 bytes: the name is that of a folder."""
MAX_OFFSET_DIGITS = 19

OFFSETS_MARK = f"{props.MULTI_QUEUE_OFFSET}{props.NAME_END}".encode()


def is_light(topic: str) -> bool:
    """Whether this names a light queue and not a topic: no record has such a topic."""
    return topic.startswith(LIGHT_PREFIX)


def may_be_light(topic: str) -> bool:
    """Whether messages of this topic may be in light queues."""
    return not topic.startswith(EXCLUDED_PREFIXES) and topic != EXCLUDED_TOPIC


def light_places(topic: str, properties_raw: bytes) -> list[tuple[QueueKey, int]]:
    """The light queues that list a record, each with its queue offset there. Empty if the two properties differ in
    length, as in RocketMQ; without queues whose offset is not a number."""
    if OFFSETS_MARK not in properties_raw or not may_be_light(topic):
        return []
    return light_places_in(decode_properties(properties_raw))


def light_places_in(found: Mapping[str, str]) -> list[tuple[QueueKey, int]]:
    """As `light_places`, by the properties of a record that may be light."""
    names = found.get(props.MULTI_DISPATCH, "").split(SEPARATOR)
    offsets = found.get(props.MULTI_QUEUE_OFFSET, "").split(SEPARATOR)
    if len(names) != len(offsets):
        return []
    return [
        ((name, LIGHT_QUEUE_ID), int(offset))
        for name, offset in zip(names, offsets, strict=True)
        if is_light(name) and offset.isascii() and offset.isdigit() and len(offset) <= MAX_OFFSET_DIGITS
    ]


def wanted_light_queues(topic: str, properties: Mapping[str, str], *, is_listed: bool) -> tuple[str, ...]:
    """The light queues that a message asks for before its put; none if its own queue will not list it.

    Raises InvalidMessageError for names that cannot be light queues', or that come twice.
    """
    text = properties.get(props.MULTI_DISPATCH, "").strip()
    if not text or not is_listed or not may_be_light(topic):
        return ()
    names = text.split(SEPARATOR)
    for name in names:
        if not is_light(name) or "/" in name or "\0" in name or len(name.encode()) > MAX_NAME_SIZE:
            raise InvalidMessageError(
                f"topic {topic!r}: {props.MULTI_DISPATCH}={text!r}: expected names of light queues, "
                f"{LIGHT_PREFIX}... without '/', separated by {SEPARATOR!r}; found {name!r}"
            )
    if len(set(names)) < len(names):
        raise InvalidMessageError(f"topic {topic!r}: {props.MULTI_DISPATCH}={text!r}: a light queue comes twice")
    return tuple(names)


def encode_light_offsets(offsets: Sequence[int]) -> bytes:
    """The property with the queue offsets in the light queues."""
    text = SEPARATOR.join(map(str, offsets))
    return f"{props.MULTI_QUEUE_OFFSET}{props.NAME_END}{text}{props.VALUE_END}".encode()


def light_offsets_max_size(count: int) -> int:
    """The largest size of that property in bytes."""
    return len(encode_light_offsets([0] * count)) + count * (MAX_OFFSET_DIGITS - 1) if count else 0
