"""Parks messages with a delay level: in `SCHEDULE_TOPIC_XXXX`, queue level - 1, with its own topic and queue as the
properties REAL_TOPIC and REAL_QID.

(RocketMQ's `HookUtils#transformDelayLevelMessage`.)
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..store.errors import InvalidMessageError
from ..store.format import property_names as props
from ..store.format.record import INT32_MAX, check_integer_range, is_safe_topic
from ..store.format.sys_flag import has_queue_entry
from ..store.message import Message
from .delay_level_table import SCHEDULE_TOPIC, DelayLevelTable

LEVEL = re.compile(r"[+-]?[0-9]{1,10}")
"""Text that RocketMQ parses as a number, if it is in range."""


def wanted_level(message: Message) -> int:
    """The delay level of a message, from its field or else its property; 0 for none. Raises InvalidMessageError."""
    if message.delay_level != 0:
        check_integer_range("delay_level", message.delay_level, 0)
        return message.delay_level
    text = (message.properties or {}).get(props.DELAY, "0")
    if not isinstance(text, str) or not LEVEL.fullmatch(text) or not ~INT32_MAX <= int(text) <= INT32_MAX:
        raise InvalidMessageError(f"the property {props.DELAY}={text!r}: expected the number of a delay level, as in 3")
    return max(int(text), 0)  # RocketMQ treats a negative level as none


def park(message: Message, levels: DelayLevelTable) -> Message:
    """The message to append: the parked form of this one, or this one itself if it has no level or belongs to a
    transaction that is not committed. Raises InvalidMessageError. A message without a queue id is parked for the
    highest possible queue id: the append chooses a queue first.
    """
    level = wanted_level(message)
    if level == 0 or not has_queue_entry(message.sys_flag):
        return message
    if not isinstance(message.topic, str) or not is_safe_topic(message.topic):
        raise InvalidMessageError(f"topic {message.topic!r}: expected text that can name a folder")
    if message.queue_id is not None:
        check_integer_range("queue_id", message.queue_id, 0, INT32_MAX)
    level = levels.clamp(level)
    kept = {name: value for name, value in (message.properties or {}).items() if name not in props.TIMER_PROPERTIES}
    real_queue_id = INT32_MAX if message.queue_id is None else message.queue_id
    own = {
        props.DELAY: str(level),
        props.REAL_TOPIC: message.topic,
        props.REAL_QUEUE_ID: str(real_queue_id),
    }
    return replace(message, topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=kept | own, delay_level=0)
