"""The names of properties that mean something to a store, and what stands between them; properties.py draws the whole.

Separate from properties.py, which needs the kernel, because the kernel's pure reference needs these names.
"""

from __future__ import annotations

NAME_END = "\x01"
VALUE_END = "\x02"

KEYS = "KEYS"
TAGS = "TAGS"
UNIQ_KEY = "UNIQ_KEY"
WAIT = "WAIT"
DELAY = "DELAY"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
"""Of a message that a group is to receive again, and of a dead letter: the topic that it was first put to."""
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
"""Of the same: the offset message id of the record that was first put."""
MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
SHARDING_KEY = "__SHARDINGKEY"
"""The message group: messages of one group are in order."""
TIMER_DELAY_S = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_PROPERTIES = (TIMER_DELAY_S, TIMER_DELAY_MS, TIMER_DELIVER_MS)
"""What asks for a timer; the first one that is there counts."""
TIMER_OUT_MS = "TIMER_OUT_MS"
"""Of a parked timer: the second of the wheel that it stands in."""
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_CANCELLED_KEY = "TIMER_DEL_UNIQKEY"
"""Of a cancellation: which timer it is for."""

INNER_COUNT = "INNER_NUM"
INNER_BASE = "INNER_BASE"
INNER_BASE_DIGITS = 19

KEY_SEPARATOR = " "


def split_keys(text: str) -> list[str]:
    """The index keys in a KEYS property: the tokens between single spaces that are not empty."""
    return [key for key in text.split(KEY_SEPARATOR) if key]
