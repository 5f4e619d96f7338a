"""One member of a group: delivers its messages, which are acknowledged individually.

Invariants:
- A message is handed out by one member at a time. It comes again only if it was given back, or not acknowledged before
  its queue went to another member, or the process ended; with it may come those behind it that were.
- The group's offset of a queue is that of the lowest message which was handed out and not acknowledged.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from ...engine.services.wake_up import WakeUp
from ...index.filter.wanted import Wanted
from ...store.arguments import INT64_MAX, check_seconds, check_time_ms, check_whole
from ...store.disk.clock import Clock
from ...store.errors import StoreClosedError, UsageError
from ...store.format import property_names as props
from ...store.get_result import GetResult, GetStatus
from ...store.message_queue import MessageQueue, check_queues
from ..allocate.allocate import AllocationStrategy
from ..group.consumed_store import ConsumedStore, ConsumeProgress, StoresNow, queues_not_at_end
from ..group.group import Change
from ..group.initial_offset import StartFrom, start_offset
from ..retry.send_back import retry_topic
from .async_subscription import AsyncSubscription
from .failures import REFUSED_BACK_OFF_S, Failures
from .one_by_one import OneByOne
from .process_queue import FlowLimits, Place, ProcessQueue
from .received import ReceivedMessage
from .redelivery_queue import RedeliveryQueue
from .suspects import Suspects
from .waiters import Waiters

log = logging.getLogger("flightlog.consume")

PULL_COUNT = 32
"""Messages that are read at a time."""
WAIT_S = 15.0
"""How long a wait for messages is at a time: what should have ended it and did not costs no more."""
PULL_RETRY_S = 1.0
"""A queue that could not be read is left alone for so long; the others go on."""
NOTHING_NEW = (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MESSAGE_IN_QUEUE)


class Subscription(AsyncSubscription):
    """Created by `store.subscribe`; an iterator over messages and a context manager, both also in asyncio. Thread-safe:
    several threads share the messages."""

    is_alive = True
    is_ordered = False
    is_broadcasting = False
    has_listener = False
    """Whether messages go to a listener, which ends with each before it has the next."""
    on_change: Callable[[Change], None] | None = None

    def __init__(
        self,
        stores: StoresNow,
        progress: ConsumeProgress,
        group: str,
        name: str,
        topics: dict[str, Wanted],
        *,
        strategy: AllocationStrategy,
        start: StartFrom | int,
        limits: FlowLimits,
        idle_s: float | None,
        clock: Clock,
        leave: Callable[[Subscription], None],
        come_back: Callable[[Subscription], None],
        before_wait: Callable[[str], bool],
        failures: Failures | None,
        consume_timeout_s: float | None,
        one_by_one: OneByOne,
    ) -> None:
        """`failures`: None where the group broadcasts. Then there are no retries that others could see."""
        self.group, self.name, self.strategy, self.topics = group, name, strategy, topics
        self._failures, self._consume_timeout_s = failures, consume_timeout_s
        self._stores, self.progress = stores, progress
        self._start, self._limits, self._idle_s, self._clock = start, limits, idle_s, clock
        self._leave, self._come_back, self._before_wait = leave, come_back, before_wait
        self._lock = threading.Lock()
        self._has: dict[MessageQueue, ProcessQueue] = {}
        self._turns: OrderedDict[MessageQueue, None] = OrderedDict()
        """The same queues; the one that is asked next comes first."""
        self._paused: set[MessageQueue] = set()
        self._not_before: dict[MessageQueue, float] = {}
        """Queues that nothing is read from until then."""
        self._ready: deque[ReceivedMessage] = deque()
        self._redelivery = RedeliveryQueue()
        self._in_hand: dict[Place, tuple[float, ReceivedMessage]] = {}
        """What was handed out, and when; the oldest first. Nothing where there is no consume timeout."""
        self._is_stopped = False
        self._waiters = Waiters(stores, self._has)
        self._suspects = Suspects(stores, group, one_by_one, self._waiters, is_active=failures is not None)
        self._receiver: threading.Thread | None = None
        """The thread that asked for a message last."""
        self._acknowledger: threading.Thread | None = None
        self._is_out = False

    def __repr__(self) -> str:
        state = "closed" if not self.is_alive else f"{len(self._has)} queues"
        return f"<Subscription {self.name!r} of group {self.group!r} to {', '.join(map(repr, self.topics))}, {state}>"

    # -- a member of its group

    @property
    def _retry_topic(self) -> str | None:
        """The group's retry topic; None if there is none, or if it is one of the subscribed topics."""
        own = retry_topic(self.group)
        return None if self._failures is None or own in self.topics else own

    def change(self, topics: dict[str, Wanted] | None, strategy: AllocationStrategy | None) -> None:
        """See GroupCoordinator.change_subscription, which has a round follow. None changes nothing."""
        with self._lock:
            self.strategy = strategy or self.strategy
            self.topics = topics or self.topics
            for queue in [queue for queue in self._has if queue.topic not in self.read_topics]:
                self._drop(queue)

    @property
    def read_topics(self) -> dict[str, Wanted]:
        """What the group reads: the topics that were asked for, and its retry topic."""
        return self.topics if self._retry_topic is None else {**self.topics, self._retry_topic: "*"}

    def assign(self, queue: MessageQueue) -> None:
        """Take over this queue: continue at the group's offset, or begin where the subscription's `start` says."""
        offset = self.progress.get(queue)
        if offset is None:
            store = self._stores()[queue.broker_name]
            # What waits in the retry topic is the group's, whenever it was put.
            start = StartFrom.FIRST if queue.topic == self._retry_topic else self._start
            offset = start_offset(store.store, queue.topic, queue.queue_id, start, store.bounds(queue))
            # Told at once: else a restart before the first acknowledgement would begin at what is then the last.
            self.progress.set(queue, offset)
        with self._lock:
            if not self.is_alive or self._is_out:
                return  # since the round began: it must commit nothing of the queue any more
            self._has[queue] = ProcessQueue(offset)
            self._turns[queue] = None
            self._suspects.add(queue, offset, is_paused=queue in self._paused)
        self._waiters.notify()

    def revoke(self, queue: MessageQueue) -> bool:
        """Stop delivering from it. The next owner redelivers the messages that are in process."""
        with self._lock:
            self._drop(queue)
        self._waiters.notify()  # waiters learn that the store is poisoned
        return True

    def _drop(self, queue: MessageQueue) -> None:
        has = self._has.pop(queue, None)
        if has is not None:
            self.progress.set(queue, has.commit_offset)
            has.drop()
            del self._turns[queue]
            self._not_before.pop(queue, None)
            if self._ready:
                self._ready = deque(message for message in self._ready if message.queue != queue)
            self._redelivery.forget(queue)
            self._in_hand = {place: each for place, each in self._in_hand.items() if place[0] is not has}
            self._suspects.drop(queue, has_holes=has.has_holes)

    def acknowledge(self, queue: MessageQueue, has: ProcessQueue, queue_offsets: Sequence[int]) -> int:
        """See ReceivedMessage.ack. Returns how many of them count."""
        self._acknowledger = threading.current_thread()
        return self._settle(queue, has, queue_offsets)

    def _settle(self, queue: MessageQueue, has: ProcessQueue, queue_offsets: Sequence[int]) -> int:
        """These are done here. Returns how many of them were not."""
        with self._lock:
            counts = sum(map(has.ack, queue_offsets))
            if counts:
                self.progress.set(queue, has.commit_offset)
            has_room_again = has.waits_for_room and has.has_room_again(self._limits)
            if self._in_hand:
                for queue_offset in queue_offsets:
                    self._in_hand.pop((has, queue_offset), None)
            if self._suspects.is_one_out:
                for queue_offset in queue_offsets:
                    self._suspects.release((has, queue_offset))
        if has_room_again:
            self._waiters.notify()
        return counts

    def give_back(self, messages: Sequence[ReceivedMessage], delay_s: float) -> int:
        """Hand these out again, `delay_s` from now at the earliest. Returns how many that is: those that count no more
        are left out, see ReceivedMessage.ack."""
        due_s = self._clock.monotonic_s() + delay_s
        with self._lock:
            again = [message for message in messages if message.is_at_work and message.is_handed_out]
            for message in again:
                message.is_handed_out = False
                self._in_hand.pop(message.place, None)
                self._redelivery.add(due_s, message)
        if again:
            self._waiters.notify()  # who waits has to wake for them
            for message in again:
                self._suspects.release(message.place)
        return len(again)

    def reset(self, queue: MessageQueue, queue_offset: int) -> bool:
        """As `seek`, by the group's operator. Returns False for a queue that this member does not have."""
        with self._lock:
            if queue not in self._has:
                return False
            self._restart(queue, queue_offset)
        self._waiters.notify()
        return True

    def wake(self) -> None:
        """The group's settings have changed: have those who wait look again."""
        self._waiters.notify()

    def fail(self, messages: Sequence[ReceivedMessage], delay_s: float | None = None) -> int:
        """The processing of these failed: see ReceivedMessage.send_back. With a `delay_s` they stay with this member
        for their next attempt, until they have had their last. Returns how many that is, as `give_back`."""
        with self._lock:
            failed = [message for message in messages if message.is_at_work and message.is_handed_out]
            for message in failed:
                message.is_handed_out = False  # else it might be sent back by two threads
                self._in_hand.pop(message.place, None)
        kept = [message for message in failed if self._is_kept(message, delay_s) or not self._send_back(message)]
        for message in kept:
            message.is_handed_out = True
        return len(failed) - len(kept) + self.give_back(kept, self._kept_for_s(delay_s))

    def _is_kept(self, message: ReceivedMessage, delay_s: float | None) -> bool:
        """Whether its next attempt is made here."""
        if self._failures is None:
            return True
        return delay_s is not None and not self._failures.is_last(message)

    def _kept_for_s(self, delay_s: float | None) -> float:
        return REFUSED_BACK_OFF_S if delay_s is None else delay_s

    def _send_back(self, message: ReceivedMessage) -> bool:
        """False: the store refused it."""
        assert self._failures is not None
        failures = self._failures
        if not self._suspects.send_back(message, lambda: failures.send_back(message)):
            return False
        self._settle(message.queue, message.place[0], (message.queue_offset,))
        return True

    def fail_late(self) -> None:
        """Send back what has been with a listener for longer than the consume timeout."""
        since_s = self._clock.monotonic_s() - (self._consume_timeout_s or 0)
        late: list[ReceivedMessage] = []
        with self._lock:
            for handed_out_s, message in self._in_hand.values():
                if handed_out_s > since_s:
                    break
                late.append(message)
        if late:
            text = "group %s: %d messages of %s were not acknowledged within %.1f s: they go to the retry topic"
            values = (self.group, len(late), self.name, self._consume_timeout_s)
            log.warning(text, *values, extra={"group": self.group, "member": self.name})
            self.fail(late)

    def forget(self, store: str, topic: str) -> None:
        """The topic was deleted: a new topic of this name starts at offset 0."""
        with self._lock:
            for queue in [queue for queue in self._has if (queue.broker_name, queue.topic) == (store, topic)]:
                self._restart(queue, 0)
        self._waiters.notify()

    @property
    def is_abandoned(self) -> bool:
        """Whether the threads that used it have ended: the messages of its queues may never be received."""
        used_by = [thread for thread in (self._receiver, self._acknowledger) if thread is not None]
        return bool(used_by) and not any(thread.is_alive() for thread in used_by)

    def leave_group(self) -> None:
        """Give up all queues until the next receive. The caller takes it out of the group."""
        with self._lock:
            self._is_out = True
            for queue in list(self._has):
                self._drop(queue)
        self._waiters.notify()  # who has asked just now comes back

    def _sit_down_again(self) -> None:
        with self._lock:
            is_out, self._is_out = self._is_out, False
        if is_out and not self.is_over:
            try:
                self._come_back(self)
            except BaseException:
                self._is_out = True
                raise

    # -- messages

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self

    def __next__(self) -> ReceivedMessage:
        message = self.receive(self._idle_s)
        if message is None:
            raise StopIteration
        return message

    def receive(self, wait_s: float | None = None) -> ReceivedMessage | None:
        """Return the next message; None if none comes within `wait_s` (None: no limit), or if this was closed.

        Raises what `store.get` raises, CorruptRecordError at a damaged message: use `seek` to skip it. The other queues
        continue meanwhile. Raises StorePoisonedError if all stores are poisoned.
        """
        found = self.receive_batch(1, wait_s)
        return found[0] if found else None

    def receive_batch(self, count: int, wait_s: float | None = None) -> list[ReceivedMessage]:
        """Like `receive`, but returns up to `count` messages of one queue, as many as are available."""
        batch = self.poll(count)
        if batch or self.is_over:
            return batch
        deadline_s = self._deadline_s(wait_s)
        wake_up = WakeUp()
        with self._waiters.with_wake_up(wake_up) as waiter:
            while True:
                waiter.expect()
                batch = self.poll(count)
                if batch or self.is_over:
                    return batch
                left_s = self._wait_s(deadline_s)
                if left_s is None:
                    return self.poll(count)  # a round may have brought queues since
                wake_up.wait(left_s)

    def _deadline_s(self, wait_s: float | None) -> float | None:
        if wait_s is not None:
            check_seconds("wait_s", wait_s)
        return None if wait_s is None else self._clock.monotonic_s() + wait_s

    def _wait_s(self, deadline_s: float | None) -> float | None:
        """How long to wait for a wake-up; None: the time is over."""
        if self._before_wait(self.group):
            return 0.0
        now_s = self._clock.monotonic_s()
        if deadline_s is not None and deadline_s <= now_s:
            return None
        with self._lock:
            due_s = [self._redelivery.next_due_s, deadline_s, *self._not_before.values()]
        return max(0.0, min([WAIT_S, *(each - now_s for each in due_s if each is not None)]))

    def poll(self, count: int = 1) -> list[ReceivedMessage]:
        """As `receive_batch`, of what is there now."""
        if count.__class__ is not int or count < 1:
            count = check_whole("count", count, 1)
        self._receiver = threading.current_thread()
        if self._is_out:
            self._sit_down_again()
        with self._lock:
            batch = [] if self.is_over else self._choose(count)
            has_died = bool(batch) and self._suspects.has_died_in(batch[0])
            is_more = bool(self._ready) and not self._suspects.is_on
        if is_more:
            self._waiters.notify()
        if not has_died:
            return batch
        self._suspects.tell_died(batch[0])
        self.fail(batch)
        return self.poll(count)

    def _choose(self, count: int) -> list[ReceivedMessage]:
        batch: list[ReceivedMessage] = []
        if self._suspects.is_on:
            batch = self._choose_suspect(self._suspects)
            if batch or self._suspects.is_on:
                return self._in_hands(batch)
        if self._redelivery.next_due_s is not None:
            self._ready.extendleft(reversed(self._redelivery.take_due(self._clock.monotonic_s())))
        if not self._ready:
            self._pull()
        while self._ready and len(batch) < count and (not batch or self._ready[0].queue == batch[0].queue):
            message = self._ready.popleft()
            if message.is_at_work:  # not acknowledged since it was given back
                message.hand_out(self)
                batch.append(message)
        return self._in_hands(batch)

    def _in_hands(self, batch: list[ReceivedMessage]) -> list[ReceivedMessage]:
        """What the consume timeout counts from."""
        if self._consume_timeout_s is not None:
            now_s = self._clock.monotonic_s()
            self._in_hand.update((message.place, (now_s, message)) for message in batch)
        return batch

    def _choose_suspect(self, suspects: Suspects) -> list[ReceivedMessage]:
        """One message of those that are received one by one, or none."""
        if not self.has_listener:
            suspects.let_go()
        self._ready.extendleft(reversed(self._redelivery.take_due(self._clock.monotonic_s())))
        message = self._take_suspect(suspects)
        for queue in suspects.to_read(self._has) if message is None else ():
            try:
                if self._may_read(queue) and self._read(queue):
                    message = message or self._take_suspect(suspects)
            except Exception:
                suspects.clear(queue)  # the others go on without it
                raise
        if message is None:
            suspects.clear_done(self._has, lambda queue: [each for each in self._ready if each.queue == queue])
            return []
        suspects.note_alone(message, self._has[message.queue].commit_offset)
        message.hand_out(self)
        return [message]

    def _take_suspect(self, suspects: Suspects) -> ReceivedMessage | None:
        self._ready = deque(message for message in self._ready if message.is_at_work)
        for message in self._ready:
            is_next = not self.has_listener or self._has[message.queue].commit_offset == message.queue_offset
            if suspects.may_come(message, is_next=is_next):
                self._ready.remove(message)
                return message
        return None

    def _pull(self) -> None:
        """Read from one queue after another, until there is something."""
        for queue in islice(self._turns, 1):  # where much waits, it is here
            if self._pull_in_turn(queue):
                return
        for queue in queues_not_at_end(self._stores(), {each: self._has[each].position for each in self._turns}):
            if self._pull_in_turn(queue):
                return

    def _pull_in_turn(self, queue: MessageQueue) -> bool:
        self._turns.move_to_end(queue)
        return self._may_read(queue) and self._read(queue)

    def _may_read(self, queue: MessageQueue) -> bool:
        not_before_s = self._not_before.get(queue)
        if not_before_s is not None:
            if self._clock.monotonic_s() < not_before_s:
                return False
            del self._not_before[queue]
        return queue not in self._paused

    def _read(self, queue: MessageQueue) -> bool:
        """Whether there was something."""
        store = self._stores().get(queue.broker_name)
        if store is None or not store.is_usable:  # the round that drops the queue is under way
            return False
        if not store.groups.settings(self.group).is_enabled:
            return False
        try:
            return self._pull_from(queue, store)
        except StoreClosedError:
            if store.is_usable:
                raise
            return False

    def _pull_from(self, queue: MessageQueue, store: ConsumedStore) -> bool:
        has = self._has[queue]
        while room := has.room(self._limits):
            count, tags = min(room, PULL_COUNT), self.topics.get(queue.topic)
            try:
                found = store.store.get(queue.topic, queue.queue_id, has.position, count, tags=tags)
            except Exception:  # whatever it is, it goes on to who asked; who asks again gets the other queues meanwhile
                self._not_before[queue] = self._clock.monotonic_s() + PULL_RETRY_S
                raise
            if found.messages:
                self._hand_out(queue, has, found, may_be_over=self._suspects.knows_copies(queue))
                return True
            if found.status in NOTHING_NEW and found.next_queue_offset >= has.position:
                return False
            if found.next_queue_offset < has.position:  # the end is before it: another log, or a new topic
                self._restart(queue, found.next_queue_offset)
                return False
            self._pass(queue, has, found.next_queue_offset)
        has.waits_for_room = True
        return False

    def _hand_out(self, queue: MessageQueue, has: ProcessQueue, found: GetResult, *, may_be_over: bool) -> None:
        is_retry = queue.topic == self._retry_topic
        for message in found.messages:
            if is_retry:
                message = replace(message, topic=message.properties.get(props.RETRY_TOPIC, message.topic))
            received = ReceivedMessage(message, queue, has)
            if not (may_be_over and self._suspects.is_over(received)):
                has.deliver(message.queue_offset, len(message.body))
                self._ready.append(received)
        self._pass(queue, has, found.next_queue_offset)
        self._suspects.note_read(queue, has)

    def _pass(self, queue: MessageQueue, has: ProcessQueue, position: int) -> None:
        """What lies before is filtered, or gone."""
        has.pass_to(position)
        self.progress.set(queue, has.commit_offset)

    # -- where it is

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this member has now."""
        with self._lock:
            return sorted(self._has, key=lambda queue: queue.order)

    def lag(self) -> dict[MessageQueue, int]:
        """How many messages of each of its queues are behind the group's offset. Filtered ones count."""
        with self._lock:
            offsets = {queue: has.commit_offset for queue, has in self._has.items()}
        return {queue: max(0, self._bounds(queue)[1] - offset) for queue, offset in offsets.items()}

    def _bounds(self, queue: MessageQueue) -> tuple[int, int]:
        store = self._stores().get(queue.broker_name)
        return (0, 0) if store is None else store.bounds(queue)

    def pause(self, *queues: MessageQueue) -> None:
        """Stop delivering from these queues (none given: from all it has now), except for messages already read."""
        check_queues(queues)
        with self._lock:
            self._paused |= set(queues or self._has)
            self._suspects.pause(self._paused)

    def resume(self, *queues: MessageQueue) -> None:
        """Undo `pause`."""
        check_queues(queues)
        with self._lock:
            self._paused -= set(queues or self._paused)
            self._suspects.resume(self._paused)
        self._waiters.notify()

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Continue at this offset. Messages in process no longer count; acknowledging them has no effect and no error.

        Raises UsageError for a queue that it does not have, StoreClosedError if it was closed.
        """
        check_queues((queue,))
        queue_offset = check_whole("queue_offset", queue_offset, ~INT64_MAX)
        self._check_alive()
        first, end = self._bounds(queue)
        with self._lock:
            if queue not in self._has:
                raise UsageError(f"{queue}: not one of the {len(self._has)} queues that {self.name!r} has now")
            self._restart(queue, min(max(queue_offset, first), end))
        self._waiters.notify()

    def _restart(self, queue: MessageQueue, queue_offset: int) -> None:
        self._suspects.restart(queue)
        self._drop(queue)
        self.progress.set(queue, queue_offset)
        self._has[queue] = ProcessQueue(queue_offset)
        self._turns[queue] = None

    def seek_to_time(self, timestamp_ms: int | datetime) -> None:
        """Continue, in every queue it has, at the first message stored at or after this time (ms, or a datetime with a
        time zone). Raises StoreClosedError if it was closed."""
        timestamp_ms = check_time_ms("timestamp_ms", timestamp_ms)
        self._check_alive()
        for queue in self.queues:
            store = self._stores().get(queue.broker_name)
            if store is not None:  # else it was taken out just now
                self.seek(queue, store.store.offset_at(queue.topic, queue.queue_id, timestamp_ms))

    def skip_to_now(self) -> None:
        """Skip all existing messages. Raises StoreClosedError if it was closed."""
        self._check_alive()
        for queue in self.queues:
            self.seek(queue, (1 << 63) - 1)

    # -- life

    @property
    def is_over(self) -> bool:
        """Whether it has stopped delivering."""
        return self._is_stopped or not self.is_alive

    def _check_alive(self) -> None:
        if not self.is_alive:
            raise StoreClosedError(f"group {self.group!r}: the member {self.name!r} was closed; subscribe again")

    def stop(self) -> None:
        """Deliver nothing more; waiting receives return. Until `close` the queues stay here, and messages in process
        can be acknowledged."""
        self._is_stopped = True
        self._waiters.notify()

    def close(self) -> None:
        """Leave the group. Acknowledgements are on the disk when this returns; unacknowledged messages are redelivered.
        Waiting and later receives return None, or no messages. Calling it twice is fine; its store calls it, too."""
        with self._lock:
            for queue in list(self._has):
                self._drop(queue)
            self.is_alive = False
        self._leave(self)
        self._waiters.notify()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
