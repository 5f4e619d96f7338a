"""At the opening: the offsets of pops that were not written, from the check points in the log.

Offsets are written every few seconds, check points at once. So after a crash a group would go on before messages that
it popped, and acknowledged perhaps, and get them again while they are invisible. Each check point of a pop says where
its group goes on (NEXT_OFFSET), and `config/consumerOffset.json` up to where in the log they are in it.
"""

from __future__ import annotations

from ...engine.message_store import MessageStore
from ...schedule.timer_request import TIMER_QUEUE_ID, TIMER_TOPIC
from ...store.format import property_names as props
from .check_point import CHECK_POINT_TAG, NEXT_OFFSET, read_check_point
from .pop_topics import REVIVE_TOPIC


def recover_offsets(store: MessageStore) -> None:
    """To be called once, when the store was opened. Raises as `read`, and DiskError."""
    popped_before = store.offsets.popped_before
    if popped_before is None or popped_before >= store.offsets.log_end():
        return
    for message in store.read(TIMER_TOPIC, TIMER_QUEUE_ID, _first_at(store, popped_before), on_corrupt="skip"):
        properties = message.properties
        next_offset = properties.get(NEXT_OFFSET, "")
        is_own = properties.get(props.REAL_TOPIC) == REVIVE_TOPIC and message.tags == CHECK_POINT_TAG
        if not is_own or not next_offset.isdecimal() or props.TIMER_ROLL_TIMES in properties:
            continue
        key = read_check_point(message.body).key
        if store.topic(key.topic) is not None and int(next_offset) <= store.queue_bounds(key.topic, key.queue_id)[1]:
            at = store.offsets.get(key.group, key.topic, key.queue_id)
            store.offsets.set(key.group, key.topic, key.queue_id, max(int(next_offset), at or 0))
    store.offsets.save()


def _first_at(store: MessageStore, physical_offset: int) -> int:
    """The queue offset of the first timer that was put at or behind this physical offset."""
    low, high = store.queue_bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
    while low < high:
        middle = (low + high) // 2
        found = store.get(TIMER_TOPIC, TIMER_QUEUE_ID, middle, 1).messages
        if found and found[0].physical_offset >= physical_offset:
            high = middle
        else:
            low = middle + 1
    return low
