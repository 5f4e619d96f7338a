"""What a store has yet to hand out or deliver of the oldest part of its log, for retention by consumption.

    a queue of                     keeps what is at or behind
    a topic                        the lowest offset of the groups that have one in the topic; a group that has begun
                                   in the topic and not in this queue has read nothing of it; without any group: all
    messages in process by pop     the lowest offset of the check points that may still bring messages back
    SCHEDULE_TOPIC_XXXX            the first message that is not delivered
    rmq_sys_wheel_timer            all, in segments with a timer that is not due and delivered
    rmq_sys_REVIVE_LOG_...         the first check point that is not worked off
    rmq_sys_FLIGHTLOG_ORDER_INFO   the offset of its group: what consumerOrderInfo.json does not include
    the half and the op topic      the offset of CID_RMQ_SYS_TRANS, which rounds of checks move: as of any topic

So dead letters keep their segments until a group consumes their topic or it is deleted. Transactions that were given up
do until a group consumes TRANS_CHECK_MAX_TIME_TOPIC, which cannot be deleted.

Check points wait on the timer wheel until their messages are to come back: each look reads the timers that are new
since the last one, the first look those that `timer_max_delay_s` (three days at least) lets wait: older ones were
delivered, or put again.

Invariants:
- Offsets are read before check points: a pop stores its check point before it moves its group's offset.
- What the timers have delivered is asked before the revive topic is read, so a check point is in one of the two.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, suppress
from itertools import islice

from ..engine.message_store import MessageStore
from ..engine.services.retention import HOUR_MS, Unread
from ..schedule.delay_level_table import SCHEDULE_TOPIC
from ..schedule.timer_request import PRECISION_MS, TIMER_QUEUE_ID, TIMER_TOPIC
from ..store.errors import StoreClosedError
from ..store.format import property_names as props
from ..store.queue_offsets import QueueKey
from ..store.settings import PAGE_SIZE
from ..store.stored_message import StoredMessage
from .pop.check_point import CHECK_POINT_TAG, read_check_point
from .pop.pop_topics import REVIVE_GROUP, REVIVE_PREFIX

LEAST_WAIT_S = 3 * 86_400
"""RocketMQ's limit of a timer, which another program may have had."""
BUCKET_MS = 10_000
"""Check points are remembered by the time at which they are over, rounded up to this."""
READ_COUNT = 50_000
"""Timers that one look reads at most, so that it does not hold up the flush service; it goes on with the next look."""

Place = tuple[str, str, int]
"""Group, topic and queue id."""


class StoreConsumption:
    """What one store has yet to hand out or deliver; see engine/services/retention.py. Not thread-safe. It does not
    hold the store's handle."""

    def __init__(self, store: MessageStore) -> None:
        self._store = weakref.ref(store)
        self._next_timer: int | None = None
        """The queue offset of the first timer that was not looked at; None before the first look."""
        self._over_ms: dict[int, int] = {}
        """Page of the log -> when the last timer in it is over; of pages with a timer that waits."""
        self._points: defaultdict[Place, dict[int, int]] = defaultdict(dict)
        """When check points on the wheel are over, in buckets -> the lowest queue offset of their messages."""

    def unread_below(self, end: int, entries_below: Callable[[QueueKey, int, int], int]) -> list[Unread]:
        """See Consumption."""
        store = self._store()
        if store is None:
            raise StoreClosedError("the store was closed")
        store.check_usable()
        settled_ms = store.timers.settled_ms(store.clock.now_ms())
        bounds, by_group = store.queues(), store.offsets.by_group()
        in_process, revived = self._revive_topics(store, bounds, by_group.get(REVIVE_GROUP, {}))
        found: Counter[tuple[str, str | None]] = Counter()
        if not self._read_timers(store, settled_ms):
            found[TIMER_TOPIC, None] += 1
        for place, buckets in self._points.items():
            in_process[place] = min(in_process.get(place, sys.maxsize), *buckets.values())
        by_topic: defaultdict[str, dict[str, Mapping[int, int]]] = defaultdict(dict)
        for name, topics in by_group.items():
            for topic, offsets in topics.items():
                by_topic[topic][name] = offsets
        levels = store.statistics().delays
        has_timers = any(page * PAGE_SIZE < end for page in self._over_ms)
        for key, (_, queue_end) in bounds.items():
            topic, queue_id = key
            needed: dict[str | None, int] = {}
            if topic == SCHEDULE_TOPIC:
                pending = levels[queue_id].pending if queue_id < len(levels) else queue_end
                needed[None] = queue_end - pending
            elif topic == TIMER_TOPIC:
                needed[None] = 0 if has_timers else queue_end
            elif key in revived:
                needed[REVIVE_GROUP] = revived[key]
            else:
                for name, begun in by_topic[topic].items():
                    needed[name] = min(begun.get(queue_id, 0), in_process.get((name, *key), sys.maxsize))
            for group, at in (needed or {None: 0}).items():
                if count := entries_below(key, at, end):
                    found[topic, group] += count
        return [Unread(topic, group, count) for (topic, group), count in found.items()]

    def _revive_topics(
        self, store: MessageStore, bounds: Mapping[QueueKey, object], worked_off: Mapping[str, Mapping[int, int]]
    ) -> tuple[dict[Place, int], dict[QueueKey, int]]:
        """The lowest offsets of messages whose check points were delivered and are not worked off; and the queue
        offset of the first of these in each revive queue, or where that was read to."""
        in_process: dict[Place, int] = {}
        first: dict[QueueKey, int] = {}
        for topic, queue_id in bounds:
            if not topic.startswith(REVIVE_PREFIX):
                continue
            at = worked_off.get(topic, {}).get(queue_id, -1) + 1
            first_point: int | None = None
            with closing(_read(store, topic, queue_id, at)) as messages:
                for message in messages:
                    at = message.queue_offset + 1
                    if (point := _point_of(message)) is not None:
                        first_point = message.queue_offset if first_point is None else first_point
                        place, offset = point
                        in_process[place] = min(in_process.get(place, offset), offset)
            first[topic, queue_id] = at if first_point is None else first_point
        return in_process, first

    def _read_timers(self, store: MessageStore, settled_ms: int) -> bool:
        """Take note of new timers, and forget those that are over. Whether all were read."""
        self._over_ms = {page: over_ms for page, over_ms in self._over_ms.items() if over_ms >= settled_ms}
        for place in tuple(self._points):
            kept = {over_ms: offset for over_ms, offset in self._points[place].items() if over_ms >= settled_ms}
            self._points[place] = kept
            if not kept:
                del self._points[place]
        first, end = store.queue_bounds(TIMER_TOPIC, TIMER_QUEUE_ID)
        if self._next_timer is None:
            wait_ms = max(store.settings.timer_max_delay_s, LEAST_WAIT_S) * 1000 + HOUR_MS
            self._next_timer = store.offset_at(TIMER_TOPIC, TIMER_QUEUE_ID, max(settled_ms - wait_ms, 0)) if end else 0
        at = max(self._next_timer, first)
        with closing(_read(store, TIMER_TOPIC, TIMER_QUEUE_ID, at)) as messages:
            for message in islice(messages, READ_COUNT):
                at = message.queue_offset + 1
                self._note(message, settled_ms)
        self._next_timer = at
        return at >= end

    def _note(self, message: StoredMessage, settled_ms: int) -> None:
        text = message.properties.get(props.TIMER_OUT_MS, "")
        over_ms = int(text) + PRECISION_MS if text.isdecimal() else 0
        if over_ms < settled_ms:
            return
        page = message.physical_offset // PAGE_SIZE
        self._over_ms[page] = max(self._over_ms.get(page, 0), over_ms)
        is_revived = message.properties.get(props.REAL_TOPIC, "").startswith(REVIVE_PREFIX)
        if is_revived and (point := _point_of(message)) is not None:
            place, offset = point
            buckets, bucket_ms = self._points[place], -(-over_ms // BUCKET_MS) * BUCKET_MS
            buckets[bucket_ms] = min(buckets.get(bucket_ms, offset), offset)


def _read(store: MessageStore, topic: str, queue_id: int, queue_offset: int) -> Generator[StoredMessage, None, None]:
    yield from store.read(topic, queue_id, queue_offset, on_corrupt="skip")


def _point_of(message: StoredMessage) -> tuple[Place, int] | None:
    """Where the messages of a check point are, the lowest of them; None for a message that is none."""
    if message.tags != CHECK_POINT_TAG:
        return None
    with suppress(ValueError):
        point = read_check_point(message.body)
        place = sys.intern(point.key.group), sys.intern(point.key.topic), point.key.queue_id
        return place, min(point.offsets, default=point.key.start_offset)
    return None
