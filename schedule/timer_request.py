"""Whether a message asks for a timer, and where it waits: in queue 0 of `rmq_sys_wheel_timer`, with its own topic and
queue as the properties REAL_TOPIC and REAL_QID, and its second of the wheel as TIMER_OUT_MS.

(RocketMQ's `HookUtils#transformTimerMessage`.) A second of the wheel is delivered when it is over. So a time within a
second belongs to that second, and a whole second to the one before: each timer is delivered at the next whole second,
or at its own, and never early.

A cancellation is a timer, too: it belongs to the second of the timer that it cancels, and names it by topic and uniq
key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import replace
from typing import Final

from ..store.errors import InvalidMessageError
from ..store.format import property_names as props
from ..store.format.record import INT32_MAX, INT64_MAX, check_integer_range, is_safe_topic
from ..store.format.sys_flag import has_queue_entry
from ..store.message import Message
from ..store.timer_errors import InvalidTimerError, TimersCongestedError, TimerTooFarError, TimerTooLateError

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
TIMER_QUEUE_ID: Final = 0
PRECISION_MS: Final = 1000
YEAR_MS: Final = 366 * 86_400_000
SECONDS_FROM: Final = 1_000_000_000
"""Smaller numbers are no times of this century in seconds."""
NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
"""Text that Java parses as a long, if it is in range."""


def slot_time_ms(deliver_at_ms: int) -> int:
    """Start (ms) of the second whose end is the first whole second at or after this time."""
    return (deliver_at_ms - 1) // PRECISION_MS * PRECISION_MS


def cancelled_key(topic: str, uniq_key: str) -> str:
    """The name by which a cancellation finds its timer. All of 5.x but a 5.5 that keeps its default of
    `appendTopicForTimerDeleteKey` (false) read this one."""
    return f"{topic}+{uniq_key}"


def is_cancelled(topic: str, uniq_key: str, names: Container[str]) -> bool:
    """Whether one of these names of cancellations is this timer's. Brokers of 5.5 write the uniq key alone by
    default."""
    return bool(uniq_key) and (cancelled_key(topic, uniq_key) in names or uniq_key in names)


def cancellation(topic: str, uniq_key: str, deliver_at_ms: int) -> Message:
    """Make the message that cancels the timer of this topic, uniq key and time."""
    if not uniq_key:
        raise InvalidTimerError("uniq_key is empty: a timer is cancelled by the uniq key that it was put with")
    named = {
        props.TIMER_DELIVER_MS: str(deliver_at_ms),
        props.TIMER_CANCELLED_KEY: cancelled_key(topic, uniq_key),
    }
    return Message(topic, b"", properties=named)


def asks_for_timer(message: Message) -> bool:
    """Whether a message asks for a timer. A delivered timer, which still has these properties, does not."""
    asked = message.properties or {}
    return props.TIMER_OUT_MS not in asked and any(name in asked for name in props.TIMER_PROPERTIES)


def wanted_time_ms(message: Message, now_ms: int) -> int:
    """Delivery time (ms) of a message. Raises InvalidTimerError."""
    asked = message.properties or {}
    name = next(name for name in props.TIMER_PROPERTIES if name in asked)
    text = asked[name]
    number = int(text) if isinstance(text, str) and NUMBER.fullmatch(text) else None
    if number is None or not ~INT64_MAX <= number <= INT64_MAX:
        raise InvalidTimerError(
            f"topic {message.topic!r}: the property {name}={str(text)[:40]!r}: expected a whole number of "
            f"{'seconds' if name == props.TIMER_DELAY_S else 'milliseconds'}"
        )
    if name == props.TIMER_DELIVER_MS:
        check_not_seconds(message.topic, name, number, now_ms)
        return number
    return now_ms + (number * 1000 if name == props.TIMER_DELAY_S else number)


def check_not_seconds(topic: str, name: str, at_ms: int, now_ms: int) -> None:
    """Raises InvalidTimerError for a time more than a year in the past that, read as seconds, is within decades of now:
    a unit mistake, and delivered at once. Other past times are delivered at once, as in RocketMQ."""
    if SECONDS_FROM <= at_ms < now_ms - YEAR_MS and abs(at_ms * 1000 - now_ms) < 100 * YEAR_MS:
        raise InvalidTimerError(
            f"topic {topic!r}: {name}={at_ms}: expected milliseconds since 1970; these are seconds, it seems: "
            f"{at_ms * 1000} would be the same in milliseconds"
        )


class TimerAdmission:
    """Pre-put hook for messages that ask for a timer. Thread-safe."""

    def __init__(
        self, now_ms: Callable[[], int], max_delay_ms: int, slot_limit: int, count_at: Callable[[int], int]
    ) -> None:
        """`count_at` returns the number of timers in a second."""
        self._now_ms, self._max_delay_ms, self._slot_limit, self._count_at = now_ms, max_delay_ms, slot_limit, count_at

    def __call__(self, message: Message) -> Message:
        """The message to append: the parked form of this one, or this one itself if it asks for no timer, is due
        already, or belongs to a transaction that is not committed.

        Raises InvalidTimerError, TimerTooFarError, TimerTooLateError, TimersCongestedError, InvalidMessageError. A
        message without a queue id is parked for the highest possible queue id: the append chooses a queue first.
        """
        if not asks_for_timer(message) or not has_queue_entry(message.sys_flag):
            return message
        now_ms = self._now_ms()
        wanted_ms = wanted_time_ms(message, now_ms)
        properties = dict(message.properties or {})
        if wanted_ms <= now_ms:
            if props.TIMER_CANCELLED_KEY in properties:
                raise TimerTooLateError(
                    f"topic {message.topic!r}: the timer to be cancelled was due at {wanted_ms}, and it is {now_ms}"
                )
            return message
        if wanted_ms - now_ms > self._max_delay_ms:
            raise TimerTooFarError(
                f"topic {message.topic!r}: to be delivered in {wanted_ms - now_ms} ms, expected {self._max_delay_ms} "
                "at most (timer_max_delay_s)"
            )
        slot_ms = slot_time_ms(wanted_ms)
        if (found := self._count_at(slot_ms // PRECISION_MS)) >= self._slot_limit:
            raise TimersCongestedError(
                f"topic {message.topic!r}: {found} timers are due in the second from {slot_ms} on, expected less than "
                f"{self._slot_limit} (timer_slot_max_count). Choose another time"
            )
        if not isinstance(message.topic, str) or not is_safe_topic(message.topic):
            raise InvalidMessageError(f"topic {message.topic!r}: expected text that can name a folder")
        if message.queue_id is not None:
            check_integer_range("queue_id", message.queue_id, 0, INT32_MAX)
        properties[props.TIMER_OUT_MS] = str(slot_ms)
        properties[props.REAL_TOPIC] = message.topic
        properties[props.REAL_QUEUE_ID] = str(INT32_MAX if message.queue_id is None else message.queue_id)
        return replace(message, topic=TIMER_TOPIC, queue_id=TIMER_QUEUE_ID, properties=properties)
