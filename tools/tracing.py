"""The life of a message, from the records with its key: half, commit, delays, retries, dead letter, who read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..engine.read.selection import Selection
from ..engine.read_only import ReadOnlyStore
from ..engine.topics.offset_table import read_offsets
from ..produce.transaction.half_message import DISCARDED_TOPIC, OP_TOPIC, half_queue_offsets
from ..schedule.delay_level_table import SCHEDULE_TOPIC
from ..schedule.delivered import HALF_TOPIC
from ..schedule.timer_request import TIMER_TOPIC
from ..store.disk.disk import RealDisk
from ..store.format import property_names as props
from ..store.format.record import DEAD_LETTER_PREFIX, RETRY_TOPIC_PREFIX
from ..store.format.sys_flag import TRANSACTION_COMMIT
from ..store.stored_message import StoredMessage
from .records.fields import iso_time


@dataclass(frozen=True, slots=True)
class Step:
    """One record of a message's life."""

    message: StoredMessage
    what: str
    """What the record is, in words."""
    read_by: dict[str, bool]
    """Consumer groups that read its topic, and whether each has gone past it. Empty for what no group reads."""


def trace(view: ReadOnlyStore, key: str) -> list[Step]:
    """The records with this key or uniq key, in the order in which they were stored, and those that share a uniq key
    with one of them. Raises as `query`; damaged records are left out, and counted in `view.corrupt_skipped`."""
    found = {(each.physical_offset, each.batch_index): each for each in _with_key(view, key)}
    for uniq_key in {each.uniq_key for each in found.values() if each.uniq_key and each.uniq_key != key}:
        found |= {(each.physical_offset, each.batch_index): each for each in _with_key(view, uniq_key)}
    messages = sorted(found.values(), key=lambda each: (each.physical_offset, each.batch_index or 0))
    over = _over(view) if any(each.topic == HALF_TOPIC for each in messages) else set()
    groups = read_offsets(RealDisk(), view.path)
    return [Step(each, _what(each, over), _read_by(each, groups)) for each in messages]


def _with_key(view: ReadOnlyStore, key: str) -> Iterator[StoredMessage]:
    return Selection(key=key, include_system=True).messages(view, on_corrupt="skip")


def _over(view: ReadOnlyStore) -> set[int]:
    """Queue offsets of the half messages that were committed, rolled back or put again."""
    queues = [queue_id for topic, queue_id in view.queues() if topic == OP_TOPIC]
    ops = (op for queue_id in queues for op in view.read(OP_TOPIC, queue_id, on_corrupt="skip"))
    return {offset for op in ops for offset in half_queue_offsets(op)}


def _what(message: StoredMessage, over: set[int]) -> str:
    topic, properties = message.topic, message.properties
    real_topic = properties.get(props.REAL_TOPIC, "?")
    if topic == HALF_TOPIC:
        return f"half message for {real_topic}, {'over with' if message.queue_offset in over else 'not decided yet'}"
    if topic == DISCARDED_TOPIC:
        return f"half message for {real_topic}, given up after its checks"
    if topic == SCHEDULE_TOPIC:
        return f"waits for delay level {message.queue_id + 1}, for {real_topic}"
    if topic == TIMER_TOPIC:
        if props.TIMER_CANCELLED_KEY in properties:
            return "cancels a timer"
        due = properties.get(props.TIMER_OUT_MS, "")
        return f"waits until {iso_time(int(due)) if due.isdigit() else 'a time that cannot be read'}, for {real_topic}"
    if topic.startswith(DEAD_LETTER_PREFIX):
        group = topic.removeprefix(DEAD_LETTER_PREFIX)
        return f"dead letter of {group}, from {properties.get(props.RETRY_TOPIC, '?')}"
    if topic.startswith(RETRY_TOPIC_PREFIX):
        group = topic.removeprefix(RETRY_TOPIC_PREFIX)
        return f"comes again to {group}, attempt {message.reconsume_times + 1}"
    if message.transaction_type == TRANSACTION_COMMIT:
        return "committed"
    if props.REAL_TOPIC in properties or any(name in properties for name in (props.DELAY, *props.TIMER_PROPERTIES)):
        return "delivered after its delay"
    return "put"


def _read_by(message: StoredMessage, groups: dict[str, dict[str, dict[int, int]]]) -> dict[str, bool]:
    return {
        group: offsets[message.topic][message.queue_id] > message.queue_offset
        for group, offsets in sorted(groups.items())
        if message.queue_id in offsets.get(message.topic, {})
    }
