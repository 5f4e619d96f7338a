"""What was popped and not acknowledged in time comes back: check points paired with their acks (`PopReviveService`).

One `revive` of a queue of the revive topic reads what is new there, marks what was acknowledged, and works off the
check points in order, up to the first one whose acks may still be on the wheel. Each message without an ack is put to
the group's retry topic, with `reconsume_times` one higher, unless the attempt does not count, and the time of its first
pop. Then the offset of the last check point is committed for the revive group.

Invariants:
- A check point is worked off more than SAFETY_MS after its messages became visible again, by a time that the timers
  have reached: an ack that was answered before the invisible time was over has been read by then.
- The committed offset is that of the last check point worked off: what comes behind it is read again by the next life,
  RocketMQ's broker included.
- A message whose dead letter was put since it was popped does not come again: its process ended before the ack.
- A message is put to the retry topic once, also where a crash comes before the next save of offsets: REVIVED names its
  pop, and the next life looks there.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from ....engine.message_store import MessageStore
from ....store.errors import CorruptQueueError, CorruptRecordError
from ....store.format import property_names as props
from ....store.format.crc_property import CRC_PROPERTY
from ....store.format.sys_flag import HOST_BITS, INNER_BATCH, NEED_UNWRAP
from ....store.message import Message
from ....store.stored_message import StoredMessage
from ...retry.dead_letters import DeadLetters
from ...retry.send_back import REVIVED, make_topic
from ..check_point import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECK_POINT_TAG,
    CheckPoint,
    CheckPointKey,
    check_point_message,
    read_ack,
    read_check_point,
)
from ..pop_topics import REVIVE_GROUP, REVIVE_TOPIC, retry_topic
from .revived_pops import RevivedPops, pop_of
from .waiting_points import PackedKeys, WaitingPoints

log = logging.getLogger("flightlog.pop")

SAFETY_MS = 2000
"""Acks leave the wheel within a second of their time, and a check point a second before it."""
FIRST_POP_TIME = "1ST_POP_TIME"
RECENT_MS = 60_000
"""How long the timers may have delivered without a save."""
RETRY_DELAYS_S = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""After how long a message that cannot be read is tried again (`ckRewriteIntervalsInSeconds`)."""


class ReviveQueue:
    """One queue of the revive topic. Not thread-safe."""

    def __init__(
        self, store: MessageStore, letters: DeadLetters, revived_pops: RevivedPops, queue_id: int, own_name: str
    ) -> None:
        self._store, self._letters, self._queue_id, self._own_name = store, letters, queue_id, own_name
        self._revived_pops = revived_pops
        worked_off = store.offsets.get(REVIVE_GROUP, REVIVE_TOPIC, queue_id)
        self._next_offset = 0 if worked_off is None else worked_off + 1
        self._worked_off_end = self._next_offset
        """Where this life began: check points before it were worked off by earlier ones."""
        self._points = WaitingPoints()
        self._worked_off: _WorkedOff | None = None
        """None: not looked at yet. After a crash the timers deliver again what they delivered since their last save,
        check points too."""

    def __len__(self) -> int:
        """How many check points wait here."""
        return len(self._points)

    def revive(self, now_ms: int) -> int:
        """Work off what is ripe; returns how many messages went to retry topics."""
        settled_ms = self._store.timers.settled_ms(now_ms)  # before the reading
        self._read_new()
        revived = 0
        for key in self._points.visible_before(settled_ms - SAFETY_MS):
            point = self._points.get(key)
            try:
                revived += self._work_off(point)
            except BaseException:  # what was put does not come a second time
                self._points.note_acked(point.key, point.acked_offsets)
                raise
            self._points.remove(key)
            self._store.offsets.set(REVIVE_GROUP, REVIVE_TOPIC, self._queue_id, point.revive_offset)
        return revived

    def _read_new(self) -> None:
        first, end = self._store.queue_bounds(REVIVE_TOPIC, self._queue_id)
        if self._next_offset >= end:
            return
        if self._worked_off is None:
            self._worked_off = self._last_worked_off()
        start = max(self._next_offset, first)
        for message in self._store.read(REVIVE_TOPIC, self._queue_id, start, on_corrupt="skip"):
            self._next_offset = message.queue_offset + 1
            try:
                self._note(message)
            except ValueError as e:
                text = "queue %d of the revive topic, offset %d: passed over: %s"
                log.warning(text, self._queue_id, message.queue_offset, e, extra={"cause": repr(e)})

    def _last_worked_off(self) -> _WorkedOff:
        """The check points that came within RECENT_MS before this life, as far as they were worked off."""
        found = _WorkedOff()
        if self._worked_off_end == 0:
            return found
        last = self._store.get(REVIVE_TOPIC, self._queue_id, self._worked_off_end - 1, 1).messages
        if not last:
            return found
        start = self._store.offset_at(REVIVE_TOPIC, self._queue_id, max(last[0].store_timestamp_ms - RECENT_MS, 0))
        for message in self._store.read(REVIVE_TOPIC, self._queue_id, start, on_corrupt="skip"):
            if message.queue_offset >= self._worked_off_end:
                break
            if message.tags == CHECK_POINT_TAG:
                with suppress(ValueError):
                    found.add(read_check_point(message.body))
        return found

    def _note(self, message: StoredMessage) -> None:
        if message.tags == CHECK_POINT_TAG:
            point = read_check_point(message.body)
            if self._worked_off and point in self._worked_off:
                return
            point.revive_offset = message.queue_offset
            self._points.add(point)
        elif message.tags in (ACK_TAG, BATCH_ACK_TAG):
            ack = read_ack(message.body, self._own_name)
            self._points.note_acked(ack.key, ack.offsets)

    def _work_off(self, point: CheckPoint) -> int:
        key = point.key
        own_retry = retry_topic(key.group, "")
        is_retry = key.topic.startswith(own_retry)
        normal = key.topic.removeprefix(own_retry)
        if self._store.topic(normal) is None:  # the topic was deleted
            return 0
        retry = key.topic if is_retry else retry_topic(key.group, key.topic)
        revived = 0
        for offset in point.open_offsets:
            try:
                found = self._store.get(key.topic, key.queue_id, offset, 1).messages
            except (CorruptRecordError, CorruptQueueError) as e:
                log.error("a message that comes again cannot be read: %s", e, extra={"topic": key.topic})
                self._put_again(point, offset)
            else:
                is_there = bool(found) and found[0].queue_offset == offset  # else retention removed it
                if is_there and not self._is_done(point, found[0], retry):
                    make_retry_topic(self._store, key.group, retry)
                    self._store.put(retried(found[0], retry, key, is_counted=not point.is_uncounted))
                    revived += 1
            point.note_acked((offset,))  # not a second time if a later one fails
        return revived

    def _is_done(self, point: CheckPoint, message: StoredMessage, retry: str) -> bool:
        """Whether the message was given up, or a life that ended before its offsets were saved has put it there."""
        key = point.key
        return self._revived_pops.has(retry, key, message.queue_offset, point.revive_ms) or self._letters.has(
            key.group, message, key.pop_time_ms
        )

    def _put_again(self, point: CheckPoint, offset: int) -> None:
        delay_ms = 1000 * RETRY_DELAYS_S[min(point.put_count, len(RETRY_DELAYS_S) - 1)]
        again = CheckPoint(
            *(point.key._replace(start_offset=offset), point.invisible_ms + delay_ms, (offset,), point.put_count + 1),
            is_uncounted=point.is_uncounted,
        )
        self._store.put(check_point_message(again, self._queue_id))


class _WorkedOff:
    """Check points of earlier lives, packed: there may be as many as come in RECENT_MS."""

    def __init__(self) -> None:
        self._keys = PackedKeys()
        self._found: set[tuple[bytes, int] | bytes] = set()

    def __len__(self) -> int:
        return len(self._found)

    def add(self, point: CheckPoint) -> None:
        """Raises ValueError for numbers that no check point has."""
        self._found.add(self._name(point))

    def __contains__(self, point: CheckPoint) -> bool:
        return self._name(point) in self._found

    def _name(self, point: CheckPoint) -> tuple[bytes, int] | bytes:
        """Few are put again."""
        packed = self._keys.pack(point.key)
        return (packed, point.put_count) if point.put_count else packed


def make_retry_topic(store: MessageStore, group: str, name: str) -> None:
    """A retry topic has one queue, and its group begins there with the first message."""
    make_topic(store, name, 1)
    if store.offsets.get(group, name, 0) is None:
        store.offsets.set(group, name, 0, 0)


def retried(found: StoredMessage, retry: str, key: CheckPointKey, *, is_counted: bool) -> Message:
    """The message to put to the retry topic. A delay that it had when it was sent is over."""
    left_out = (CRC_PROPERTY, props.DELAY, props.INNER_COUNT, props.INNER_BASE)
    properties = {name: value for name, value in found.properties.items() if name not in left_out}
    if found.reconsume_times == 0 or FIRST_POP_TIME not in properties:
        properties[FIRST_POP_TIME] = str(key.pop_time_ms)
    properties[REVIVED] = pop_of(key, found.queue_offset)
    return Message(
        retry,
        found.body,
        properties=properties,
        flag=found.flag,
        born_timestamp_ms=found.born_timestamp_ms,
        sys_flag=found.sys_flag & ~(HOST_BITS | INNER_BATCH | NEED_UNWRAP),
        reconsume_times=found.reconsume_times + is_counted,
    )
