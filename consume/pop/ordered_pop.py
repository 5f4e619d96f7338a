"""Receiving in order: one queue of a group at a time, from the first message that is not acknowledged on.

Invariants:
- A queue is blocked while a message that was popped from it is invisible and not acknowledged; all its message groups
  wait. RocketMQ blocks the queue, too.
- What a pop, an acknowledgement or a change of an invisible time did is recorded (order_table.py) before the call
  returns, under the lock of (group, topic, queue). So a message has one owner, whenever the process ends.
- A message that comes again is the first of its queue, and is handed out alone: what ends the process of its receiver
  is counted for that message, and not for those behind it.
- What was acknowledged before an earlier message does not come again with it.

There is no check point and no retry topic: a message stays in its queue until it is acknowledged, or goes to the dead
letters. RocketMQ: `PopMessageProcessor` with isOrder, `ConsumerOrderInfoManager`; the proxy's dead letters of a group
with consumeMessageOrderly. It differs in the last two invariants: a broker hands out again whatever lies behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from threading import Lock

from ...engine.message_store import MessageStore
from ...engine.services.wake_up import Notifiable
from ...store.errors import CorruptRecordError
from ...store.queue_offsets import QueueKey
from ...store.results import PutStatus
from ...store.stored_message import StoredMessage
from ..retry.dead_letters import DeadLetters
from .check_point import CheckPointKey
from .next_messages import next_messages
from .order_info import OrderInfo
from .order_table import OrderTable
from .pop_errors import ExpiredHandleError
from .pop_request import PopRequest
from .pop_topics import ORDERED_REVIVE_QUEUE_ID
from .popped import HandleWords, PopHandle, PoppedMessage, words_of


class OrderedPop:
    """Ordered pops from one store. Thread-safe."""

    def __init__(
        self,
        store: MessageStore,
        table: OrderTable,
        letters: DeadLetters,
        lock_of: Callable[[str, QueueKey], Lock],
        check_not_subscribed: Callable[[str], None],
        broker_name: str,
    ) -> None:
        self._check_not_subscribed = check_not_subscribed
        self._store, self._table, self._letters = store, table, letters
        self._lock_of, self._broker_name = lock_of, broker_name
        self._waiting: dict[Notifiable, str] = {}
        """Receives that wait, and their groups."""

    # -- popping

    def is_unfinished(self, group: str, queue: QueueKey) -> bool:
        """Whether messages that were popped in order are not acknowledged: then the queue is popped in order."""
        info = self._table.get(group, queue)
        return info is not None and bool(info.waiting)

    def was_popped_by(self, request: PopRequest, queue: QueueKey) -> bool:
        """Whether the last pop of the queue was by a receive with the attempt id of this one."""
        info = self._table.get(request.group, queue)
        return request.attempt_id is not None and info is not None and info.attempt_id == request.attempt_id

    def pop(self, request: PopRequest, queue: QueueKey, room: int, now_ms: int) -> list[PoppedMessage]:
        """Up to `room` messages; none if the queue is blocked. Raises as `get` and `put`."""
        with self._lock_of(request.group, queue):
            self._check_not_subscribed(request.group)
            info = self._current(request.group, queue)
            if info.waiting and now_ms < info.blocked_until_ms and not self.was_popped_by(request, queue):
                return []
            info, first = self._without_dead(request, queue, info)
            pop_time_ms = max(now_ms, info.pop_time_ms + 1)  # handles of different pops differ
            if first is not None:
                info = self._without_given_up(request.group, queue, info)
                messages = [first]
                if self.was_popped_by(request, queue):
                    behind = (self._read(queue, offset) for offset in info.handed_out[1:room])
                    messages += [message for message in behind if message is not None]
                info = info.popped_again(
                    (message.queue_offset for message in messages),
                    *(pop_time_ms, request.invisible_ms, request.attempt_id, now_ms),
                )
                start = first.queue_offset
            else:
                start, found = next_messages(self._store, request, queue, room)
                messages = found.messages
                if not messages:
                    return []
                offsets = tuple(message.queue_offset for message in messages)
                info = OrderInfo(
                    *(pop_time_ms, request.invisible_ms, offsets),
                    attempt_id=request.attempt_id,
                    last_ms=now_ms,
                )
            self._table.set(request.group, queue, info, start)
        return [self._handed_out(request, queue, info, start, message) for message in messages]

    def _current(self, group: str, queue: QueueKey) -> OrderInfo:
        """Empty if the group's offset was set beyond it, or removed."""
        info = self._table.get(group, queue) or OrderInfo(0)
        at = self._store.offsets.get(group, *queue)
        return info.cleared() if at is None or at > info.next_offset else info

    def _without_dead(
        self, request: PopRequest, queue: QueueKey, info: OrderInfo
    ) -> tuple[OrderInfo, StoredMessage | None]:
        """Put the first messages to the dead letters as far as they had their attempts, and pass over those that were
        put there by a process that ended before it was recorded. Returns the first one that is neither, if any is left
        of the last pop."""
        is_repeat = self.was_popped_by(request, queue)
        while info.waiting:
            offset = info.waiting[0]
            message = self._read(queue, offset)
            if message is not None:
                deliveries, popped_ms = info.deliveries(offset) + message.reconsume_times, info.popped_ms
                if not is_repeat and deliveries >= request.max_attempts:
                    origin = replace(message, topic=request.topic)
                    self._letters.put(request.group, origin, deliveries, popped_ms)
                elif not self._letters.has(request.group, message, popped_ms):
                    return info, message
            info = info.with_acked([offset])
            self._table.set(request.group, queue, info, info.next_offset)
        return info, None

    def _without_given_up(self, group: str, queue: QueueKey, info: OrderInfo) -> OrderInfo:
        """Pass over messages behind the first one that were given up by a process that ended before it was recorded.
        The next pop has a later time: from then on their dead letters would be of an earlier one."""
        for offset in info.waiting[1:] if self._letters.has_any(group, info.popped_ms) else ():
            try:
                message = self._read(queue, offset)
            except CorruptRecordError:  # which is raised once this message is the first one
                continue
            if message is not None and self._letters.has(group, message, info.popped_ms):
                info = info.with_acked([offset])
        return info

    def _read(self, queue: QueueKey, offset: int) -> StoredMessage | None:
        """None if retention removed it."""
        found = self._store.get(*queue, offset, 1).messages
        return found[0] if found and found[0].queue_offset == offset else None

    def _handed_out(
        self, request: PopRequest, queue: QueueKey, info: OrderInfo, start: int, message: StoredMessage
    ) -> PoppedMessage:
        key = CheckPointKey(queue[0], request.group, queue[1], start, info.pop_time_ms, self._broker_name)
        words = HandleWords(key, info.invisible_ms, ORDERED_REVIVE_QUEUE_ID)
        handle = PopHandle(request.group, request.topic, f"{words} {message.queue_offset}")
        before = info.deliveries(message.queue_offset) - 1
        counted = replace(message, reconsume_times=message.reconsume_times + before) if before else message
        return PoppedMessage(counted, handle, words.expires_ms)

    def clear(self, group: str, queue: QueueKey) -> None:
        """Nothing of the queue is popped any more: the group goes on at the offset that it has. To be called under the
        lock of the queue. Raises as `put`."""
        info = self._table.get(group, queue)
        at = self._store.offsets.get(group, *queue)
        if info is not None and at is not None:
            self._table.set(group, queue, info.cleared(), at)

    # -- acknowledging

    def ack(self, handles: Iterable[PopHandle]) -> tuple[list[PutStatus], list[PopHandle]]:
        """Acknowledge; returns also the handles that were refused. Raises as `put`."""
        statuses: list[PutStatus] = []
        expired: list[PopHandle] = []
        by_queue: dict[tuple[str, QueueKey], list[PopHandle]] = {}
        for handle in handles:
            key = words_of(handle)[0].key
            by_queue.setdefault((key.group, (key.topic, key.queue_id)), []).append(handle)
        for (group, queue), of_queue in by_queue.items():
            with self._lock_of(group, queue):
                info = self._current(group, queue)
                now_ms = self._store.clock.now_ms()
                acked = []
                for handle in of_queue:
                    words, offset = words_of(handle)
                    if _is_held(info, words, offset, now_ms):
                        acked.append(offset)
                    elif not self._is_acked(info, words, offset, now_ms):
                        expired.append(handle)
                if acked:
                    info = info.with_acked(acked)
                    statuses.append(self._table.set(group, queue, info, info.next_offset))
            self._notify(group)
        return statuses, expired

    def give_up(self, handle: PopHandle, origin: StoredMessage, attempt: int) -> list[PutStatus]:
        """See PopService.forward_to_dead_letters. Nobody else receives the message while its dead letter is put."""
        words, offset = words_of(handle)
        group, queue = words.key.group, (words.key.topic, words.key.queue_id)
        with self._lock_of(group, queue):
            info = self._current(group, queue)
            now_ms = self._store.clock.now_ms()
            if not _is_held(info, words, offset, now_ms):
                if self._is_acked(info, words, offset, now_ms):
                    return []
                raise ExpiredHandleError([handle], min(words.expires_ms, now_ms), now_ms)
            self._letters.put(group, origin, attempt, info.popped_ms)
            info = info.with_acked([offset])
            status = self._table.set(group, queue, info, info.next_offset)
        self._notify(group)
        return [status]

    def change_invisible(
        self, handle: PopHandle, words: HandleWords, offset: int, invisible_ms: int, *, is_counted: bool
    ) -> PopHandle:
        """See PopService.change_invisible."""
        key = words.key
        queue = key.topic, key.queue_id
        with self._lock_of(key.group, queue):
            info = self._current(key.group, queue)
            now_ms = self._store.clock.now_ms()
            if not _is_held(info, words, offset, now_ms):
                raise ExpiredHandleError([handle], min(words.expires_ms, now_ms), now_ms)
            until_ms = max(now_ms, info.pop_time_ms) + invisible_ms
            info = info.with_visible(offset, until_ms, is_counted=is_counted)
            self._table.set(key.group, queue, info, info.next_offset)
        self._notify(key.group)
        new = HandleWords(key._replace(start_offset=offset), until_ms - key.pop_time_ms, words.revive_queue_id)
        return replace(handle, extra_info=f"{new} {offset}")

    def deliveries_before(self, group: str, queue: QueueKey, offset: int) -> int:
        """How often a message that was popped in order was delivered before, besides its `reconsume_times`."""
        return max(self._current(group, queue).deliveries(offset) - 1, 0)

    def _is_acked(self, info: OrderInfo, words: HandleWords, offset: int, now_ms: int) -> bool:
        """Acknowledging twice is fine while the handle lasts."""
        key = words.key
        at = self._store.offsets.get(key.group, key.topic, key.queue_id)
        return now_ms < words.expires_ms and ((at is not None and offset < at) or offset in info.acked)

    # -- waiting

    def expect(self, wake_up: Notifiable, group: str) -> None:
        """Notify when the group acknowledges."""
        self._waiting[wake_up] = group

    def free_in_s(self, group: str, queues: Iterable[QueueKey], now_ms: int) -> float:
        """After how many seconds the first of these queues that are blocked becomes free; infinite if none is."""
        infos = [info for queue in queues if (info := self._table.get(group, queue)) is not None]
        times_ms = [info.blocked_until_ms for info in infos if info.blocked_until_ms > now_ms]
        return (min(times_ms) - now_ms) / 1000 if times_ms else math.inf

    def forget(self, wake_up: Notifiable) -> None:
        self._waiting.pop(wake_up, None)

    def _notify(self, group: str) -> None:
        for wake_up, waiting in tuple(self._waiting.items()):
            if waiting == group:
                wake_up.notify()


def _is_held(info: OrderInfo, words: HandleWords, offset: int, now_ms: int) -> bool:
    """Whether the message is invisible by the pop that gave the handle."""
    return words.key.pop_time_ms == info.pop_time_ms and offset in info.waiting and now_ms < info.until_ms(offset)
