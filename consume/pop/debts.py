"""What a group popped and has yet to get, and its subscriptions do not: a group that is received from, here or at a
broker whose folder this was, and subscribes then.

    in process    popped and not acknowledged: in check points, on the timer wheel or in a revive topic
    retries       not acknowledged in time: in the retry topics that only a receive looks at

RocketMQ's push consumers pass both over, too, and say nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ...engine.message_store import MessageStore
from ...engine.read_only import ReadOnlyStore
from ...engine.topics.offset_table import read_offsets
from ...schedule.timer_checkpoint import TimerCheckpoint, read_timer_checkpoint
from ...schedule.timer_request import TIMER_QUEUE_ID, TIMER_TOPIC
from ...store.disk.disk import Disk
from ...store.format import property_names as props
from ...store.format.record import RETRY_TOPIC_PREFIX
from ...store.settings import StoreSettings
from ...store.stored_message import StoredMessage
from ...store.topic import MAX_ROUTED_QUEUES, Topic
from .check_point import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECK_POINT_TAG,
    Ack,
    CheckPoint,
    CheckPointKey,
    read_ack,
    read_check_point,
)
from .pop_topics import REVIVE_GROUP, REVIVE_PREFIX, retry_topic

log = logging.getLogger("flightlog.pop")
AnyStore = MessageStore | ReadOnlyStore

RECENT_MS: Final = 60_000
"""So long before the time up to which the wheel is known to be delivered, revive topics are looked at for what is
worked off."""
READ_COUNT: Final = 50_000
"""Records of the wheel, and of each revive queue, that are looked at; what is behind them is not counted."""


@dataclass(frozen=True)
class PopDebts:
    """What pops owe in some topics of a group."""

    in_process: int
    retries: int

    def __bool__(self) -> bool:
        return bool(self.in_process or self.retries)


def pop_debts(store: MessageStore, group: str, topics: Set[str]) -> PopDebts:
    """Count them. Raises as `read`."""
    retries = {retry_topic(group, topic) for topic in topics}
    waiting = sum(_unread(store, group, name) for name in retries)
    if not _revive_topics(store):
        return PopDebts(0, waiting)
    settled_ms = store.timers.settled_ms(store.clock.now_ms())
    if not settled_ms:  # the wheel is not open
        settled_ms = (read_timer_checkpoint(store.disk, store.path) or TimerCheckpoint()).read_time_ms
    worked_off = store.offsets.by_group().get(REVIVE_GROUP, {})
    points = _open_points(store, store.settings, settled_ms, worked_off)
    of_group = (point for point in points if point.key.group == group and point.key.topic in topics | retries)
    return PopDebts(sum(len(point.open_offsets) for point in of_group), waiting)


def stored_check_points(view: ReadOnlyStore, settings: StoreSettings, disk: Disk) -> list[CheckPoint]:
    """Those of all groups with messages that are popped and not acknowledged, as the files of a store tell. Raises as
    `read`, and ConfigFileError."""
    settled_ms = (read_timer_checkpoint(disk, view.path) or TimerCheckpoint()).read_time_ms
    return _open_points(view, settings, settled_ms, read_offsets(disk, view.path).get(REVIVE_GROUP, {}))


def _open_points(
    store: AnyStore, settings: StoreSettings, settled_ms: int, worked_off: Mapping[str, Mapping[int, int]]
) -> list[CheckPoint]:
    points: dict[CheckPointKey, CheckPoint] = {}
    over: set[CheckPointKey] = set()
    acks: list[Ack] = []
    for message, is_over in _revive_records(store, settings, settled_ms, worked_off):
        with suppress(ValueError):  # the revive service tells of what means nothing
            if message.tags == CHECK_POINT_TAG:
                point = read_check_point(message.body)
                if is_over:
                    over.add(point.key)
                else:
                    points[point.key] = point
            elif message.tags in (ACK_TAG, BATCH_ACK_TAG):
                acks.append(read_ack(message.body, settings.broker_name))
    for ack in acks:
        if ack.key in points:
            points[ack.key].note_acked(ack.offsets)
    return [point for key, point in points.items() if key not in over and point.open_offsets]


def warn_of_pop_debts(stores: Iterable[MessageStore], group: str, topics: Set[str]) -> None:
    """Log what the group popped from these stores and its subscriptions do not get. Raises as `read`."""
    for store in stores:
        debts = pop_debts(store, group, topics)
        if debts:
            log.warning(
                "%s: group %s subscribes, and does not get what it received with `receive` (RocketMQ's pop) before: "
                "%d messages are not acknowledged, %d wait in its retry topics. Call receive for %s until it returns "
                "nothing any more, and subscribe then",
                *(store.path, group, debts.in_process, debts.retries, " and ".join(map(repr, sorted(topics)))),
                extra={"group": group, "in_process": debts.in_process, "retries": debts.retries},
            )


def warn_of_retries(store: MessageStore, group: str) -> None:
    """Log what waits in the retry topic that subscriptions of the group read, and a receive does not."""
    name = RETRY_TOPIC_PREFIX + group
    count = _unread(store, group, name)
    if count:
        log.warning(
            "%s: group %s receives, and does not get the %d messages that its subscriptions sent back, in %r. Close "
            "its receivers, subscribe until these are done, and receive then",
            *(store.path, group, count, name),
            extra={"group": group, "retries": count},
        )


def _unread(store: MessageStore, group: str, topic: str) -> int:
    found = store.topic(topic)
    count = 0
    for queue_id in _queue_ids(found) if found else ():
        first, end = store.queue_bounds(topic, queue_id)
        count += max(end - max(store.offsets.get(group, topic, queue_id) or 0, first), 0)
    return count


def _revive_topics(store: AnyStore) -> dict[str, Topic]:
    topics = store.topics(include_system=True)
    return {name: topic for name, topic in topics.items() if name.startswith(REVIVE_PREFIX)}


def _queue_ids(topic: Topic) -> range:
    """A topic of more queues is refused by whoever puts to it in turn or reads it."""
    return range(min(topic.read_queue_count, MAX_ROUTED_QUEUES))


def _revive_records(
    store: AnyStore,
    settings: StoreSettings,
    settled_ms: int,
    worked_off: Mapping[str, Mapping[int, int]],
) -> Iterator[tuple[StoredMessage, bool]]:
    """Check points and acks, in the revive topics and on the wheel; whether they are worked off. A killed writer's
    wheel has some that are so."""
    for name, topic in _revive_topics(store).items():
        for queue_id in _queue_ids(topic):
            over = worked_off.get(name, {}).get(queue_id, -1)
            recent = store.offset_at(name, queue_id, max(settled_ms - RECENT_MS, 0))
            for message in _read(store, name, queue_id, min(recent, over + 1)):
                yield message, message.queue_offset <= over
    first_ms = max(settled_ms - settings.timer_max_delay_s * 1000, 0)
    for message in _read(store, TIMER_TOPIC, TIMER_QUEUE_ID, store.offset_at(TIMER_TOPIC, TIMER_QUEUE_ID, first_ms)):
        due_text = message.properties.get(props.TIMER_OUT_MS, "")
        is_revived = message.properties.get(props.REAL_TOPIC, "").startswith(REVIVE_PREFIX)
        if is_revived and due_text.isdecimal() and int(due_text) >= settled_ms:
            yield message, False


def _read(store: AnyStore, topic: str, queue_id: int, queue_offset: int) -> Iterator[StoredMessage]:
    return islice(store.read(topic, queue_id, queue_offset, on_corrupt="skip"), READ_COUNT)
