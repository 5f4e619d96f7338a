"""Receiving by pop from one store: who may have which message until when.

Invariants:
- A message is handed out after its check point was stored, and its queue's offset goes on after that: a crash in
  between delivers the message again, never less than once.
- The offsets of a queue are popped and committed in order, under the lock of (group, topic, queue).
- Two check points of a queue differ in start offset or pop time, so an ack can belong to one of them alone.
- An acknowledgement is answered after its record was stored, and while the invisible time lasts.
"""

from __future__ import annotations

import itertools
import logging
import random
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from ...engine.message_store import MessageStore
from ...engine.services.service_thread import ServiceThread
from ...engine.services.waiting_line import WaitingLines
from ...engine.services.wake_up import Notifiable, WakeUp
from ...engine.topics.offset_table import OffsetTable
from ...index.filter.sql_filter import SqlFilter
from ...index.filter.wanted import tags_or_filter
from ...store.arguments import check_flag, check_group, check_seconds
from ...store.errors import (
    DiskError,
    FlightlogError,
    InconsistentGroupError,
    InvalidArgumentError,
    StoreClosedError,
    TopicExistsError,
    TopicNotFoundError,
    TopicPermissionError,
    UsageError,
)
from ...store.queue_offsets import QueueKey
from ...store.results import PutStatus
from ...store.stored_message import StoredMessage
from ...store.topic import Topic, TopicPermission, routable_queues
from ..group.consumed_store import Owner
from ..group.group_settings import GroupSettings
from ..group.group_table import GroupTable
from ..group.initial_offset import StartFrom
from ..group.store_checks import check_new_group
from ..retry.dead_letters import DeadLetters
from .check_point import Ack, CheckPoint, CheckPointKey, ack_message, check_point_message
from .debts import warn_of_retries
from .next_messages import next_messages, queues_to_pop
from .order_table import OrderTable
from .ordered_pop import OrderedPop
from .pop_errors import ExpiredHandleError
from .pop_request import PopRequest, checked_handle, checked_handles, checked_invisible_ms, checked_request
from .pop_topics import REVIVE_QUEUE_COUNT, REVIVE_TOPIC, retry_topic
from .popped import HandleWords, PopHandle, PoppedMessage, words_by_check_point, words_of
from .recovery import recover_offsets
from .renewals import LEAST_SLICE_MS, Renewals
from .revive.revive_queue import ReviveQueue
from .revive.revived_pops import RevivedPops

log = logging.getLogger("flightlog.pop")

RETRY_FIRST_PERCENT = 20
"""How often messages that come again are looked for first (`popFromRetryProbability`)."""
REVIVE_INTERVAL_S = 1.0
WAIT_TICK_S = 0.5
"""How often a waiting receive looks at the clock."""


@dataclass(eq=False)
class _Place:
    """A queue as a group pops from it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held from the reading of the offset until the next one is set."""
    last_start: int = -1
    last_pop_time_ms: int = 0


class PopService:
    """Pops, acknowledgements and redelivery of one store. Thread-safe."""

    def __init__(
        self,
        store: MessageStore,
        groups: GroupTable,
        owners: Mapping[str, Owner],
        broker_name: str,
        seed: int | None = None,
    ) -> None:
        """`owners` balances subscriptions; `seed`: of the order in which queues are looked at. Writes nothing yet."""
        self._store, self._groups, self._owners, self._broker_name = store, groups, owners, broker_name
        self._random, self._turn = random.Random(seed), itertools.count()
        self._places: dict[tuple[str, str, int], _Place] = {}
        self._lines = WaitingLines(store.arrivals)
        """Receives that wait, by group and topic."""
        self._begun: dict[_Place, int] = {}
        """Where the log ended when a check point that is being put was begun: the group does not go on yet."""
        self._letters = DeadLetters(store)
        self.renewals = Renewals(store.clock, self._change_invisible)
        self._orders = OrderTable(store)
        self._ordered = OrderedPop(
            *(store, self._orders, self._letters, self._lock_of, self._check_not_subscribed, broker_name)
        )
        self._starting, self._is_started = threading.Lock(), False
        self._is_idle = False
        """Whether the thread sleeps until something arrives in the revive topic."""
        self._reviving = threading.Lock()
        revived = RevivedPops(store)
        self._queues = [
            ReviveQueue(store, self._letters, revived, number, broker_name) for number in range(REVIVE_QUEUE_COUNT)
        ]
        self._save_due_s: float | None = None
        self._save_interval_s = store.settings.offset_save_interval_ms / 1000
        self._longest_ms = store.settings.timer_max_delay_s * 1000
        self._failure = ""
        self._warned_groups: set[str] = set()
        """Groups that were looked at for retries which a receive does not return."""
        self._wake_up = WakeUp()
        wake_up = self._wake_up
        self._thread = ServiceThread("flightlog-revive", _serving(self, wake_up), wake_up.notify)

    def recover(self) -> None:
        """To be called once, when the store was opened. Raises as `read`, DiskError, ConfigFileError."""
        recover_offsets(self._store)
        self._orders.load()

    # -- receiving

    def receive(
        self,
        group: str | int,
        topic: str,
        max_count: int,
        invisible_ms: int,
        wait_s: float,
        start: StartFrom | int | datetime,
        renew: bool,
        *,
        tags: str,
        filter: SqlFilter | None,
        max_attempts: int | None,
        attempt_id: str | None,
    ) -> list[PoppedMessage]:
        """Pop up to `max_count` messages (32 at most) of a topic for a group: no other receive of the group gets them
        for `invisible_ms` milliseconds. Any number of threads may receive, also from one queue.

        Acknowledge each message with `ack(message.handle)` within that time, or prolong it with `change_invisible`. A
        message that is not acknowledged is delivered again two to four seconds after its time, `attempt` one higher,
        also after a crash and by a later process. One that was delivered `max_attempts` times (None: as the settings of
        the group say, 17 by default) goes to the topic `%DLQ%GROUP` instead, when a receive comes to it.

        With `renew=True`, for work that may take long, the store prolongs the time of each message before it is over,
        by `invisible_ms` (5,000 at least) and for three hours at most, until you pass its handle to `ack` or
        `change_invisible`. The handle stays valid meanwhile, in this process alone. If the process ends, the messages
        are delivered again after the time that they have then.

        `wait_s`: how many seconds to wait while there is no message; 0 returns at once. `tags` or `filter` (made by
        `flightlog.sql`) passes other messages over for the group. `start` is where a group begins in a queue that it
        has no offset in. All queues of the topic are tried from a random one on; in one of five calls messages that
        come again are looked for first, else last. The list is empty if there is no message; it may be shorter than
        `max_count` though there are more.

        A group that is ordered (`update_group(group, is_ordered=True)`) receives the messages of each queue, and so of
        each message group, in order. A queue is blocked while a message that was received from it is invisible and not
        acknowledged. What is not acknowledged in time comes again where it is, at once after its time, as the first
        message of its queue and alone; after its attempts it goes to the dead letters, and the queue goes on. If the
        answer may have been lost, call again with the same `attempt_id`, any text that no other receive has: what the
        call before received is returned again, with new handles, and counts as the same attempt.

        Durable on return as a put is: who has the messages until when, and where the group goes on.

        Raises TopicNotFoundError, TopicPermissionError, TooManyQueuesError for a topic of over 65,536 queues;
        InconsistentGroupError if the group has subscriptions here, also if one joins during the wait; UsageError with
        deliver_delayed=False or for a group that is not enabled; InvalidArgumentError, CorruptRecordError at a damaged
        message, and as `put`; StoreClosedError, also if the store is closed meanwhile.
        """
        self._store.check_usable()
        settings = self._groups.settings(check_group(group))
        attempts = settings.max_attempts if max_attempts is None else max_attempts
        request = checked_request(
            *(group, topic, max_count, invisible_ms, tags_or_filter(tags, filter), start, attempts, attempt_id),
            is_ordered=settings.is_ordered,
            longest_ms=self._longest_ms,
        )
        check_seconds("wait_s", wait_s)
        check_flag("renew", renew)
        if renew and invisible_ms < LEAST_SLICE_MS:
            raise InvalidArgumentError("invisible_ms", invisible_ms, f"at least {LEAST_SLICE_MS} with renew=True")
        self._check_group(settings)
        check_new_group(self._store, self._groups, settings.name)
        self._check_topic(topic)
        if settings.name not in self._warned_groups:
            self._warned_groups.add(settings.name)
            warn_of_retries(self._store, settings.name)
        self._start()
        popped = self._receive(request, wait_s)
        if renew and popped:
            self.renewals.add((each.handle for each in popped), invisible_ms)
            self._woken(popped)
        return popped

    def _check_group(self, settings: GroupSettings) -> None:
        group = settings.name
        if not settings.is_enabled:
            raise UsageError(f"group {group!r} is not enabled in {self._store.path}: enable it with update_group")
        self._check_not_subscribed(group)

    def _check_not_subscribed(self, group: str) -> None:
        """Raises InconsistentGroupError: subscriptions of the group would get the same messages."""
        owner = self._owners.get(group)
        if owner is not None and owner.is_balancing(group):
            raise InconsistentGroupError(group, "subscriptions of it", "a group that only receives")

    def _start(self) -> None:
        """Make the revive topic and start the thread, once. Raises DiskError, ThreadStartError."""
        if self._is_started:
            return
        with self._starting:
            if self._store.topic(REVIVE_TOPIC) is None:
                with suppress(TopicExistsError):
                    self._store.topic_table.create(Topic(REVIVE_TOPIC, REVIVE_QUEUE_COUNT, REVIVE_QUEUE_COUNT))
            self._store.offsets.note_popped(partial(_popped_before, self._store.offsets, self._begun))
            self._thread.start()
            self._is_started = True

    def _receive(self, request: PopRequest, wait_s: float) -> list[PoppedMessage]:
        """Pop, and wait for messages as long as there are none."""
        if not wait_s:
            return self._pop(request)
        group, topic, clock = request.group, request.topic, self._store.clock
        due_s = clock.monotonic_s() + wait_s
        wake_up = WakeUp()
        with self._lines.joined((group, topic), wake_up) as line, self.expecting(wake_up, group):
            while True:
                line.expect(set(self.queue_keys(group, topic)))
                popped = self._pop(request)
                left_s = due_s - clock.monotonic_s()
                if popped or left_s <= 0:
                    return popped
                wake_up.wait(min(left_s, WAIT_TICK_S, self.free_in_s(group, topic)))
                self._store.check_usable()

    def queue_keys(self, group: str, topic: str) -> Iterator[QueueKey]:
        """All queues that a receive reads."""
        for name in (topic, retry_topic(group, topic)):
            count = 1 if self._store.topic(name) is None else self._readable_count(name)
            yield from ((name, queue_id) for queue_id in range(count))

    @contextmanager
    def expecting(self, wake_up: Notifiable, group: str) -> Iterator[None]:
        """In the block, notify when the group acknowledges what it received in order: its queue may be free then."""
        self._ordered.expect(wake_up, group)
        try:
            yield
        finally:
            self._ordered.forget(wake_up)

    def free_in_s(self, group: str, topic: str) -> float:
        """After how many seconds the first queue that is blocked for the group becomes free; infinite if none is."""
        return self._ordered.free_in_s(group, self.queue_keys(group, topic), self._store.clock.now_ms())

    def _readable_count(self, name: str) -> int:
        topic = self._store.topic(name)
        count = topic.read_queue_count if topic is not None and TopicPermission.READ in topic.perm else 0
        return len(routable_queues(self._store.path, name, count, "read_queue_count"))

    def _check_topic(self, topic: str) -> None:
        """Raises TopicNotFoundError, TopicPermissionError, TooManyQueuesError; UsageError where no timers run."""
        if not self._store.settings.deliver_delayed:
            raise UsageError(
                "receive: the store was opened with deliver_delayed=False, so messages that are not acknowledged could "
                "not come again; expected deliver_delayed=True"
            )
        if self._store.topic(topic) is None:
            raise TopicNotFoundError(self._store.path, topic, "make it with create_topic")
        if not self._readable_count(topic):
            raise TopicPermissionError(f"{self._store.path}: the topic {topic!r} has no queue to read from")

    def _pop(self, request: PopRequest) -> list[PoppedMessage]:
        spin, revive_queue_id = self._random.randrange(100), next(self._turn) % REVIVE_QUEUE_COUNT
        names = [request.topic, retry_topic(request.group, request.topic)]
        if spin < RETRY_FIRST_PERCENT and not request.is_ordered:
            names.reverse()
        counts = {name: self._readable_count(name) for name in names}
        queues = [(name, (spin + number) % count) for name, count in counts.items() for number in range(count)]
        if request.attempt_id is not None:  # what the call before had comes before what is new
            queues.sort(key=lambda queue: not self._ordered.was_popped_by(request, queue))
        now_ms = self._store.clock.now_ms()
        popped: list[PoppedMessage] = []
        failure: FlightlogError | None = None
        self._check_not_subscribed(request.group)
        for queue in queues_to_pop(self._store, request, queues):
            room = request.max_count - len(popped)
            try:
                popped += self._pop_queue(request, queue, room, revive_queue_id, now_ms)
            except FlightlogError as e:  # the other queues are received from
                failure = failure or e
            if len(popped) >= request.max_count:
                break
        if failure is not None:
            if not popped:
                raise failure
            log.warning("a queue is passed over: %s", failure, extra={"cause": repr(failure)})
        return self._without_dead(popped, request)

    def _pop_queue(
        self, request: PopRequest, queue: QueueKey, room: int, revive_queue_id: int, now_ms: int
    ) -> list[PoppedMessage]:
        group, offsets = request.group, self._store.offsets
        if request.is_ordered or self._ordered.is_unfinished(group, queue):
            return self._woken(self._ordered.pop(request, queue, room, now_ms))
        place = self._places.setdefault((group, *queue), _Place())
        with place.lock:
            self._check_not_subscribed(group)  # here, too: one that joined meanwhile has read the offset, or waits to
            start, found = next_messages(self._store, request, queue, room)
            if not found.messages:
                return []
            pop_time_ms = now_ms
            if start == place.last_start:  # popped again after a reset
                pop_time_ms = max(now_ms, place.last_pop_time_ms + 1)
            key = CheckPointKey(queue[0], group, queue[1], start, pop_time_ms, self._broker_name)
            point = CheckPoint(key, request.invisible_ms, tuple(each.queue_offset for each in found.messages))
            self._begun[place] = offsets.log_end()
            try:
                self._store.putter.park_many([check_point_message(point, revive_queue_id, found.next_queue_offset)])
            except FlightlogError:  # it is not there, or the store is over
                del self._begun[place]
                raise
            place.last_start, place.last_pop_time_ms = start, pop_time_ms
            offsets.set(group, *queue, found.next_queue_offset)
            del self._begun[place]  # not where an interrupt came in between: the next life sets the offset
        words = HandleWords(key, request.invisible_ms, revive_queue_id)
        shared, expires_ms = str(words), words.expires_ms
        return self._woken(
            [
                PoppedMessage(each, PopHandle(group, request.topic, f"{shared} {offset}"), expires_ms)
                for each, offset in zip(found.messages, point.offsets, strict=True)
            ]
        )

    def _woken(self, popped: list[PoppedMessage]) -> list[PoppedMessage]:
        """The thread is to write the offset."""
        if self._is_idle:
            self._is_idle = False
            self._wake_up.notify()
        return popped

    def _without_dead(self, popped: list[PoppedMessage], request: PopRequest) -> list[PoppedMessage]:
        """What is to be delivered; the rest had its attempts, and goes to the dead letters."""
        dead = [each for each in popped if each.attempt > request.max_attempts]
        if dead:
            for each in dead:
                popped_ms = words_of(each.handle)[0].key.pop_time_ms
                self._letters.put(request.group, replace(each.message, topic=request.topic), each.attempt, popped_ms)
            with suppress(ExpiredHandleError):  # it does not come again all the same: see DeadLetters
                self.ack(*(each.handle for each in dead))
        return [each for each in popped if each.attempt <= request.max_attempts]

    @contextmanager
    def no_pop(self, group: str, *queues: QueueKey) -> Iterator[None]:
        """The group pops nothing from these queues during the block."""
        with ExitStack() as held:
            for queue in sorted(queues):  # one order for all
                held.enter_context(self._lock_of(group, queue))
            yield

    @contextmanager
    def moving(self, group: str, queue: QueueKey) -> Iterator[None]:
        """As `no_pop`, and the offset is set in the block: what was popped in order does not block the queue any more.
        Raises as `put`."""
        with self._lock_of(group, queue):
            yield
            self._ordered.clear(group, queue)

    def _lock_of(self, group: str, queue: QueueKey) -> threading.Lock:
        return self._places.setdefault((group, *queue), _Place()).lock

    def forget(self, *, topic: str | None = None, group: str | None = None) -> None:
        """Forget what was popped in order from this topic, or by this group, which is deleted. Raises DiskError."""
        self._orders.forget(topic=topic, group=group)

    # -- acknowledging

    def ack(self, *handles: PopHandle) -> PutStatus:
        """Acknowledge messages that `receive` returned: they are not delivered again. Acknowledging twice is fine.

        Durable on return as a put is: under sync flush PUT_OK says that it is, FLUSH_DISK_TIMEOUT that it may not be
        yet. Raises ExpiredHandleError if the invisible time of some is over, after the others were acknowledged;
        InvalidArgumentError, and as `put`: then a message may come again.
        """
        self._store.check_usable()
        receivers: dict[object, PopHandle] = {self.renewals.take(handle): handle for handle in checked_handles(handles)}
        try:
            return self._ack([handle for handle in receivers if isinstance(handle, PopHandle)])
        except ExpiredHandleError as e:
            e.handles = tuple(receivers[handle] for handle in e.handles)
            raise

    def _ack(self, handles: list[PopHandle]) -> PutStatus:
        """Those that count."""
        given = words_by_check_point(handles)
        self._start()
        now_ms = self._store.clock.now_ms()
        statuses: list[PutStatus] = []
        expired: list[PopHandle] = []
        unordered = [(words, offsets) for words, offsets in given if not words.is_ordered]
        if len(unordered) < len(given):
            statuses, expired = self._ordered.ack([handle for handle in handles if words_of(handle)[0].is_ordered])
        results = self._store.putter.park_many(
            ack_message(Ack(words.key, tuple(dict.fromkeys(offsets))), words.expires_ms, words.revive_queue_id)
            for words, offsets in unordered
            if words.expires_ms > now_ms
        )
        now_ms = max(now_ms, self._store.clock.now_ms())
        late = {words for words, _ in unordered if words.expires_ms <= now_ms}
        if late:
            expired += [handle for handle in handles if words_of(handle)[0] in late]
        if expired:
            raise ExpiredHandleError(expired, min(now_ms, *(words.expires_ms for words, _ in given)), now_ms)
        return _status_of([*statuses, *(result.status for result in results)])

    def forward_to_dead_letters(self, handle: PopHandle, attempt: int) -> PutStatus:
        """Give up a received message, whatever attempts it has left: put it among the dead letters of its group, once
        however often you call this, and acknowledge it. `attempt` counts its deliveries. Durable as `ack`.

        Raises ExpiredHandleError, InvalidArgumentError for a handle of a message that is not there, and as `ack`.
        """
        words_of(checked_handle(handle))
        handle = self.renewals.take(handle)
        self._start()
        (words, _), now_ms = words_of(handle), self._store.clock.now_ms()
        if words.expires_ms <= now_ms:
            raise ExpiredHandleError([handle], words.expires_ms, now_ms)
        origin = replace(self._message_of(handle), topic=handle.topic)
        if words.is_ordered:
            return _status_of(self._ordered.give_up(handle, origin, attempt))
        self._letters.put(words.key.group, origin, attempt, words.key.pop_time_ms)
        return self.ack(handle)

    def _message_of(self, handle: PopHandle) -> StoredMessage:
        """Raises InvalidArgumentError if retention removed it, and as `get`."""
        words, queue_offset = words_of(handle)
        found = self._store.get(words.key.topic, words.key.queue_id, queue_offset, 1).messages
        if not found or found[0].queue_offset != queue_offset:
            raise InvalidArgumentError("handle", handle.extra_info, "the handle of a message that is still there")
        return found[0]

    def change_invisible(
        self, handle: PopHandle, invisible_ms: int | None = None, *, count_attempt: bool = True
    ) -> PopHandle:
        """Have a received message be delivered again `invisible_ms` milliseconds from now unless it is acknowledged: a
        longer time while you work on it, a short one to try it again soon; None: after the delay that the retry policy
        of its group has for this attempt. Returns the handle that counts from now on; the old one has no effect any
        more.

        The next delivery has an `attempt` that is one higher; with `count_attempt=False` it has the same one, also if
        you change the time once more so. Durable on return as a put is. After a crash during the call the message may
        come twice. Raises ExpiredHandleError, InvalidArgumentError, and as `put`.
        """
        self._store.check_usable()
        words_of(checked_handle(handle))
        check_flag("count_attempt", count_attempt)
        if invisible_ms is not None:
            checked_invisible_ms(invisible_ms, self._longest_ms)
        handle = self.renewals.take(handle)
        if invisible_ms is None:
            invisible_ms = min(max(self._retry_delay_ms(handle), 1), self._longest_ms)
        return self._change_invisible(handle, invisible_ms, is_counted=count_attempt)

    def _retry_delay_ms(self, handle: PopHandle) -> int:
        words, offset = words_of(handle)
        reconsume_times, key = self._message_of(handle).reconsume_times, words.key
        if words.is_ordered:
            reconsume_times += self._ordered.deliveries_before(key.group, (key.topic, key.queue_id), offset)
        return self._groups.settings(key.group).retry_policy.delay_ms(reconsume_times)

    def _change_invisible(self, handle: PopHandle, invisible_ms: int, *, is_counted: bool = True) -> PopHandle:
        """The one that counts."""
        old, offset = words_of(handle)
        self._start()
        if old.is_ordered:
            return self._ordered.change_invisible(handle, old, offset, invisible_ms, is_counted=is_counted)
        now_ms = self._store.clock.now_ms()
        if old.expires_ms <= now_ms:
            raise ExpiredHandleError([handle], old.expires_ms, now_ms)
        pop_time_ms = max(now_ms, old.key.pop_time_ms + 1)  # else the old ack would be one of the new check point
        key = old.key._replace(start_offset=offset, pop_time_ms=pop_time_ms)
        new = HandleWords(key, invisible_ms, old.revive_queue_id)
        point = CheckPoint(key, invisible_ms, (offset,), is_uncounted=not is_counted)
        ack = ack_message(Ack(old.key, (offset,)), old.expires_ms, old.revive_queue_id)
        # In this order: a crash in between delivers the message twice.
        self._store.putter.park_many([check_point_message(point, old.revive_queue_id), ack])
        after_ms = self._store.clock.now_ms()
        if old.expires_ms <= after_ms:
            raise ExpiredHandleError([handle], old.expires_ms, after_ms)
        return PopHandle(handle.group, handle.topic, f"{new} {offset}")

    # -- reviving

    def revive(self) -> int:
        """Bring back what was not acknowledged in time; returns how many messages. The service's thread does this
        every second while check points wait; tests may call it."""
        with self._reviving:
            now_ms = self._store.clock.now_ms()
            revived = sum(queue.revive(now_ms) for queue in self._queues)
            if revived:  # so that hardly any comes twice after a crash
                self._store.offsets.save()
            return revived

    def run_due(self) -> float | None:
        """One round of the thread; returns after how many seconds to come again, None: when something arrives."""
        revive_keys = {(REVIVE_TOPIC, queue_id) for queue_id in range(REVIVE_QUEUE_COUNT)}
        self._store.arrivals.expect(self._wake_up, revive_keys)
        try:
            self.renewals.renew_due()
            self.revive()
            self._save_when_due()
            self._failure = ""
        except StoreClosedError:
            return None
        except FlightlogError as e:
            if str(e) != self._failure:
                log.warning("messages that are to come again wait: %s", e, extra={"cause": repr(e)})
            self._failure = str(e)
            return REVIVE_INTERVAL_S
        except Exception as e:  # the thread must go on: nothing would come again without it
            log.exception("messages that are to come again wait", extra={"cause": repr(e)})
            return REVIVE_INTERVAL_S
        if any(map(len, self._queues)) or self.renewals:
            return REVIVE_INTERVAL_S
        self._is_idle = not self._is_unsaved
        return None if self._is_idle else self._save_interval_s

    @property
    def _is_unsaved(self) -> bool:
        return self._store.offsets.is_unsaved or self._orders.is_unsaved

    def _save(self) -> None:
        self._orders.save()
        self._store.offsets.save()

    def _save_when_due(self) -> None:
        now_s = self._store.clock.monotonic_s()
        if not self._is_unsaved:
            self._save_due_s = None
        elif self._save_due_s is None:
            self._save_due_s = now_s + self._save_interval_s
        elif now_s >= self._save_due_s:
            self._save_due_s = None
            self._save()

    @property
    def is_stopping(self) -> bool:
        return self._thread.is_stopping

    def close(self) -> None:
        """Return once the thread has ended and the offsets are written. Before the store is closed."""
        self._thread.stop()
        if not self._is_started:
            return
        try:
            self._save()
        except DiskError as e:
            log.warning("offsets of popped messages were not written: %s", e, extra={"cause": repr(e)})


def _serving(service: PopService, wake_up: WakeUp) -> Callable[[], None]:
    """The work of its thread. It does not hold the service: a store that is dropped without `close` is closed."""
    held = weakref.ref(service, lambda _: wake_up.notify())

    def serve() -> None:
        while (service := held()) is not None and not service.is_stopping:
            wait_s = service.run_due()
            del service
            wake_up.wait(wait_s)

    return serve


def _popped_before(offsets: OffsetTable, begun: Mapping[_Place, int]) -> int:
    """Every check point below this physical offset has its group's offset set.

    No method: the threads of the store hold the table, and a store that is dropped without `close` is closed.
    """
    end = offsets.log_end()  # before the look at the rest
    return min([end, *tuple(begun.values())])


def _status_of(statuses: Iterable[PutStatus]) -> PutStatus:
    return PutStatus.FLUSH_DISK_TIMEOUT if PutStatus.FLUSH_DISK_TIMEOUT in statuses else PutStatus.PUT_OK
