"""Messages that wait for their time: by delay level and by timer."""

from __future__ import annotations

from dataclasses import dataclass

from ...consume.store import Store
from ...engine.delay.store_timers import TimerState
from ...schedule.delay_level import LevelState
from ...schedule.delay_level_table import SCHEDULE_TOPIC
from ...schedule.timer_request import PRECISION_MS, TIMER_QUEUE_ID, TIMER_TOPIC, is_cancelled
from ...store.format import property_names as props
from ...store.stored_message import StoredMessage
from ...store.topic import is_system_topic
from .shown import time, visible
from .site import NUMBER, Answer, Asked, PageError
from .topics import read_some

LISTED = 25
"""Messages of one level, the ones that are due first."""
LOOKED_AT = 2000
"""How many messages of the timer topic are examined, the newest ones: timers are in it in the order of their puts."""


@dataclass(frozen=True)
class Delayed:
    """A message that waits."""

    message: StoredMessage
    topic: str
    """Where it goes."""
    due_ms: int
    deliver_at_ms: int | None
    """The time that a timer was put with, if it can be cancelled."""


@dataclass(frozen=True)
class Level:
    state: LevelState
    messages: list[Delayed]


def delays(asked: Asked) -> Answer:
    """`/delays`: what waits, and for how long."""
    statistics = asked.store.statistics()
    levels = [Level(each, _of_level(asked.store, each)) for each in statistics.delays if each.pending]
    timers, own_count, looked_at, timer_count = _timers(asked, statistics.timers)
    return asked.page(
        "delays.html",
        "Delayed messages",
        levels=levels,
        timers=timers[:LISTED],
        found_count=len(timers),
        own_count=own_count,
        timer_state=statistics.timers,
        looked_at=looked_at,
        timer_count=timer_count,
        listed=LISTED,
    )


def _of_level(store: Store, state: LevelState) -> list[Delayed]:
    queue_id = state.level - 1
    _, end = store.queue_bounds(SCHEDULE_TOPIC, queue_id)
    start = end - state.pending
    return [
        Delayed(each, each.properties.get(props.REAL_TOPIC, ""), each.store_timestamp_ms + state.delay_ms, None)
        for each in read_some(store, SCHEDULE_TOPIC, queue_id, start, min(start + LISTED, end))
    ]


def _timers(asked: Asked, state: TimerState | None) -> tuple[list[Delayed], int, int, int]:
    """The timers that wait, the one that is due first at the start; how many the store has for itself; how many records
    were looked at; of how many."""
    if state is None:
        return [], 0, 0, 0
    first, end = asked.store.queue_bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
    start, now_ms = max(first, end - LOOKED_AT), asked.now_ms
    records = read_some(asked.store, TIMER_TOPIC, TIMER_QUEUE_ID, start, end)
    cancelled = {each.properties[props.TIMER_CANCELLED_KEY] for each in records if _is_cancellation(each)}
    found: list[Delayed] = []
    own_count = 0
    for each in records:
        slot = each.properties.get(props.TIMER_OUT_MS, "")
        if _is_cancellation(each) or not NUMBER.fullmatch(slot) or int(slot) + PRECISION_MS <= now_ms:
            continue
        topic = each.properties.get(props.REAL_TOPIC, "")
        if is_system_topic(topic):
            own_count += 1
        elif not is_cancelled(topic, each.uniq_key or "", cancelled):
            found.append(Delayed(each, topic, int(slot) + PRECISION_MS, int(slot) + PRECISION_MS))
    return sorted(found, key=lambda each: each.due_ms), own_count, end - start, end - first


def _is_cancellation(message: StoredMessage) -> bool:
    return props.TIMER_CANCELLED_KEY in message.properties


def cancel(asked: Asked) -> Answer:
    """`/cancel`, a write: first what it would do, and with `confirmed` doing it."""
    topic, uniq_key, due = asked.field("topic"), asked.field("uniq_key"), asked.field("due")
    if not NUMBER.fullmatch(due):
        raise PageError(f"due is {due[:40]!r}: expected milliseconds since 1970")
    if asked.field("confirmed"):
        asked.store.cancel_timer(topic, uniq_key, int(due))
        return Answer(redirect=asked.href("/delays", done="cancelled"))
    return asked.page(
        "confirm.html",
        "Cancel the delayed message?",
        action="/cancel",
        back=asked.href("/delays"),
        button="Cancel the delayed message",
        fields={"topic": [topic], "uniq_key": [uniq_key], "due": [due]},
        question="Cancel the delayed message?",
        heading=("Topic", "Unique key", "Due"),
        rows=[(visible(topic), visible(uniq_key), time(int(due)))],
        warning="It is then never delivered, and cannot be brought back.",
    )
