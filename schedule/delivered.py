"""Turn a parked message into the one to deliver.

It copies what RocketMQ's `ScheduleMessageService#messageTimeUp` copies: body, flag, flags of compression and of a
committed transaction, sender, store host, and every property. So the record that is delivered still says DELAY,
REAL_TOPIC and REAL_QID, as RocketMQ's does: it is put past the delay hook, which would park it again. Its topic and
queue are those that the last two name; its offsets and store time are new.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from ..store.errors import FlightlogError
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
"""RocketMQ drops what is for the first; what is for the second would come round for ever."""

QUEUE_ID = re.compile(r"\+?[0-9]{1,10}")


class UndeliverableError(FlightlogError):
    """A parked record whose properties name no valid topic and queue to deliver it to."""


class DueMessage(NamedTuple):
    """A message that has waited in another record, to be put past the delay hook."""

    message: Message
    hosts: tuple[bytes, bytes]
    """Sender and store host as the record that waited has them: RocketMQ keeps both."""


def to_put_again(waited: StoredMessage) -> DueMessage:
    """The same message once more, to the same topic and queue; the bits of a transaction are kept."""
    properties = dict(waited.properties)
    properties.pop(CRC_PROPERTY, None)  # of the record that waited; the put writes this one's, if any
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
    """The message to put in place of this one. Raises UndeliverableError."""
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
