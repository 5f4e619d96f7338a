"""What kind of messages a topic takes: RocketMQ's `TopicMessageType`, which its 5.x proxy enforces.

    TRANSACTION   a half message: the property TRAN_MSG is "true"
    DELAY         a delay level or a timer
    FIFO          a message group
    NORMAL        none of these

The first one that applies is the type of a message (`TopicMessageType#parseFromMessageProperty`). A topic has its type
in the attribute `message.type`, NORMAL unless set; MIXED takes all four (`DefaultTopicMessageTypeValidator`). Topics of
retries and of dead letters are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..store.format import property_names as props
from ..store.topic import NORMAL
from .send_errors import MessageTypeError

FIFO, DELAY, TRANSACTION, MIXED = "FIFO", "DELAY", "TRANSACTION", "MIXED"
TYPES = (NORMAL, FIFO, DELAY, TRANSACTION)
"""Those of messages."""

TRANSACTION_PREPARED = "TRAN_MSG"
DELAYING = frozenset((props.DELAY, *props.TIMER_PROPERTIES))
UNCHECKED_PREFIXES = ("%RETRY%", "%DLQ%")


def message_type_of(properties: Mapping[str, str]) -> str:
    """The type of a message that has all these properties."""
    if properties.get(TRANSACTION_PREPARED) == "true":
        return TRANSACTION
    if not DELAYING.isdisjoint(properties):
        return DELAY
    return FIFO if props.SHARDING_KEY in properties else NORMAL


def takes(topic_type: str, message_type: str) -> bool:
    """Whether a topic of this type takes messages of that one. One of an unknown type (UNSPECIFIED) takes none."""
    return message_type in TYPES and topic_type in (message_type, MIXED)


def check_message_type(topic: str, topic_types: frozenset[str], properties: Mapping[str, str]) -> None:
    """Raises MessageTypeError where a store's topic takes no such messages; `topic_types` are those that the topic has
    in the producer's stores."""
    if topic.startswith(UNCHECKED_PREFIXES):
        return
    found = message_type_of(properties)
    for expected in sorted(topic_types):
        if not takes(expected, found):
            raise MessageTypeError(topic, found, expected)
