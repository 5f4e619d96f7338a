"""A stored message as clients read it."""

from __future__ import annotations

import hashlib
from typing import Any

from ...consume.pop.popped import PoppedMessage
from ...consume.retry.send_back import REVIVED
from ...produce import message_type
from ...store.format import property_names as props
from ...store.format.sys_flag import COMPRESSED
from ...store.stored_message import StoredMessage
from ...store.topic import NORMAL
from . import checks
from .protocol import definition, service, set_milliseconds

TYPES = {
    NORMAL: definition.MessageType.NORMAL,
    message_type.FIFO: definition.MessageType.FIFO,
    message_type.DELAY: definition.MessageType.DELAY,
    message_type.TRANSACTION: definition.MessageType.TRANSACTION,
}
TRACE_CONTEXT = "TRACE_CONTEXT"
DEAD_TOPIC, DEAD_ID = "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID"


def popped_response(popped: PoppedMessage, handle: str) -> bytes:
    """The part of a receive's answer that holds this message."""
    message = message_of(popped.message, popped.topic)
    system = message.system_properties
    system.receipt_handle, system.delivery_attempt = handle, popped.attempt
    return bytes(service.ReceiveMessageResponse(message=message).SerializeToString())


def message_of(stored: StoredMessage, topic: str) -> Any:
    """The message of a topic, which may wait in another one. Its body goes out as IDENTITY."""
    if stored.sys_flag & COMPRESSED:
        stored = stored.decompressed()
    properties = stored.properties
    message = definition.Message(body=stored.body)
    message.topic.name = topic
    for name, value in properties.items():
        if name not in checks.RESERVED and name != REVIVED:
            message.user_properties[name] = value
    system = message.system_properties
    if stored.tags is not None:
        system.tag = stored.tags
    system.keys.extend(stored.keys)
    system.message_id = stored.uniq_key or stored.message_id
    system.body_digest.type = definition.DigestType.MD5
    system.body_digest.checksum = hashlib.md5(stored.body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = definition.Encoding.IDENTITY
    system.message_type = TYPES[message_type.message_type_of(properties)]
    set_milliseconds(system.born_timestamp, stored.born_timestamp_ms)
    system.born_host = f"{stored.born_host[0]}:{stored.born_host[1]}"
    set_milliseconds(system.store_timestamp, stored.store_timestamp_ms)
    system.store_host = f"{stored.store_host[0]}:{stored.store_host[1]}"
    system.queue_id, system.queue_offset = max(stored.queue_id, 0), stored.queue_offset
    system.delivery_attempt = stored.reconsume_times + 1
    if (at_ms := properties.get(props.TIMER_DELIVER_MS, "")).isdigit():
        set_milliseconds(system.delivery_timestamp, int(at_ms))
    if (group := properties.get(props.SHARDING_KEY)) is not None:
        system.message_group = group
    if (trace := properties.get(TRACE_CONTEXT)) is not None:
        system.trace_context = trace
    if (dead_topic := properties.get(DEAD_TOPIC)) is not None and (dead_id := properties.get(DEAD_ID)) is not None:
        system.dead_letter_queue.topic, system.dead_letter_queue.message_id = dead_topic, dead_id
    return message
