"""How many transactions are open in a store at rest, or beside its writer."""

from __future__ import annotations

from ...engine.read_only import ReadOnlyStore
from ...engine.topics.offset_table import read_offsets
from ...schedule.delivered import HALF_TOPIC
from ...store.disk.disk import RealDisk
from .half_message import CHECK_GROUP, OP_TOPIC, QUEUE_ID, half_queue_offsets


def open_half_messages(view: ReadOnlyStore) -> int:
    """Half messages that are neither committed nor rolled back, and that no check has given up. Reads the op messages
    from where the last round of checks was. Raises ConfigFileError, StoreClosedError, DiskError."""
    first, end = view.queue_bounds(HALF_TOPIC, QUEUE_ID)
    if first >= end:
        return 0
    checked = read_offsets(RealDisk(), view.path).get(CHECK_GROUP, {})
    begin = max(checked.get(HALF_TOPIC, {}).get(QUEUE_ID, 0), first)
    ops = view.read(OP_TOPIC, QUEUE_ID, checked.get(OP_TOPIC, {}).get(QUEUE_ID, 0), on_corrupt="skip")
    over = {offset for op in ops for offset in half_queue_offsets(op) if begin <= offset < end}
    return end - begin - len(over)
