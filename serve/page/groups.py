"""Consumer groups: how far they are behind, why, and moving their offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import islice
from typing import Any

from ...consume.group.group_state import GroupState
from ...consume.retry.send_back import dead_letter_topic
from ...consume.store import Store
from ...store.format.record import INT64_MAX, RETRY_TOPIC_PREFIX
from ...store.queue_offsets import QueueKey
from ...store.topic import TopicPermission
from ..calls.clients import ConnectedClient
from .shown import duration, plural, visible
from .site import NUMBER, Answer, Asked, PageError, bounds_by_topic, checked_time_ms, message_count, retry_topics
from .topics import group_rows

SKEW = 0.8
"""From which share of the lag one queue is named as the reason."""
SKIPPED = "Skipped messages will not be delivered. Those that the group goes back to will be delivered again."
REMOTING = (
    " Remoting clients of the group are connected, which write their own offsets again: close them first, or reset "
    "with mqadmin, which tells them."
)
AGES_MAX = 64
"""Queues whose first waiting message is looked at, those that are furthest behind."""


@dataclass(frozen=True)
class QueueRow:
    """A queue as a group reads it."""

    topic: str
    queue_id: int
    first: int
    end: int
    offset: int | None
    """Where the group goes on; None: it has not begun here."""
    lag: int
    owner: str
    """The member in this process that has the queue; empty if there is none."""
    waiting_ms: int | None
    """How long its first waiting message has been in the store."""

    @property
    def is_retry(self) -> bool:
        return self.topic.startswith(RETRY_TOPIC_PREFIX)


def groups(asked: Asked) -> Answer:
    """`/groups`: all of them, the one that is furthest behind first."""
    return asked.page("groups.html", "Groups", groups=group_rows(asked, bounds_by_topic(asked.store)))


def group(asked: Asked) -> Answer:
    """`/group`: one group, and why it lags."""
    state = _state(asked)
    bounds = bounds_by_topic(asked.store)
    dead_count = message_count(bounds.get(dead_letter_topic(state.name), {}))
    clients = asked.site.connected().get(state.name, ())
    queues = _queues(asked.store, state, bounds, asked.now_ms)
    return asked.page(
        "group.html",
        state.name,
        group=state,
        queues=queues,
        clients=clients,
        dead_count=dead_count,
        reasons=reasons(asked.store, state, queues, clients),
        topics=[name for name in state.topics if not name.startswith(RETRY_TOPIC_PREFIX)],
    )


def _state(asked: Asked) -> GroupState:
    name = asked.field("name") or asked.needed("name")
    found = asked.store.groups(include_system=True).get(name)
    if found is None:
        raise PageError(f"there is no group {name!r}", HTTPStatus.NOT_FOUND)
    return found


def _queues(
    store: Store, state: GroupState, bounds: Mapping[str, Mapping[int, tuple[int, int]]], now_ms: int
) -> list[QueueRow]:
    lags = store.lag(state.name)
    offsets = {topic: store.group_offsets(state.name, topic) for topic in state.topics}
    for topic in retry_topics(state.name, state.topics):  # its first message may have come before the first offset
        if topic in bounds and topic not in offsets:
            offsets[topic] = {}
            lags |= {(topic, queue_id): end - first for queue_id, (first, end) in bounds[topic].items()}
    keys = sorted(
        {*lags, *state.owners, *((topic, queue_id) for topic in offsets for queue_id in offsets[topic])},
        key=lambda key: (-lags.get(key, 0), key),
    )
    rows = []
    for place, key in enumerate(keys):
        first, end = bounds.get(key[0], {}).get(key[1], (0, 0))
        lag, offset = lags.get(key, 0), offsets.get(key[0], {}).get(key[1])
        waiting_ms = _waiting_ms(store, key, end - lag, now_ms) if lag and place < AGES_MAX else None
        rows.append(QueueRow(*key, first, end, offset, lag, state.owners.get(key, ""), waiting_ms))
    return rows


def _waiting_ms(store: Store, key: QueueKey, queue_offset: int, now_ms: int) -> int | None:
    found = next(islice(store.read(*key, queue_offset, on_corrupt="skip"), 1), None)
    return None if found is None else max(now_ms - found.store_timestamp_ms, 0)


def reasons(
    store: Store, state: GroupState, queues: Sequence[QueueRow], clients: Sequence[ConnectedClient]
) -> list[str]:
    """Why the group lags, in sentences, the likeliest first; empty if it does not."""
    behind = [queue for queue in queues if queue.lag]
    lag = sum(queue.lag for queue in behind)
    if not lag:
        return []
    found = []
    if not state.settings.is_enabled:
        found.append("The group is disabled (consumeEnable is false): its members receive nothing.")
    if not state.members and not clients:
        found.append("No member is connected: nothing receives its messages.")
    for topic in sorted({queue.topic for queue in behind}):
        topic_settings = store.topic(topic)
        if topic_settings is not None and not topic_settings.perm & TopicPermission.READ:
            found.append(f"Topic {visible(topic)} is closed for consumers: its permission has no read.")
    if state.members and not state.is_broadcasting:
        ownerless = [queue for queue in behind if not queue.owner]
        if ownerless:
            found.append(f"No member has {plural(len(ownerless), 'queue')} with waiting messages.")
    retries = sum(queue.lag for queue in behind if queue.is_retry)
    if retries:
        found.append(f"{plural(retries, 'message')} failed before and wait to be delivered again.")
    worst = max(behind, key=lambda queue: queue.lag)
    if len(queues) > 1 and worst.lag >= SKEW * lag:
        owner = f", which {visible(worst.owner)} has" if worst.owner else ""
        share = f"{worst.lag * 100 // lag} % of the lag"
        found.append(f"{share} is in queue {worst.queue_id} of {visible(worst.topic)}{owner}.")
    oldest = max((queue.waiting_ms for queue in behind if queue.waiting_ms is not None), default=None)
    if oldest is not None:
        found.append(f"The first waiting message has been in the store for {duration(oldest)}.")
    if state.members or clients:
        members = plural(len(state.members) + len(clients), "member is", "members are")
        found.append(f"{members} connected: load this page again to see whether the offsets move.")
    return found


def reset(asked: Asked) -> Answer:
    """`/reset`, a write: first what it would do, and with `confirmed` doing it."""
    state, topic = _state(asked), asked.field("topic")
    target, queue_id = _target(asked), _queue_id(asked)
    if asked.field("confirmed"):
        asked.store.reset_offset(state.name, topic, target, queue_id=queue_id)
        return Answer(redirect=asked.href("/group", name=state.name, done="reset"))
    before, clients = asked.store.group_offsets(state.name, topic), asked.site.connected().get(state.name, ())
    place = visible(topic) if queue_id is None else f"queue {queue_id} of {visible(topic)}"
    after = asked.store.reset_offset(state.name, topic, target, queue_id=queue_id, dry_run=True)
    return asked.page(
        "confirm.html",
        "Reset offsets?",
        action="/reset",
        back=asked.href("/group", name=state.name),
        button="Reset offsets",
        fields={name: [asked.field(name)] for name in ("name", "topic", "queue", "to", "time", "offset")},
        question=f"Reset the offsets of group {visible(state.name)} in {place}?",
        heading=("Queue", "Next offset now", "Next offset then", "Messages"),
        rows=[_change(queue_id, before.get(queue_id), offset) for queue_id, offset in sorted(after.items())],
        warning=SKIPPED + (REMOTING if any(each.kind.startswith("remoting") for each in clients) else ""),
    )


def _change(queue_id: int, before: int | None, after: int) -> tuple[str, str, str, str]:
    moved = after - (before or 0)
    what = "no change" if not moved else f"{abs(moved):,} {'skipped' if moved > 0 else 'delivered again'}"
    return str(queue_id), "not begun" if before is None else f"{before:,}", f"{after:,}", what


def _target(asked: Asked) -> Any:
    """What `reset_offset` takes. Raises PageError."""
    to = asked.field("to")
    if to in ("first", "last"):
        return to
    if to == "time":
        return datetime.fromtimestamp(checked_time_ms(asked.field("time")) / 1000, UTC)
    if to == "offset":
        return _number(asked, "offset")
    raise PageError(f"to is {to[:40]!r}: expected first, last, time or offset")


def _queue_id(asked: Asked) -> int | None:
    """One queue, or None for all. Raises PageError."""
    if not asked.field("queue").strip():
        return None
    queue_id, topic = _number(asked, "queue"), asked.store.topic(asked.field("topic"))
    if topic is not None and queue_id >= topic.queue_count:
        raise PageError(f"queue is {queue_id}: {visible(topic.name)} has the queues 0 to {topic.queue_count - 1}")
    return queue_id


def _number(asked: Asked, name: str) -> int:
    text = asked.field(name).strip()
    if not NUMBER.fullmatch(text) or int(text) > INT64_MAX:
        raise PageError(f"{name} is {text[:40]!r}: expected a whole number")
    return int(text)
