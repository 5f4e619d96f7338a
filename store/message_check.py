"""Whether the fields of a message are of their types: what a put asks of a message that did not take the fast path.

Limits and ranges are checked where the record is made (store/format/record.py); this is about values that would be
taken for something else there (a `wait_store_ok` of "no"), or fail with an error of Python's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .arguments import is_whole
from .errors import InvalidMessageError, WrongTypeError, shown
from .format.property_names import REDRIVEN_FROM, TIMER_CANCELLED_KEY
from .format.record import DEAD_LETTER_PREFIX, RETRY_TOPIC_PREFIX
from .message import Message

A_MESSAGE = "a flightlog.Message, as in Message('topic', b'body')"

OF_EMPTY_MESSAGES = {TIMER_CANCELLED_KEY, REDRIVEN_FROM}
NO_BODY = (
    "the body is empty; RocketMQ's clients and proxy refuse such a message; rocketmq_strict=False (Spark: "
    "rocketmqStrict) allows it"
)


class EmptyBodyError(InvalidMessageError):
    """A message without a body, which RocketMQ's clients refuse (see the setting `rocketmq_strict`)."""


def check_message(message: object, argument: str = "message") -> None:
    """Raises WrongTypeError for what is no Message, InvalidMessageError for a field of another type than expected."""
    if not isinstance(message, Message):
        raise WrongTypeError(argument, message, A_MESSAGE)
    tags, uniq_key, keys, properties = message.tags, message.uniq_key, message.keys, message.properties
    if tags is not None and not isinstance(tags, str):
        raise _wrong(message, "tags", tags, "one tag as text, or None")
    if uniq_key is not None and not isinstance(uniq_key, str):
        raise _wrong(message, "uniq_key", uniq_key, "text, or None")
    if not isinstance(keys, str) and (
        not isinstance(keys, Collection)
        or isinstance(keys, (bytes, Mapping))
        or not all(isinstance(key, str) for key in keys)
    ):
        raise _wrong(message, "keys", keys, "one key as text, or a list or tuple of them")
    if properties is not None and not isinstance(properties, Mapping):
        raise _wrong(message, "properties", properties, "a mapping of text to text, or None")
    if not isinstance(message.wait_store_ok, bool):
        raise _wrong(message, "wait_store_ok", message.wait_store_ok, "True or False")
    for name in ("flag", "delay_level", "sys_flag", "reconsume_times", "prepared_transaction_offset"):
        _check_whole(message, name, "a whole number")
    if message.queue_id is not None:
        _check_whole(message, "queue_id", "a whole number, or None")
    if message.born_timestamp_ms is not None:
        _check_whole(message, "born_timestamp_ms", "a whole number of milliseconds since 1970, or None")
    host: Any = message.born_host
    if host is not None and not (
        isinstance(host, tuple) and len(host) == 2 and isinstance(host[0], str) and is_whole(host[1])
    ):
        raise _wrong(message, "born_host", host, "a pair of address and port, as in ('10.0.0.1', 10911), or None")


def check_body(message: Message) -> None:
    """Raises EmptyBodyError for a new message without a body. A store asks this where it is strict.

    Not new are what goes to a group's retry topics and dead letters, and a dead letter that is redriven: they have what
    the message has that is there already. A timer is cancelled by a message without a body.
    """
    if message.body or message.topic.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_PREFIX)):
        return
    if OF_EMPTY_MESSAGES.isdisjoint(message.properties or ()):
        raise EmptyBodyError(f"topic {shown(message.topic)}: {NO_BODY}")


def checked_messages(messages: Any) -> tuple[Message, ...]:
    """Several messages, as they are given to a put of many; each is checked where it is put."""
    if isinstance(messages, (Message, str, bytes, Mapping)) or not isinstance(messages, Iterable):
        raise WrongTypeError("messages", messages, "a list, or another iterable, of flightlog.Message")
    return tuple(messages)


def _check_whole(message: Message, name: str, expected: str) -> None:
    value = getattr(message, name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(message, name, value, expected)


def _wrong(message: Message, name: str, value: object, expected: str) -> InvalidMessageError:
    return InvalidMessageError(f"topic {shown(message.topic)}: {name}={shown(value)}: expected {expected}")
