"""A member of a group that works off each queue in order: one message after the other, or one batch.

Invariants:
- A queue has one batch at work at most, and its next begins with the lowest message that was not acknowledged. While
  one is at work or rests after a failure, nothing of its queue is handed out: not here, not after a seek, and not by
  another member, which waits for the queue's lock.
- A queue that a round gives to another member goes there once its batch has ended. The lock of a member that left with
  a batch at work ends with that batch, or expires 60 s later: then another one goes on, and who is late counts no more.

RocketMQ: `ConsumeMessageOrderlyService`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...store.message_queue import MessageQueue
from ..group.queue_locks import QueueLocks
from .back_off import SUSPENSION
from .process_queue import Place, ProcessQueue
from .received import ReceivedMessage
from .subscription import Subscription

LOCK_RETRY_S = 1.0
"""How long a queue rests whose lock another member has."""
LEAVING_S = 2.0
"""How long a queue that is to go to another member rests after its batch: the round that moves it comes at once."""


class OrderedSubscription(Subscription):
    """Made by `store.subscribe(..., ordered=True)`."""

    is_ordered = True

    def __init__(self, *args: Any, locks: QueueLocks, ask_for_round: Callable[[str], None], **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._locks, self._ask_for_round = locks, ask_for_round
        self._owner = object()
        """What the locks know it by. It does not keep this one alive."""
        self._out: dict[MessageQueue, set[Place]] = {}
        """Messages in process. A queue without any has no entry."""
        self._read_ahead: dict[MessageQueue, deque[ReceivedMessage]] = {}
        self._is_awaited: set[MessageQueue] = set()
        """Queues that a round would have given to others, had nothing been out."""

    def renew_locks(self) -> None:
        """They would expire while a listener takes its time."""
        self._locks.renew(self._owner)

    # -- a member of its group

    def revoke(self, queue: MessageQueue) -> bool:
        with self._lock:  # held from the look to the end: another thread may be about to take the next batch
            is_out = queue in self._out
            if is_out:
                self._is_awaited.add(queue)
                self._rest(queue, LEAVING_S)
            else:
                self._drop(queue)
        self._waiters.notify()
        return not is_out

    def _drop(self, queue: MessageQueue) -> None:
        super()._drop(queue)
        self._read_ahead.pop(queue, None)
        self._is_awaited.discard(queue)
        if queue not in self._out:
            self._locks.unlock(self.group, queue, self._owner)

    # -- messages

    def _choose(self, count: int) -> list[ReceivedMessage]:
        suspects = self._suspects if self._suspects.is_on else None
        if suspects is not None:
            if not self.has_listener:
                suspects.let_go()
            suspects.clear_done(self._has, lambda queue: self._read_ahead.get(queue, ()))
            suspects = suspects if suspects.is_on else None
        for _ in range(len(self._turns)):
            queue = next(iter(self._turns))
            self._turns.move_to_end(queue)
            if not self._may_read(queue) or queue in self._out:
                continue
            if not self._locks.lock(self.group, queue, self._owner):
                self._rest(queue, LOCK_RETRY_S)
                continue
            if suspects is not None and not (queue in suspects and suspects.take(queue)):
                continue
            batch: list[ReceivedMessage] = []
            try:
                batch = self._next_of(queue, count if suspects is None else 1)
            except Exception:
                if suspects is not None:
                    suspects.clear(queue)  # the others go on without it
                raise
            finally:
                if suspects is not None and not batch:
                    suspects.release(queue)
            if batch:
                self._out[queue] = {message.place for message in batch}
                return batch
        return []

    def _next_of(self, queue: MessageQueue, count: int) -> list[ReceivedMessage]:
        ahead = self._read_ahead.setdefault(queue, deque())
        batch: list[ReceivedMessage] = []
        while len(batch) < count:
            if not ahead and (batch or not self._read(queue)):
                break
            ahead.extend(self._ready)
            self._ready.clear()
            if not ahead:  # all that was read had been sent back before a crash
                continue
            message = ahead.popleft()
            if message.is_at_work:  # not acknowledged since it was given back
                self._suspects.count_failed(message)
                self._suspects.note_alone(message, message.queue_offset)
                message.hand_out(self)
                batch.append(message)
        return batch

    def acknowledge(self, queue: MessageQueue, has: ProcessQueue, queue_offsets: Sequence[int]) -> int:
        counts = super().acknowledge(queue, has, queue_offsets)
        self._end(queue, [(has, queue_offset) for queue_offset in queue_offsets])
        return counts

    def _settle(self, queue: MessageQueue, has: ProcessQueue, queue_offsets: Sequence[int]) -> int:
        counts = super()._settle(queue, has, queue_offsets)
        if counts:
            self._suspects.end_failed(queue, has.commit_offset)
        return counts

    def _is_kept(self, message: ReceivedMessage, delay_s: float | None) -> bool:
        return super()._is_kept(message, self._kept_for_s(delay_s))  # its next attempt comes before all behind it

    def _kept_for_s(self, delay_s: float | None) -> float:
        return SUSPENSION.first_s if delay_s is None else delay_s

    def _send_back(self, message: ReceivedMessage) -> bool:
        is_sent = super()._send_back(message)
        if is_sent:
            self._end(message.queue, [message.place])
        return is_sent

    def give_back(self, messages: Sequence[ReceivedMessage], delay_s: float) -> int:
        """As Subscription.give_back; nothing else of their queues is handed out before."""
        again: list[ReceivedMessage] = []
        with self._lock:
            for message in messages:
                if message.is_at_work and message.is_handed_out:
                    message.is_handed_out = False
                    again.append(message)
            for queue in {message.queue for message in again}:
                back = [message for message in again if message.queue == queue]
                ahead = sorted([*back, *self._read_ahead.get(queue, ())], key=lambda message: message.queue_offset)
                self._suspects.note_failed(ahead)
                self._read_ahead[queue] = deque(ahead)
                self._rest(queue, delay_s)
        for message in messages:
            self._end(message.queue, [message.place])
        return len(again)

    def _rest(self, queue: MessageQueue, for_s: float) -> None:
        until_s = self._clock.monotonic_s() + for_s
        self._not_before[queue] = max(until_s, self._not_before.get(queue, until_s))

    def _end(self, queue: MessageQueue, places: Iterable[Place]) -> None:
        """These messages are no longer in process."""
        with self._lock:
            out = self._out.get(queue)
            if out is None:
                return
            out.difference_update(places)
            if out:
                return
            del self._out[queue]
            self._suspects.release(queue)
            is_awaited = queue in self._is_awaited
            self._is_awaited.discard(queue)
            if queue not in self._has:
                self._locks.unlock(self.group, queue, self._owner)
        if is_awaited:
            self._ask_for_round(self.group)
        self._waiters.notify()
