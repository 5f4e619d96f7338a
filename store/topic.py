"""A topic's settings: RocketMQ's `TopicConfig`, its JSON, and which names a topic may have (`TopicValidator`)."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .arguments import check_whole
from .errors import ConfigFileError, InvalidArgumentError, InvalidTopicError, TooManyQueuesError, TopicTooLongError
from .format.record import INT32_MAX, is_safe_topic

VALID_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
NAME_MAX_LENGTH = 127
GROUP_MAX_LENGTH = 255
"""`Validators.CHARACTER_MAX_LENGTH`"""
STRICT_WAY_OUT = ", which RocketMQ's clients take; rocketmq_strict=False (Spark: rocketmqStrict) allows others"

GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Half messages that nobody answered for. Of RocketMQ's own topics that the store puts to by itself, the one that
consumers read: it has settings, as a broker makes them with the first message."""

NO_TOPIC_OF_APPLICATIONS = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        GIVEN_UP_TOPIC,
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
"""Topics that no sender may put to (`NOT_ALLOWED_SEND_TOPIC_SET`)."""

SYSTEM_TOPICS = NO_TOPIC_OF_APPLICATIONS | {"TBW102", "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC", "CHECKPOINT_TOPIC"}
SYSTEM_TOPIC_PREFIX = "rmq_sys_"


class TopicPermission(enum.IntFlag):
    """What a topic is open for (`PermName`)."""

    INHERIT = 1
    """Topics that are made by a put take their settings from this one (RocketMQ's TBW102)."""
    WRITE = 2
    READ = 4


READ_WRITE = TopicPermission.READ | TopicPermission.WRITE


MAX_ROUTED_QUEUES = 65_536
"""Queues of one topic in one store that consumers and producers go through, each of which takes some memory. A store
itself takes any number (RocketMQ's is an int): queues cost nothing before they hold messages."""

QUEUE_TYPE = "queue.type"
"""The attribute that says what a topic's queues hold (RocketMQ's `TopicAttributes.QUEUE_TYPE_ATTRIBUTE`)."""
BATCH_QUEUE_TYPE = "BatchCQ"

MESSAGE_TYPE = "message.type"
"""The attribute that says which messages a topic is for (RocketMQ's `TopicMessageType`)."""
NORMAL = "NORMAL"


@dataclass(frozen=True, slots=True)
class Topic:
    """The settings of one topic, as they were when this was asked for."""

    name: str
    read_queue_count: int
    """Queues that consumers read (`readQueueNums`)."""
    write_queue_count: int
    """Queues that puts without a queue id go to (`writeQueueNums`)."""
    perm: TopicPermission = READ_WRITE
    """WRITE: puts are taken. READ: for consumers; the store's own reads always answer."""
    is_ordered: bool = False
    """RocketMQ's `order`."""
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What else stands in the file: kept as it is."""

    @property
    def queue_count(self) -> int:
        """Queues that there are for reads or writes: ids below this one can be put to."""
        return max(self.read_queue_count, self.write_queue_count)

    @property
    def holds_batches(self) -> bool:
        """Whether its queues are batch consume queues: only inner batches are put to it."""
        return self.attributes.get(QUEUE_TYPE) == BATCH_QUEUE_TYPE

    @property
    def message_type(self) -> str:
        """Which messages it is for: NORMAL (unless set), FIFO, DELAY, TRANSACTION or MIXED, the attribute
        `message.type`. Producers enforce it on request; a put does not look at it."""
        return self.attributes.get(MESSAGE_TYPE, NORMAL)

    @property
    def is_system(self) -> bool:
        return is_system_topic(self.name)

    def to_json(self) -> dict[str, Any]:
        """As RocketMQ writes it; what we do not know comes last."""
        return {
            "attributes": dict(self.attributes),
            "order": self.is_ordered,
            "perm": int(self.perm),
            "readQueueNums": self.read_queue_count,
            "topicFilterType": self.filter_type,
            "topicName": self.name,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queue_count,
            **self.extra,
        }


def topic_from_json(name: str, found: object, path: Path) -> Topic:
    """A topic as it stands in the file `path`; a field that is not there has RocketMQ's default. Raises
    ConfigFileError."""

    def wrong(what: str, expected: str) -> ConfigFileError:
        return ConfigFileError(path, f"topic {name[:100]!r}: {what}", expected)

    if not is_safe_topic(name):
        raise wrong("its name", "a name that can name a folder")
    if not isinstance(found, dict):
        raise wrong(f"a {type(found).__name__}", "an object with its settings")
    rest = dict(found)

    def whole(field_name: str, default: int, low: int = 0) -> int:
        value = rest.pop(field_name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= INT32_MAX:
            raise wrong(f"{field_name}={str(value)[:40]!r}", f"a whole number from {low} to {INT32_MAX}")
        return value

    is_ordered, filter_type = rest.pop("order", False), rest.pop("topicFilterType", "SINGLE_TAG")
    attributes = rest.pop("attributes", {})
    if not isinstance(is_ordered, bool):
        raise wrong(f"order={str(is_ordered)[:40]!r}", "true or false")
    if not isinstance(filter_type, str):
        raise wrong(f"topicFilterType={str(filter_type)[:40]!r}", "a text")
    if not isinstance(attributes, dict) or not all(isinstance(value, str) for value in attributes.values()):
        raise wrong("its attributes", "an object of texts")
    if rest.pop("topicName", name) != name:
        raise wrong("another topicName", "its own name")
    return Topic(
        name,
        read_queue_count=whole("readQueueNums", 16),
        write_queue_count=whole("writeQueueNums", 16),
        perm=TopicPermission(whole("perm", int(READ_WRITE))),
        is_ordered=is_ordered,
        filter_type=filter_type,
        sys_flag=whole("topicSysFlag", 0, ~INT32_MAX),
        attributes=attributes,
        extra=rest,
    )


def is_system_topic(name: str) -> bool:
    """Whether the topic is RocketMQ's own (`TopicValidator#isSystemTopic`)."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)


def has_no_settings(name: str) -> bool:
    """Whether the store puts to the topic without a `Topic` of it."""
    return is_system_topic(name) and name != GIVEN_UP_TOPIC


def is_client_name(name: str, longest: int) -> bool:
    """Whether RocketMQ's clients take this name of a topic or group (`Validators`)."""
    return len(name) <= longest and VALID_NAME.fullmatch(name) is not None


def check_topic_name(name: object) -> None:
    """Raises InvalidTopicError, with the reason, for a name that RocketMQ gives no topic of an application."""
    if not isinstance(name, str):
        raise InvalidTopicError(f"topic {name!r}: a {type(name).__name__}, expected text")
    check_characters(name)
    if len(name) > NAME_MAX_LENGTH:
        raise TopicTooLongError(
            f"topic {name[:40]!r}...: {len(name)} characters, the limit of a topic's name is {NAME_MAX_LENGTH}"
        )
    if is_system_topic(name):
        raise InvalidTopicError(f"topic {name!r}: the name of one of RocketMQ's own topics; choose another one")


def check_characters(name: str, way_out: str = "") -> None:
    """Raises InvalidTopicError for characters that RocketMQ's clients refuse in the name of a topic."""
    if VALID_NAME.fullmatch(name) is None:
        raise InvalidTopicError(f"topic {name[:200]!r}: expected one or more of the characters %|a-zA-Z0-9_-{way_out}")


def check_queue_count(name: str, value: object, low: int = 1) -> None:
    """Raises InvalidArgumentError for what is no number of queues."""
    check_whole(name, value, low, INT32_MAX)


def routable_queues(store: Path | str, name: str, queue_count: int, kind: str) -> range:
    """Return the queue ids of a topic of a store, by path or name, to read or write them in turn; `kind`:
    `read_queue_count`, `write_queue_count` or `queue_count`. Raises TooManyQueuesError for too many."""
    if queue_count > MAX_ROUTED_QUEUES:
        raise TooManyQueuesError(store, name, kind, queue_count, MAX_ROUTED_QUEUES)
    return range(queue_count)


def check_perm(value: object) -> TopicPermission:
    """Raises InvalidArgumentError for what is no permission."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 8:
        raise InvalidArgumentError("perm", value, "a sum of 2 (write), 4 (read) and 1 (inherit)")
    return TopicPermission(value)
