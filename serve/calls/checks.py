"""What a request may say: the limits of RocketMQ's proxy 5.5.0, with its codes and its texts.

Its defaults (`ProxyConfig`) are named beside each limit.
"""

from __future__ import annotations

import re
from typing import Any

from ...store.topic import NAME_MAX_LENGTH, VALID_NAME, is_system_topic
from .protocol import Code, milliseconds
from .refusals import Refused

MAX_BODY_SIZE = 4 << 20
"""`maxMessageSize`"""
MAX_PROPERTIES_SIZE = 16 << 10
"""`maxUserPropertySize`: bytes of names and values, of the keys and the tag."""
MAX_PROPERTIES = 128
"""`userPropertyMaxNum`"""
MESSAGE_GROUP_SIZE = 64
"""`maxMessageGroupSize`: a message group has fewer bytes."""
MAX_DELAY_MS = 24 * 3_600_000
"""`maxDelayTimeMills`"""
MAX_RECOVERY_S = 3600
"""`maxTransactionRecoverySecond`"""
MIN_INVISIBLE_MS = 10_000
"""`minInvisibleTimeMillsForRecv`"""
MAX_INVISIBLE_MS = 12 * 3_600_000
"""`maxInvisibleTimeMills`"""
MIN_POLLING_MS = 5_000
"""`grpcClientConsumerMinLongPollingTimeoutMillis`"""
MAX_POLLING_MS = 20_000
"""`grpcClientConsumerMaxLongPollingTimeoutMillis`"""
ANSWER_MS = 500
"""How long before its client gives up a receive is answered."""
MAX_BATCH = 32
"""`grpcClientConsumerLongPollingBatchSize`"""

GROUP_MAX = 120
"""Characters of a group's name (`Validators.GROUP_MAX_LENGTH`)."""
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
"""Java's ISO control characters."""
# fmt: off
RESERVED = frozenset(
    {
        "1ST_POP_TIME", "ARRIVE_TIME", "BORN_TIMESTAMP", "BUYER_ID", "CLUSTER", "CONSUME_START_TIME",
        "CORRECTION_FLAG", "CORRELATION_ID", "DELAY", "DLQ_ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_TOPIC", "DUP_INFO",
        "EXTEND_UNIQ_INFO", "INNER_MULTI_QUEUE_OFFSET", "INSTANCE_ID", "KEYS", "MAX_OFFSET",
        "MAX_RECONSUME_TIMES", "MIN_OFFSET", "MQ2_FLAG", "MSG_REGION", "MSG_TYPE", "ORIGIN_MESSAGE_ID",
        "PGROUP", "POP_CK", "POP_CK_OFFSET", "PUSH_REPLY_TIME", "REAL_QID", "REAL_TOPIC", "RECONSUME_TIME",
        "REPLY_TO_CLIENT", "RETRY_TOPIC", "TAGS", "TIMER_DELAY_LEVEL", "TIMER_DELAY_MS", "TIMER_DELAY_SEC",
        "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY", "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS", "TIMER_OUT_MS",
        "TIMER_ROLL_TIMES", "TRACE_ON", "TRANSFER_FLAG", "TRAN_MSG", "TRAN_PREPARED_QUEUE_OFFSET", "TTL",
        "UNIQ_KEY", "WAIT", "__BORNHOST", "__CRC32#",
    }
)
# fmt: on
"""Names of properties that are RocketMQ's own (`MessageConst.STRING_HASH_SET` of 5.3.3)."""


def topic_name(resource: Any) -> str:
    """The name of a topic of an application."""
    name: str = resource.name
    too_long = f"The specified topic is longer than topic max length {NAME_MAX_LENGTH}."
    _check_name(name, "The specified topic", NAME_MAX_LENGTH, too_long, Code.ILLEGAL_TOPIC)
    if is_system_topic(name):
        raise Refused(Code.ILLEGAL_TOPIC, "cannot access system topic")
    return name


def group_name(resource: Any) -> str:
    """The name of a consumer group of an application."""
    name: str = resource.name
    too_long = f"the specified group[{name}] is longer than group max length: {GROUP_MAX}."
    _check_name(name, "the specified group", GROUP_MAX, too_long, Code.ILLEGAL_CONSUMER_GROUP)
    if name.startswith(SYSTEM_GROUP_PREFIX):
        raise Refused(Code.ILLEGAL_CONSUMER_GROUP, "cannot use system consumer group")
    return name


def _check_name(name: str, what: str, longest: int, too_long: str, code: int) -> None:
    """The texts are those of RocketMQ's `Validators`."""
    if not name.strip():
        raise Refused(code, f"{what} is blank")
    if len(name) > longest:
        raise Refused(code, too_long)
    if VALID_NAME.fullmatch(name) is None:
        raise Refused(code, f"{what}[{name}] contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")


def invisible_ms(duration: Any, least_ms: int) -> int:
    found = milliseconds(duration)
    if found < least_ms:
        raise Refused(Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too small. min is {least_ms}")
    if found > MAX_INVISIBLE_MS:
        raise Refused(Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too large. max is {MAX_INVISIBLE_MS}")
    return found


def check_body(body: bytes) -> None:
    if not body:
        raise Refused(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if len(body) > MAX_BODY_SIZE:
        raise Refused(Code.MESSAGE_BODY_TOO_LARGE, f"message body cannot exceed the max {MAX_BODY_SIZE}")


def check_properties(properties: dict[str, str], tag: str, keys: list[str]) -> None:
    """The properties of an application, the tag and the keys of a message."""
    if len(properties) > MAX_PROPERTIES:
        raise Refused(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"too many user properties, max is {MAX_PROPERTIES}")
    for name, value in properties.items():
        if name in RESERVED:
            raise Refused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name}")
        for what, text in (("key", name), ("value", value)):
            if CONTROL.search(text):
                told = f"the {what} of property cannot contain control character"
                raise Refused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, told)
    if tag:
        _check_text(tag, "tag", Code.ILLEGAL_MESSAGE_TAG)
        if "|" in tag:
            raise Refused(Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'")
    for key in keys:
        _check_text(key, "key", Code.ILLEGAL_MESSAGE_KEY)
    texts = (*properties.keys(), *properties.values(), tag, *keys)
    if sum(len(text.encode()) for text in texts) > MAX_PROPERTIES_SIZE:
        told = f"the total size of user property is too large, max is {MAX_PROPERTIES_SIZE}"
        raise Refused(Code.MESSAGE_PROPERTIES_TOO_LARGE, told)


def check_message_group(group: str) -> None:
    if len(group.encode()) >= MESSAGE_GROUP_SIZE:
        raise Refused(Code.ILLEGAL_MESSAGE_GROUP, f"message group exceed the max size {MESSAGE_GROUP_SIZE}")
    _check_text(group, "message group", Code.ILLEGAL_MESSAGE_GROUP)


def _check_text(text: str, what: str, code: int) -> None:
    if text and not text.strip():
        raise Refused(code, f"{what} cannot be the char sequence of whitespace")
    if CONTROL.search(text):
        raise Refused(code, f"{what} cannot contain control character")


def deliver_at_ms(timestamp: Any, now_ms: int) -> int:
    """When a message is to be delivered, in ms since 1970. A time that is past is fine: the message comes at once."""
    at_ms = milliseconds(timestamp)
    if at_ms - now_ms > MAX_DELAY_MS:
        told = f"the max delay time of message is too large, max is {MAX_DELAY_MS}"
        raise Refused(Code.ILLEGAL_DELIVERY_TIME, told)
    return max(at_ms, 0)


def recovery_s(duration: Any) -> int:
    """After how many seconds the sender of a transaction is asked about it."""
    found = int(duration.seconds)
    if found > MAX_RECOVERY_S:
        told = f"the max transaction recovery time of message is too large, max is {MAX_RECOVERY_S}"
        raise Refused(Code.BAD_REQUEST, told)
    return found


def polling_s(request: Any, left_s: float | None, request_timeout_ms: int, version: str) -> float:
    """How long a receive waits for messages: as asked, or half of a request's timeout before the client gives up."""
    left_ms = MAX_POLLING_MS if left_s is None else int(left_s * 1000)
    if request.HasField("long_polling_timeout"):
        asked_ms = milliseconds(request.long_polling_timeout)
    else:
        asked_ms = left_ms - request_timeout_ms // 2
    found_ms = min(max(asked_ms, MIN_POLLING_MS), MAX_POLLING_MS)
    if found_ms > left_ms:
        if left_ms < MIN_POLLING_MS:
            code = Code.ILLEGAL_POLLING_TIME if version >= "5.0.3" else Code.BAD_REQUEST
            told = "The deadline time remaining is not enough for polling, please check network condition"
            raise Refused(code, told)
        found_ms = left_ms - ANSWER_MS
    return found_ms / 1000
