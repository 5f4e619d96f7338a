"""Names of properties that have a meaning for a store, and the separators; properties.py describes the format.

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
"""In a message for redelivery to a group, and in a dead letter: the topic of the first put."""
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
"""In the same messages: the offset message id of the first record."""
MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
SHARDING_KEY = "__SHARDINGKEY"
"""The message group: messages of one group are consumed in order."""
TIMER_DELAY_S = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_PROPERTIES = (TIMER_DELAY_S, TIMER_DELAY_MS, TIMER_DELIVER_MS)
"""Properties that ask for a timer; the first one that is present counts."""
TIMER_OUT_MS = "TIMER_OUT_MS"
"""In a parked timer: its second of the wheel."""
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_CANCELLED_KEY = "TIMER_DEL_UNIQKEY"
"""In a cancellation: the timer that it cancels."""
REDRIVEN_FROM = "REDRIVEN_FROM"
"""In the copy of a dead letter that is put to its topic again: the message id of the dead letter."""

INNER_COUNT = "INNER_NUM"
INNER_BASE = "INNER_BASE"
INNER_BASE_DIGITS = 19

KEY_SEPARATOR = " "


def split_keys(text: str) -> list[str]:
    """The index keys in a KEYS property: the tokens between single spaces that are not empty."""
    return [key for key in text.split(KEY_SEPARATOR) if key]
