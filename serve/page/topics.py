"""The first view, with what needs a person's eye on top, and the view of one topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice

from ...consume.group.group_state import GroupState
from ...consume.retry.send_back import dead_letter_topic
from ...consume.store import Store
from ...store.format.record import DEAD_LETTER_PREFIX, RETRY_TOPIC_PREFIX
from ...store.stored_message import StoredMessage
from ...store.topic import MAX_ROUTED_QUEUES
from .site import Answer, Asked, PageError, bounds_by_topic, message_count

LISTED = 25
"""Messages of one list."""
LOOKED_AT = 64
"""Queues that the newest messages of a topic are looked for in."""


@dataclass(frozen=True)
class GroupRow:
    """A group, in a list."""

    state: GroupState
    member_count: int
    dead_count: int


def overview(asked: Asked) -> Answer:
    """`/`: the state of the store, groups by lag, and topics."""
    store, bounds = asked.store, bounds_by_topic(asked.store)
    topics = [
        (topic, message_count(bounds.get(name, {})))
        for name, topic in sorted(store.topics().items())
        if not name.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_PREFIX))
    ]
    statistics = store.statistics()
    waiting = sum(level.pending for level in statistics.delays)
    waiting += 0 if statistics.timers is None else statistics.timers.pending
    groups = group_rows(asked, bounds)
    return asked.page(
        "overview.html", "Overview", statistics=statistics, topics=topics, groups=groups, waiting_count=waiting
    )


def group_rows(asked: Asked, bounds: Mapping[str, Mapping[int, tuple[int, int]]]) -> list[GroupRow]:
    """The groups, the one that is furthest behind first."""
    connected = asked.site.connected()
    rows = [
        GroupRow(
            state,
            len(state.members) + len(connected.get(name, ())),
            message_count(bounds.get(dead_letter_topic(name), {})),
        )
        for name, state in asked.store.groups().items()
    ]
    return sorted(rows, key=lambda row: (-row.state.lag, -row.dead_count, row.state.name))


def topic(asked: Asked) -> Answer:
    """`/topic`: one topic, its queues, and its messages."""
    name = asked.needed("name")
    found = asked.store.topics(include_system=True).get(name)
    if found is None:
        raise PageError(f"there is no topic {name!r}", HTTPStatus.NOT_FOUND)
    bounds = bounds_by_topic(asked.store).get(name, {})
    queue_id, before = asked.number("queue"), asked.number("before")
    if queue_id is None:
        messages, older = newest(asked.store, name, bounds), None
    else:
        first, end = bounds.get(queue_id, (0, 0))
        stop = min(end if before is None else before, end)
        start = max(stop - LISTED, first)
        messages = list(reversed(read_some(asked.store, name, queue_id, start, stop)))
        older = start if start > first else None
    readers = [state for state in asked.store.groups().values() if name in state.topics]
    count = found.read_queue_count
    queue_ids = sorted({*range(min(count, MAX_ROUTED_QUEUES)), *bounds})
    queue_count = count + sum(each >= count for each in bounds)
    return asked.page(
        "topic.html",
        name,
        topic=found,
        queues=[(each, *bounds.get(each, (0, 0))) for each in queue_ids],
        queue_count=queue_count,
        unlisted_count=queue_count - len(queue_ids),
        queue_id=queue_id,
        messages=messages,
        older=older,
        message_count=message_count(bounds),
        is_part=len(bounds) > LOOKED_AT,
        looked_at=LOOKED_AT,
        readers=readers,
    )


def newest(store: Store, topic: str, bounds: Mapping[int, tuple[int, int]]) -> list[StoredMessage]:
    """The newest messages of a topic's queues, of the first LOOKED_AT that have any."""
    having = [(queue_id, *ends) for queue_id, ends in bounds.items() if ends[1] > ends[0]][:LOOKED_AT]
    found: list[StoredMessage] = []
    for queue_id, first, end in having:
        found += read_some(store, topic, queue_id, max(end - LISTED, first), end)
    return newest_first(found)[:LISTED]


def newest_first(messages: Iterable[StoredMessage]) -> list[StoredMessage]:
    return sorted(messages, key=lambda each: (each.store_timestamp_ms, each.physical_offset), reverse=True)


def read_some(store: Store, topic: str, queue_id: int, start: int, stop: int) -> list[StoredMessage]:
    """The messages of a range of queue offsets; those that are damaged are left out."""
    if start >= stop:
        return []
    found = store.read(topic, queue_id, start, on_corrupt="skip")
    return [each for each in islice(found, stop - start) if each.queue_offset < stop]
