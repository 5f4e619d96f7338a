"""Turn a parked message into the one to deliver.

It copies what RocketMQ's `ScheduleMessageService#messageTimeUp` copies: body, flag, flags of compression and of a
committed transaction, sender, store host, and every property. So the delivered record still has DELAY, REAL_TOPIC and
REAL_QID, as in RocketMQ. Its put bypasses the delay hook, which would park it again. REAL_TOPIC and REAL_QID name its
topic and queue; its offsets and store time are new.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from ..store.format import property_names as props
from ..store.format.crc_property import CRC_PROPERTY
from ..store.format.host import raw_host
from ..store.format.record import INT32_MAX, is_safe_topic
from ..store.format.sys_flag import HOST_BITS, INNER_BATCH, NEED_UNWRAP
from ..store.message import Message
from ..store.stored_message import StoredMessage
from .delay_level_table import SCHEDULE_TOPIC

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
UNDELIVERABLE_TOPICS = frozenset({HALF_TOPIC, SCHEDULE_TOPIC})
"""RocketMQ drops messages for the first topic; a message for the second would be parked again forever."""

QUEUE_ID = re.compile(r"\+?[0-9]{1,10}")


class UndeliverableError(Exception):
    """A parked record whose properties name no valid topic and queue to deliver it to. Caught in this room."""


class DueMessage(NamedTuple):
    """A message taken from a parked record; its put bypasses the delay hook."""

    message: Message
    hosts: tuple[bytes, bytes]
    """Born host and store host of the parked record: RocketMQ keeps both."""


def to_put_again(waited: StoredMessage) -> DueMessage:
    """Copy a message, to put it again into the same topic and queue; keeps the transaction bits."""
    properties = dict(waited.properties)
    properties.pop(CRC_PROPERTY, None)  # of the parked record; the put adds its own if needed
    message = Message(
        waited.topic,
        waited.body,
        properties=properties,
        queue_id=waited.queue_id,
        flag=waited.flag,
        born_timestamp_ms=waited.born_timestamp_ms,
        sys_flag=waited.sys_flag & ~HOST_BITS,
        reconsume_times=waited.reconsume_times,
    )
    return DueMessage(message, (raw_host(waited.born_host), waited.store_host_raw))


def delivered(parked: StoredMessage) -> DueMessage:
    """Make the message to deliver from a parked one. Raises UndeliverableError."""
    properties = parked.properties
    topic, queue_text = properties.get(props.REAL_TOPIC, ""), properties.get(props.REAL_QUEUE_ID, "")
    queue_id = int(queue_text) if QUEUE_ID.fullmatch(queue_text) else -1
    if not is_safe_topic(topic) or topic in UNDELIVERABLE_TOPICS or not 0 <= queue_id <= INT32_MAX:
        raise UndeliverableError(
            f"the message at physical offset {parked.physical_offset}: its properties name topic {topic[:200]!r} and "
            f"queue {queue_text[:40]!r}, expected where to deliver it"
        )
    if parked.sys_flag & (INNER_BATCH | NEED_UNWRAP) or properties.keys() & {props.INNER_COUNT, props.INNER_BASE}:
        raise UndeliverableError(
            f"the message at physical offset {parked.physical_offset}: an inner batch, expected a single message"
        )
    message, hosts = to_put_again(parked)
    return DueMessage(replace(message, topic=topic, queue_id=queue_id), hosts)
