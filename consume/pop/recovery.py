"""At the opening: the offsets of pops that were not written, from the check points in the log.

Offsets are written every few seconds, check points at once. So after a crash a group would go on before messages that
it popped, and acknowledged perhaps, and get them again while they are invisible. Each check point of a pop says where
its group goes on (NEXT_OFFSET), and `config/consumerOffset.json` up to where in the log they are in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...engine.message_store import MessageStore
from ...schedule.timer_request import TIMER_QUEUE_ID, TIMER_TOPIC
from ...store.format import property_names as props
from ...store.stored_message import StoredMessage
from .check_point import CHECK_POINT_TAG, NEXT_OFFSET, read_check_point
from .pop_topics import REVIVE_QUEUE_COUNT, REVIVE_TOPIC


def recover_offsets(store: MessageStore) -> None:
    """To be called once, when the store was opened. Raises as `read`, and DiskError."""
    popped_before = store.offsets.popped_before
    if popped_before is None or popped_before >= store.offsets.log_end():
        return
    for message in _put_behind(store, popped_before):
        properties = message.properties
        next_offset = properties.get(NEXT_OFFSET, "")
        if message.tags != CHECK_POINT_TAG or not next_offset.isdecimal():
            continue
        key = read_check_point(message.body).key
        if store.topic(key.topic) is not None and int(next_offset) <= store.queue_bounds(key.topic, key.queue_id)[1]:
            at = store.offsets.get(key.group, key.topic, key.queue_id)
            store.offsets.set(key.group, key.topic, key.queue_id, max(int(next_offset), at or 0))
    store.offsets.save()


def _put_behind(store: MessageStore, physical_offset: int) -> Iterator[StoredMessage]:
    """Everything that was put to the revive topic at or behind this offset: what had to wait is a timer, and what was
    due at once is in the topic itself, as is every timer that was delivered."""
    for message in _read_behind(store, TIMER_TOPIC, TIMER_QUEUE_ID, physical_offset):
        properties = message.properties
        if properties.get(props.REAL_TOPIC) == REVIVE_TOPIC and props.TIMER_ROLL_TIMES not in properties:
            yield message
    for queue_id in range(REVIVE_QUEUE_COUNT):
        for message in _read_behind(store, REVIVE_TOPIC, queue_id, physical_offset):
            if props.TIMER_OUT_MS not in message.properties:
                yield message


def _read_behind(store: MessageStore, topic: str, queue_id: int, physical_offset: int) -> Iterator[StoredMessage]:
    low, high = store.queue_bounds(topic, queue_id)
    while low < high:
        middle = (low + high) // 2
        found = store.get(topic, queue_id, middle, 1).messages
        if found and found[0].physical_offset >= physical_offset:
            high = middle
        else:
            low = middle + 1
    return store.read(topic, queue_id, low, on_corrupt="skip")
