"""Messages and refusals, from the store's words to the protocol's and back."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...consume.pop.pop_errors import ExpiredHandleError
from ...consume.pop.popped import PopHandle, PoppedMessage
from ...index.filter.sql_filter import SqlFilter
from ...index.filter.wanted import Wanted
from ...store.errors import (
    BodyTooLargeError,
    FlightlogError,
    InvalidMessageError,
    InvalidTopicError,
    PropertiesTooLargeError,
    QueueNotFoundError,
    RecordTooLargeError,
    TopicNotFoundError,
)
from ...store.format import property_names as props
from ...store.format.frame import MAGIC_V1
from ...store.format.host import Host, encode_host
from ...store.format.properties import encode_properties
from ...store.message import Message
from ...store.results import PutStatus
from ...store.stored_message import StoredMessage
from ...store.timer_errors import InvalidTimerError, TimersCongestedError
from ..calls.protocol import Code, definition, milliseconds, set_milliseconds
from .client_errors import ServerRefusedError

NOT_SENT = {
    "flag": 0,
    "sys_flag": 0,
    "reconsume_times": 0,
    "prepared_transaction_offset": 0,
    "delay_level": 0,
    "compress": None,
    "wait_store_ok": True,
    "born_host": None,
}
"""Fields of a message that RocketMQ's gRPC protocol has no place for, and what they are then."""
OF_PUTS: dict[int, type[InvalidMessageError]] = {
    Code.ILLEGAL_TOPIC: InvalidTopicError,
    Code.MESSAGE_BODY_TOO_LARGE: BodyTooLargeError,
    Code.MESSAGE_PROPERTIES_TOO_LARGE: PropertiesTooLargeError,
    Code.PAYLOAD_TOO_LARGE: RecordTooLargeError,
    Code.NOT_FOUND: QueueNotFoundError,
    Code.ILLEGAL_DELIVERY_TIME: InvalidTimerError,
    Code.TOO_MANY_REQUESTS: TimersCongestedError,
    Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: InvalidMessageError,
    Code.MESSAGE_CORRUPTED: InvalidMessageError,
    Code.MESSAGE_BODY_EMPTY: InvalidMessageError,
    Code.ILLEGAL_MESSAGE_TAG: InvalidMessageError,
    Code.ILLEGAL_MESSAGE_KEY: InvalidMessageError,
    Code.ILLEGAL_MESSAGE_ID: InvalidMessageError,
    Code.ILLEGAL_MESSAGE_GROUP: InvalidMessageError,
    Code.ILLEGAL_MESSAGE_PROPERTY_KEY: InvalidMessageError,
}
"""What a store raises for a message that a server refuses with this code."""
UNKNOWN = -1
"""Stands for a number that the protocol does not transmit."""


@dataclass(frozen=True)
class SendReceipt:
    """What became of a message that was put to a server."""

    status: PutStatus
    topic: str
    queue_offset: int
    """In a queue that the server chose, and does not name."""
    uniq_key: str
    recall_handle: str
    """Cancels a delayed message; empty for others."""


def message_out(message: Message, uniq_key: str, group: str | None) -> Any:
    """`group`: its message group. Raises InvalidMessageError for what the protocol has no place for."""
    for name, plain in NOT_SENT.items():
        if (found := getattr(message, name)) != plain:
            told = f"{name}={found!r}: RocketMQ's gRPC protocol has no place for it; expected {plain!r}"
            raise InvalidMessageError(f"topic {message.topic!r}: {told}")
    properties = message.all_properties()
    made = definition.Message(body=message.body)
    made.topic.name = message.topic
    system = made.system_properties
    system.message_id = properties.pop(props.UNIQ_KEY, None) or uniq_key
    if tag := properties.pop(props.TAGS, None):
        system.tag = tag
    system.keys.extend(properties.pop(props.KEYS, "").split())
    now_ms = time.time_ns() // 1_000_000
    born_ms = now_ms if message.born_timestamp_ms is None else message.born_timestamp_ms
    set_milliseconds(system.born_timestamp, born_ms)
    system.body_encoding = definition.Encoding.IDENTITY
    system.message_type = definition.MessageType.NORMAL
    if group := properties.pop(props.SHARDING_KEY, None) if group is None else group:
        system.message_group, system.message_type = group, definition.MessageType.FIFO
    at_ms = _deliver_at_ms(properties, now_ms)
    if at_ms is not None:
        set_milliseconds(system.delivery_timestamp, at_ms)
        system.message_type = definition.MessageType.DELAY
    for name, value in properties.items():
        made.user_properties[name] = value
    return made


def _deliver_at_ms(properties: dict[str, str], now_ms: int) -> int | None:
    """When a message is to be delivered; takes out the properties that say so."""
    found = [(name, properties.pop(name)) for name in props.TIMER_PROPERTIES if name in properties]
    if not found:
        return None
    name, text = found[0]
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidTimerError(f"property {name}={text!r}: expected a whole number")
    return {
        props.TIMER_DELAY_S: now_ms + int(text) * 1000,
        props.TIMER_DELAY_MS: now_ms + int(text),
        props.TIMER_DELIVER_MS: int(text),
    }[name]


def popped_message(found: Any, group: str, topic: str, invisible_until_ms: int) -> PoppedMessage:
    """A message as `Store.receive` returns it. `physical_offset` and `size` are -1: the protocol does not tell them."""
    system = found.system_properties
    properties = dict(found.user_properties)
    if system.HasField("tag"):
        properties[props.TAGS] = system.tag
    if system.keys:
        properties[props.KEYS] = props.KEY_SEPARATOR.join(system.keys)
    properties[props.UNIQ_KEY] = system.message_id
    if system.HasField("message_group"):
        properties[props.SHARDING_KEY] = system.message_group
    if system.HasField("delivery_timestamp"):
        properties[props.TIMER_DELIVER_MS] = str(milliseconds(system.delivery_timestamp))
    born_host, store_host = _host(system.born_host), _host(system.store_host)
    stored = StoredMessage(
        topic=topic,
        queue_id=system.queue_id,
        queue_offset=system.queue_offset,
        physical_offset=UNKNOWN,
        size=UNKNOWN,
        body=found.body,
        body_crc=zlib.crc32(found.body) & 0x7FFFFFFF,
        flag=0,
        sys_flag=0,
        born_timestamp_ms=milliseconds(system.born_timestamp),
        born_host=born_host,
        store_timestamp_ms=milliseconds(system.store_timestamp),
        store_host=store_host,
        store_host_raw=encode_host(*store_host),
        reconsume_times=max(system.delivery_attempt - 1, 0),
        prepared_transaction_offset=0,
        properties_raw=encode_properties(properties, is_foreign=True),
        magic=MAGIC_V1,
    )
    return PoppedMessage(stored, PopHandle(group, topic, system.receipt_handle), invisible_until_ms)


def _host(text: str) -> Host:
    host, _, port = text.rpartition(":")
    return Host(host.strip("[]"), int(port)) if host and port.isdigit() else Host("0.0.0.0", 0)


def filter_out(wanted: Wanted) -> Any:
    """What is wanted of a topic, as a receive says it."""
    if isinstance(wanted, SqlFilter):
        return definition.FilterExpression(expression=wanted.expression, type=definition.FilterType.SQL)
    return definition.FilterExpression(expression=wanted or "*", type=definition.FilterType.TAG)


def refused(address: str, call: str, status: Any, topic: str, handles: Sequence[PopHandle] = ()) -> FlightlogError:
    """The error that a status other than OK is raised as."""
    if status.code == Code.TOPIC_NOT_FOUND:
        return TopicNotFoundError(Path(address), topic, "make it at the server, or have it made with --auto-create")
    if status.code == Code.INVALID_RECEIPT_HANDLE and handles:
        now_ms = time.time_ns() // 1_000_000
        return ExpiredHandleError(handles, now_ms, now_ms)
    if call == "put" and (kind := OF_PUTS.get(status.code)) is not None:
        return kind(f"{address}: {status.message}")
    names = Code.DESCRIPTOR.values_by_number
    name = names[status.code].name if status.code in names else str(status.code)
    return ServerRefusedError(address, call, name, status.message)
