"""The messages that a group pops next from a queue."""

from __future__ import annotations

from ...engine.message_store import MessageStore
from ...store.get_result import GetResult, GetStatus
from ...store.queue_offsets import QueueKey
from ..group.initial_offset import start_offset
from .pop_request import PopRequest


def next_messages(store: MessageStore, request: PopRequest, queue: QueueKey, room: int) -> tuple[int, GetResult]:
    """From which queue offset on they are, and up to `room` of them; the group's offset has passed over messages of
    other tags. To be called under the lock of the group's queue. Raises as `get`, and DiskError."""
    group, offsets = request.group, store.offsets
    start = offsets.get(group, *queue)
    if start is None:
        start = start_offset(store, *queue, request.start, store.queue_bounds(*queue))
        offsets.set(group, *queue, start)
        offsets.save()  # else, after a crash, it might begin at another place
    while True:
        found = store.get(*queue, start, room, tags=request.wanted)
        stays = found.next_queue_offset == start or found.status is GetStatus.NO_MESSAGE_IN_QUEUE
        if found.messages or stays:
            return start, found
        start = found.next_queue_offset  # passed over: of other tags, removed, or beyond the end
        offsets.set(group, *queue, start)
