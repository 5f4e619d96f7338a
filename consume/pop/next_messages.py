"""The messages that a group pops next from a queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...engine.message_store import MessageStore
from ...store.errors import FlightlogError
from ...store.get_result import GetResult, GetStatus
from ...store.queue_offsets import QueueKey
from ..group.initial_offset import start_offset
from .pop_request import PopRequest


def queues_to_pop(store: MessageStore, request: PopRequest, queues: Sequence[QueueKey]) -> Iterator[QueueKey]:
    """Those of these queues in which the group is not at the end, in their order. A receive that has enough with the
    first one has nothing dispatched."""
    ready = _ready(store, request, queues)
    if ready is not None:
        yield ready
    yield from (queue for queue in _not_at_end(store, request.group, queues) if queue != ready)


def _ready(store: MessageStore, request: PopRequest, queues: Sequence[QueueKey]) -> QueueKey | None:
    """The first queue that the group has messages in, if those that are in it fill the receive."""
    dispatched = store.dispatched
    for queue in queues:
        start, end = store.offsets.get(request.group, *queue), dispatched.end_offset(queue)
        if start is None or start > end:  # the group begins there, or goes back to the end
            return None
        if start < end:
            return queue if dispatched.holds(queue, start, request.max_count) else None
    return None


def _not_at_end(store: MessageStore, group: str, queues: Sequence[QueueKey]) -> list[QueueKey]:
    """Those of these queues, in their order, whose end is not the group's offset: a `get` of each costs five times as
    much as one look at all ends."""
    try:
        ends = store.end_offsets(queues)
    except FlightlogError:  # a `get` of each tells why
        return [*queues]
    return [queue for queue, end in zip(queues, ends, strict=True) if store.offsets.get(group, *queue) != end]


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
        get = store.dispatched.get if store.dispatched.holds(queue, start, room) else store.get
        found = get(*queue, start, room, tags=request.wanted)
        stays = found.next_queue_offset == start or found.status is GetStatus.NO_MESSAGE_IN_QUEUE
        if found.messages or stays:
            return start, found
        start = found.next_queue_offset  # passed over: of other tags, removed, or beyond the end
        offsets.set(group, *queue, start)
        store.check_usable()
