"""Write a message that a group could not process back to the store, as a new record.

    attempts left    `%RETRY%GROUP`, after the delay of level 3 + redeliveries so far: 10 s, 30 s, 1 min, ... 2 h
    none left        `%DLQ%GROUP`, the dead letters of the group, at once

The record keeps body, flag, flags of compression, sender, and every property. It adds:

    RETRY_TOPIC          the topic that the message was first put to
    ORIGIN_MESSAGE_ID    the offset message id of the record that was first put
    DELAY                the delay level; 0 for a dead letter
    WAIT                 false: an offset that passes the message is written only after the log was flushed
    reconsume_times      one more

Both topics are made on first use with one queue for reads and writes. The message that failed stays where it is: the
caller acknowledges it once this has returned. A crash in between leaves both, and the message is delivered again.

RocketMQ: `AbstractSendMessageProcessor#consumerSendMsgBack`.
"""

from __future__ import annotations

import random

from ...engine.message_store import MessageStore
from ...store.errors import InvalidTopicError, TopicExistsError, UsageError
from ...store.format import property_names as props
from ...store.format.crc_property import CRC_PROPERTY
from ...store.format.record import DEAD_LETTER_PREFIX, RETRY_TOPIC_PREFIX
from ...store.format.sys_flag import HOST_BITS, INNER_BATCH, NEED_UNWRAP
from ...store.message import Message
from ...store.results import PutResult
from ...store.stored_message import StoredMessage

FIRST_DELAY_LEVEL = 3
"""10 s with the default delay levels."""
DEAD_LETTER_QUEUES = 1

REVIVED = "FLIGHTLOG_REVIVED"
"""A property of ours in retry topics of groups that pop: which pop of which message was not acknowledged in time."""

_OF_THE_OLD_RECORD = (
    *(CRC_PROPERTY, props.INNER_COUNT, props.INNER_BASE, REVIVED),
    # The message would come back through its light queues, too.
    *(props.MULTI_DISPATCH, props.MULTI_QUEUE_OFFSET),
)


def retry_topic(group: str) -> str:
    """Where the messages wait that the group is to receive again."""
    return RETRY_TOPIC_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Where the messages end that the group could not process."""
    return DEAD_LETTER_PREFIX + group


def send_to_retry(
    store: MessageStore, group: str, message: StoredMessage, attempt: int, *, delay_level: int = 0, queue_count: int = 1
) -> PutResult:
    """Have the group receive the message again. `attempt` counts its deliveries, this one included; a `delay_level` of
    0 is level 2 + attempt. The retry topic is made with `queue_count` queues, one of which takes the message at random.

    Returns where it waits: in `SCHEDULE_TOPIC_XXXX`. Durable with the next flush of the log.

    Raises UsageError in a store that delivers no delayed messages, and what `put` raises; then nothing was stored.
    """
    if not store.settings.deliver_delayed:
        raise UsageError(f"{store.path}: a retry has to wait, and this store was opened with deliver_delayed=False")
    level = delay_level or FIRST_DELAY_LEVEL + attempt - 1
    return _put(store, retry_topic(group), queue_count, message, attempt, level)


def send_to_dead_letters(store: MessageStore, group: str, message: StoredMessage, attempt: int) -> PutResult:
    """Put the message among the dead letters of the group. As `send_to_retry`, but there at once."""
    return _put(store, dead_letter_topic(group), DEAD_LETTER_QUEUES, message, attempt, 0)


def _put(
    store: MessageStore, topic: str, queue_count: int, message: StoredMessage, attempt: int, delay_level: int
) -> PutResult:
    make_topic(store, topic, queue_count)
    properties = {name: value for name, value in message.properties.items() if name not in _OF_THE_OLD_RECORD}
    properties.setdefault(props.RETRY_TOPIC, message.topic)
    properties[props.ORIGIN_MESSAGE_ID] = origin_id(message)
    properties[props.DELAY] = str(delay_level)
    return store.put(
        Message(
            topic,
            message.body,
            properties=properties,
            queue_id=random.randrange(max(queue_count, 1)),
            flag=message.flag,
            born_timestamp_ms=message.born_timestamp_ms,
            born_host=message.born_host,
            sys_flag=message.sys_flag & ~(HOST_BITS | INNER_BATCH | NEED_UNWRAP),
            reconsume_times=attempt,
            wait_store_ok=False,
        )
    )


def origin_id(message: StoredMessage) -> str:
    """The message id of the record that was first put."""
    named = message.properties.get(props.ORIGIN_MESSAGE_ID, "")
    return named if named.strip() else message.message_id


def make_topic(store: MessageStore, name: str, queue_count: int) -> None:
    """Make a topic of a group unless it is there: permission 6 (read, write), as RocketMQ's. Raises DiskError."""
    if store.topic(name) is not None:
        return
    try:
        store.create_topic(name, max(queue_count, 1))
    except (TopicExistsError, InvalidTopicError):
        return  # made just now, or of a group whose name RocketMQ does not take: the put makes it
