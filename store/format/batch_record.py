"""Many messages as one record: the inner batch that topics with batch consume queues take.

The record's own properties are the number of its messages (INNER_NUM), the queue offset of the first one (INNER_BASE,
known when it is appended: 19 digits, so that the record's size is known before), and as KEYS the keys and uniq keys of
all messages, so that queries find the batch, RocketMQ's too.

(RocketMQ's `SendMessageProcessor#sendBatchMessage` and `BatchConsumeQueue#assignQueueOffset`.)
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import InvalidMessageError, PropertiesTooLargeError
from ..message import Message
from ..message_check import check_message, checked_messages
from . import property_names as props
from . import sys_flag as flags
from .inner_batch import MAX_COUNT, encode_inner
from .properties import encode_properties
from .property_names import split_keys
from .record import PROPERTIES_MAX_SIZE, check_integer_range, checked_properties

REFUSED_PROPERTIES = (props.DELAY, *props.TIMER_PROPERTIES, props.MULTI_DISPATCH, props.MULTI_QUEUE_OFFSET)
"""Properties that a single message of a batch cannot have."""


def envelope(messages: Iterable[Message]) -> tuple[Message, int]:
    """Make the message whose body is the batch. Returns it and the number of messages in it.

    Raises InvalidMessageError or the one of its children that names the limit.
    """
    given = checked_messages(messages)
    for place, message in enumerate(given):
        check_message(message, f"messages[{place}]")
    if not 0 < len(given) <= MAX_COUNT:
        raise InvalidMessageError(f"a batch of {len(given)} messages: expected 1 to {MAX_COUNT}")
    first = given[0]
    parts: list[bytes] = []
    keys: dict[str, None] = {}
    for place, message in enumerate(given):
        where = f"message {place} of a batch to topic {message.topic!r}"
        if (message.topic, message.queue_id) != (first.topic, first.queue_id):
            raise InvalidMessageError(f"{where} and queue {message.queue_id}: all go to one queue of one topic")
        if message.sys_flag or message.compress is not None:
            raise InvalidMessageError(f"{where}: neither compressed nor of a transaction (sys_flag 0, compress None)")
        if not isinstance(message.body, bytes):
            raise InvalidMessageError(f"{where}: the body is a {type(message.body).__name__}, expected bytes")
        check_integer_range("flag", message.flag)
        found = checked_properties(message)
        refused = [name for name in REFUSED_PROPERTIES if name in found]
        if refused:
            raise InvalidMessageError(f"{where}: the property {refused[0]} has no meaning inside a batch")
        properties_raw = encode_properties(found)
        if len(properties_raw) > PROPERTIES_MAX_SIZE:
            raise PropertiesTooLargeError(f"{where}: its properties take {len(properties_raw)} bytes")
        parts.append(encode_inner(message.body, message.flag, properties_raw))
        own = (*split_keys(found.get(props.KEYS, "")), found.get(props.UNIQ_KEY, ""))
        keys.update((key, None) for key in own if key and props.KEY_SEPARATOR not in key)
    made = Message(
        first.topic,
        b"".join(parts),
        keys=tuple(keys),
        properties={props.INNER_COUNT: str(len(given))},
        queue_id=first.queue_id,
        born_timestamp_ms=first.born_timestamp_ms,
        born_host=first.born_host,
        sys_flag=flags.INNER_BATCH | flags.NEED_UNWRAP,
        wait_store_ok=any(message.waits_for_sync for message in given),
    )
    return made, len(given)
