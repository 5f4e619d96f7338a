"""Sends messages to the queues of one store or of several.

Several stores, one a disk, are for spread and for isolation, not for replication: each message is in one of them.

Invariants:
- A message group has one queue as long as the stores, their queue counts and the rule stay what they are: whatever
  fails, its messages go there or nowhere.
- What may be in one store already is not put to another: before another try the store is asked.
- No try begins after the timeout of its send.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from ..engine.services.futures import complete
from ..schedule.delivered import HALF_TOPIC
from ..store.arguments import (
    check_callable,
    check_flag,
    check_seconds,
    check_text,
    check_topic,
    check_type,
    check_whole,
)
from ..store.disk.clock import Clock, SystemClock
from ..store.errors import (
    DiskError,
    DiskFullError,
    FlightlogError,
    InvalidSettingsError,
    NoRouteError,
    QueueNotFoundError,
    StoreClosedError,
    TopicNotFoundError,
    TopicPermissionError,
    WrongTypeError,
)
from ..store.format import property_names as props
from ..store.message import Message
from ..store.message_check import check_message
from ..store.message_queue import MessageQueue
from ..store.results import PutResult
from ..store.settings import FlushMode
from .faults import FaultRules, FaultTable
from .hot_spots import HotSpots, HotWatch
from .message_type import check_message_type
from .queue_hash import by_hash_code, by_sip_hash
from .route import Route, Routes, SendStore
from .send_errors import SendTimeoutError
from .send_result import SendFailure, SendResult
from .transaction.checker import transactions_of
from .transaction.half_message import IS_TRANSACTION
from .transaction.transaction import Transaction
from .uniq_key import UniqKeys

MASK = 0x7FFFFFFF


class RoundRobin:
    """Whose turn it is: a counter per thread, so that threads do not wait for each other. It starts at random, so that
    senders do not all begin with the same queue (RocketMQ's `ThreadLocalIndex`). Safe from many threads."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def next(self) -> int:
        """0 to 2**31 - 1, one more than this thread's last one."""
        last: int | None = getattr(self._of_thread, "last", None)
        found = random.getrandbits(31) if last is None else (last + 1) & MASK
        self._of_thread.last = found
        return found


log = logging.getLogger("flightlog.produce")

RETRIES = 2
PRODUCER_GROUP = "DEFAULT_PRODUCER"
"""RocketMQ's, of a producer that is given none."""
TIMEOUT_S = 3.0
"""No try of a send begins later (RocketMQ's `sendMsgTimeout`)."""
A_STORE = "a store that is open for writing, as flightlog.open gives"
ONE_STORE = "store"
"""The name of the store of a producer that has one, and was told no name."""

GroupRule = Callable[[str, int], int]
"""Message group and number of queues -> place of the queue."""
Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses one of the queues."""

STORE_FAILED = (DiskError, StoreClosedError)
ELSEWHERE = (*STORE_FAILED, TopicNotFoundError, QueueNotFoundError, TopicPermissionError)
"""Another store may take the message."""
NOT_STORED = (DiskFullError, StoreClosedError, TopicNotFoundError, QueueNotFoundError, TopicPermissionError)
"""Of those, the ones after which the store has nothing of it."""


@dataclass(slots=True)
class Sending:
    """A message on its way."""

    message: Message
    """As it was given."""
    uniq_key: str
    group: str | None
    queue: MessageQueue | None
    """The only one that it may go to; None: any of the route."""
    route: Route
    timeout_s: float
    deadline_s: float
    """On the clock of `monotonic_s`: no try begins after it."""
    ends_waits: bool
    """Whether the deadline ends the wait for a sync, too."""
    tried: list[str] = field(default_factory=list)
    """Stores that have failed for it."""
    appended_to: MessageQueue | None = None
    """Where the message is, while a future waits for its sync."""
    record_topic: str | None = None
    """The topic of its record, if that is not the message's."""

    def to(self, queue: MessageQueue) -> Message:
        """What is put to this queue."""
        if self.group is None:
            return replace(self.message, queue_id=queue.queue_id, uniq_key=self.uniq_key)
        properties = {**(self.message.properties or {}), props.SHARDING_KEY: self.group}
        return replace(self.message, queue_id=queue.queue_id, uniq_key=self.uniq_key, properties=properties)


class Producer:
    """Sends to open stores; closes none of them. Safe from many threads.

    `stores`: one, or several by name; the names are those of brokers in RocketMQ's terms, and part of which queue a
    message group has. `rule`: which queue that is: `by_sip_hash` as RocketMQ's gRPC clients (the default),
    `by_hash_code` as its Java client, `by_jump_hash` as its proxy. To change the rule, the stores or a number of queues
    while messages wait breaks the order between what was sent before and what after. `retries`: of a message without a
    group, each to another store where there is one. `producer_group`: whose TransactionChecker answers for transactions
    that are left without an end. `timeout_s`: of a send, see there. `check_message_type`: refuse messages of another
    type than their topic's attribute `message.type`, as RocketMQ's 5.x proxy does.
    """

    def __init__(
        self,
        stores: SendStore | Mapping[str, SendStore],
        *,
        rule: GroupRule = by_sip_hash,
        retries: int = RETRIES,
        producer_group: str = PRODUCER_GROUP,
        timeout_s: float | None = None,
        check_message_type: bool = False,
        fault_rules: FaultRules | None = None,
        clock: Clock | None = None,
    ) -> None:
        retries = check_whole("retries", retries)
        check_callable("rule", rule, "a function of a message group and a number of queues, such as by_sip_hash")
        check_text("producer_group", producer_group, "the name of a producer group as text")
        if timeout_s is not None:
            check_seconds("timeout_s", timeout_s)
        check_flag("check_message_type", check_message_type)
        if fault_rules is not None:
            check_type("fault_rules", fault_rules, FaultRules, "FaultRules, or None")
        if not isinstance(stores, (SendStore, Mapping)):
            raise WrongTypeError("stores", stores, f"{A_STORE}, or several by name, as in {{'disk-a': store}}")
        for name, store in {} if isinstance(stores, SendStore) else stores.items():
            _check_store(name, store)
        self._stores = {ONE_STORE: stores} if isinstance(stores, SendStore) else dict(stores)
        self.producer_group = producer_group
        self._rule, self._retries, self._clock = rule, retries, clock or SystemClock()
        self._timeout_s, self._checks_message_type = timeout_s, check_message_type
        self._faults = FaultTable(self._clock, fault_rules or FaultRules())
        self._routes, self._turns, self._hot, self._uniq_keys = (
            Routes(self._clock),
            RoundRobin(),
            HotWatch(),
            UniqKeys(),
        )

    def __repr__(self) -> str:
        return f"<Producer to {', '.join(f'{name!r}: {store!r}' for name, store in self._stores.items())}>"

    # -- stores

    def add_store(self, name: str, store: SendStore) -> None:
        """Send to this one, too, from the next message on; in place of the one of that name, if there is one (a store
        that was opened again). Message groups move to other queues where the number of queues changes."""
        _check_store(name, store)
        self._stores = {**self._stores, name: store}
        self._routes.forget(name)
        self._faults.forget(name)

    def remove_store(self, name: str) -> None:
        """Send nothing there any more. Message groups move. Raises InvalidSettingsError if there is none."""
        check_text("name", name)
        if name not in self._stores:
            raise InvalidSettingsError(f"no store {name!r}: there are {', '.join(sorted(self._stores)) or 'none'}")
        self._stores = {known: store for known, store in self._stores.items() if known != name}
        self._routes.forget(name)
        self._faults.forget(name)

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Where messages of a topic go. Raises NoRouteError, TooManyQueuesError."""
        check_topic(topic)
        return self._routes.of(topic, self._stores).queues

    @property
    def hot_spots(self) -> HotSpots:
        """Message groups and queues that had more than their share of the last 10,000 sends."""
        return self._hot.found

    # -- sending

    def send(
        self,
        message: Message,
        *,
        group: str | None = None,
        selector: Selector | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Put a message to one of the topic's queues; `message.queue_id` is not looked at.

        Without `group` and `selector` the queues take turns, those of stores that are left alone for a while excepted,
        and a store that fails is left for another one, `retries` times. With `group` it goes to the queue of this
        message group, and the group is stored as its property `__SHARDINGKEY`; with `selector` to the one that it
        chooses. Those two are tried once.

        A message without a `uniq_key` gets one, and the result tells it. What is promised when this returns is what
        `Store.put` promises. After `timeout_s` (default: the producer's) no try begins, and the wait for a sync ends;
        FLUSH_DISK_TIMEOUT, which a store answers before, is a result: the message is stored. With neither timeout, no
        try begins after 3 s, and a try waits for its sync as `put` does.

        Raises NoRouteError, TooManyQueuesError (over 65,536 queues in a store), MessageTypeError (on request),
        SendTimeoutError, which says whether the message may be stored, and what `put` raises: of a store that may have
        the message, that store's error, with a note.
        """
        sending = self._begin(message, group, selector, timeout_s)
        while True:
            queue, began_s = self._choose_queue(sending), self._clock.monotonic_s()
            try:
                found = self._put(sending, queue)
            except ELSEWHERE as e:
                if (failure := self._refused(sending, queue, e)) is not None:
                    raise _noted(failure) from failure.error.__cause__
            else:
                return self._sent(sending, queue, found, began_s)

    def send_async(
        self,
        message: Message,
        *,
        group: str | None = None,
        selector: Selector | None = None,
        timeout_s: float | None = None,
    ) -> Future[SendResult]:
        """Append a message as `send` does, in this call, and leave the waiting to the future that it returns.

        Errors before the append are raised here. Under async flush the future is done when it is returned. Under sync
        flush a thread of the store completes it, see `Store.put_async`: with FLUSH_DISK_TIMEOUT at the latest after the
        setting `sync_flush_timeout_ms`; one sync serves all that wait. If the sync fails, the future has the store's
        error, with a note, unless that store does not have the message: then it is put to another one as by `send`.
        `timeout_s` bounds the tries; how long to wait for the future is the caller's choice.

        A future cannot be cancelled: its message is in a log. Its callbacks may not wait for other futures.
        """
        return self._send_async(self._begin(message, group, selector, timeout_s))

    async def send_coroutine(
        self,
        message: Message,
        *,
        group: str | None = None,
        selector: Selector | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """As `send`, awaited: other tasks of the loop run while it waits for a sync. No thread waits.

        It appends in the loop's thread. A coroutine that is cancelled while it waits has appended its message, which
        is stored all the same.
        """
        import asyncio

        await asyncio.sleep(0)  # a loop that only sends must not keep the event loop from its other tasks
        sending = self._begin(message, group, selector, timeout_s)
        future = self._send_async(sending)
        if future.done():
            return future.result()
        try:
            async with asyncio.timeout(self._left_s(sending) if sending.ends_waits else None):
                return await asyncio.wrap_future(future)
        except SendTimeoutError:
            raise
        except TimeoutError:
            raise self._timed_out(sending) from None

    def transaction(
        self, message: Message, *, group: str | None = None, selector: Selector | None = None
    ) -> Transaction:
        """Store a message that nobody sees until the transaction that this returns is committed.

            with producer.transaction(Message("orders", b"created")) as tx:
                ...  # the application's own work: an exception here rolls back
                # at the end of the block it is committed, unless tx.rollback() or tx.unknown() was called

        Queue and store are chosen as by `send`. The half message is stored when this returns, as durable as after a
        put; the TransactionChecker of this producer's group answers for it if its process dies. The store must have
        been opened without a pre_put_hook.

        Raises InvalidMessageError for what a transaction cannot have: a delay, an inner batch, light queues;
        ThreadStartError; otherwise as `send`.
        """
        check_message(message)
        half = replace(message, properties={**(message.properties or {}), IS_TRANSACTION: "true"})
        sending = self._begin(half, group, selector, None)
        sending.record_topic = HALF_TOPIC
        while True:
            queue, began_s = self._choose_queue(sending), self._clock.monotonic_s()
            try:
                transactions = transactions_of(self._store(queue))
                opened = transactions.begin(sending.to(queue), self.producer_group, sending.uniq_key)
            except ELSEWHERE as e:
                if (failure := self._refused(sending, queue, e)) is not None:
                    raise _noted(failure) from failure.error.__cause__
            else:
                self._sent(sending, queue, opened.result, began_s)
                return Transaction(transactions, opened, sending.uniq_key)

    # -- the way of a message

    def _begin(
        self, message: Message, group: str | None, selector: Selector | None, timeout_s: float | None
    ) -> Sending:
        """Check the call, and find out which queues the message may go to. Nothing is put."""
        if message.__class__ is not Message:
            check_message(message)
        if group is not None:
            check_text("group", group, "a message group as text")
        if selector is not None:
            check_callable("selector", selector, "a function of queues and a message, such as by_key")
        if group is not None and selector is not None:
            raise InvalidSettingsError("group and selector: expected one of them; a group has its queue by the rule")
        if timeout_s is not None:
            check_seconds("timeout_s", timeout_s)
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        tries_s = TIMEOUT_S if limit_s is None else limit_s
        route = self._routes.of(message.topic, self._stores)
        if self._checks_message_type:
            check_message(message)
            properties = message.all_properties() | ({} if group is None else {props.SHARDING_KEY: group})
            check_message_type(message.topic, route.message_types, properties)
        queue: MessageQueue | None = None
        if group is not None:
            queue = self._queue_of_group(message.topic, group, route)
        elif selector is not None:
            queue = selector(route.queues, message)
            if queue not in route.queues:
                raise InvalidSettingsError(
                    f"the selector chose {queue}, expected one of the {len(route.queues)} it got"
                )
        uniq_key = message.uniq_key or self._uniq_keys.make()
        deadline_s = self._clock.monotonic_s() + tries_s
        return Sending(message, uniq_key, group, queue, route, tries_s, deadline_s, ends_waits=limit_s is not None)

    def _queue_of_group(self, topic: str, group: str, route: Route) -> MessageQueue:
        if route.unknown:
            raise NoRouteError(
                f"topic {topic!r}, message group {group!r}: {', '.join(route.unknown)} closed before it was "
                "known which queues are there, and so which one the group has. Open it again, or take it out"
            )
        return route.queues[self._rule(group, len(route.queues))]

    def _choose_queue(self, sending: Sending) -> MessageQueue:
        return sending.queue or self._next_queue(sending.route, sending.tried)

    def _next_queue(self, route: Route, tried: Sequence[str]) -> MessageQueue:
        """The next one in turn of a store that has not failed for this message and may be sent to; where there is none,
        of the store that may be sent to first."""
        queues = route.queues
        for _ in queues:
            queue = self._take_turn(queues)
            if queue.broker_name not in tried and self._faults.is_available(queue.broker_name):
                return queue
        soonest = min(sorted({queue.broker_name for queue in queues}), key=lambda name: self._rank(name, tried))
        while (queue := self._take_turn(queues)).broker_name != soonest:
            pass
        return queue

    def _take_turn(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        """A queue that is passed over uses up its turn. Otherwise the queue behind a skipped store would get all turns
        of that store as well (RocketMQ: `MQFaultStrategy`)."""
        return queues[self._turns.next() % len(queues)]

    def _rank(self, name: str, tried: Sequence[str]) -> tuple[bool, float]:
        return name in tried, self._faults.alone_until_s(name)

    # -- one try

    def _store(self, queue: MessageQueue) -> SendStore:
        store = self._stores.get(queue.broker_name)
        if store is None:
            raise NoRouteError(f"{queue}: the store {queue.broker_name!r} has been taken out meanwhile")
        return store

    def _put(self, sending: Sending, queue: MessageQueue) -> PutResult:
        """Put it, and wait for its sync."""
        store, message = self._store(queue), sending.to(queue)
        if not sending.ends_waits or store.settings.flush_mode is not FlushMode.SYNC:
            return store.put(message)
        left_s = self._left_s(sending)
        future = store.put_async(message)  # a put that syncs itself cannot be ended
        sending.appended_to = queue
        try:
            return future.result(left_s)
        except TimeoutError:
            self._faults.note(queue.broker_name, left_s * 1000)
            raise self._timed_out(sending) from None

    def _send_async(self, sending: Sending) -> Future[SendResult]:
        future: Future[SendResult] = Future()
        future.set_running_or_notify_cancel()
        self._put_async(sending, future)
        return future

    def _put_async(self, sending: Sending, future: Future[SendResult]) -> None:
        """Append it, and have the future completed. Raises where no store takes it."""
        while True:
            queue, began_s = self._choose_queue(sending), self._clock.monotonic_s()
            try:
                putting = self._store(queue).put_async(sending.to(queue))
            except ELSEWHERE as e:
                if (failure := self._refused(sending, queue, e)) is not None:
                    raise _noted(failure) from failure.error.__cause__
            else:
                sending.appended_to = queue
                putting.add_done_callback(partial(self._put_done, sending, queue, began_s, future))
                return

    def _put_done(
        self,
        sending: Sending,
        queue: MessageQueue,
        began_s: float,
        future: Future[SendResult],
        putting: Future[PutResult],
    ) -> None:
        """A store says what became of a message that it has appended."""
        outcome: SendResult | BaseException
        try:
            outcome = self._sent(sending, queue, putting.result(), began_s)
        except ELSEWHERE as e:
            failure = self._refused(sending, queue, e)
            if failure is None:
                self._put_again(sending, future)
                return
            outcome = _noted(failure)
        except BaseException as e:  # whatever it is, the future must be completed
            outcome = e
        complete(future, outcome, log, "send", {"uniq_key": sending.uniq_key})

    def _put_again(self, sending: Sending, future: Future[SendResult]) -> None:
        try:
            self._put_async(sending, future)
        except BaseException as e:  # as above
            complete(future, e, log, "send", {"uniq_key": sending.uniq_key})

    def _sent(self, sending: Sending, queue: MessageQueue, found: PutResult, began_s: float) -> SendResult:
        self._faults.note(queue.broker_name, (self._clock.monotonic_s() - began_s) * 1000)
        hot = self._hot.note(queue, sending.group, len(sending.route.queues))
        if hot is not None:
            self._tell_hot(hot)
        return SendResult(found, queue, sending.uniq_key, len(sending.tried) + 1)

    def _refused(self, sending: Sending, queue: MessageQueue, error: FlightlogError) -> SendFailure | None:
        """What becomes of a message that its store did not take: None, and it may be put to another queue; or the end
        of its way."""
        name = queue.broker_name
        if isinstance(error, STORE_FAILED):
            self._faults.note_failure(name)
        self._routes.forget()
        sending.tried.append(name)
        is_surely_not_there = sending.appended_to is None and isinstance(error, NOT_STORED)
        doubt = "" if is_surely_not_there else self._doubt(name, sending)
        sending.appended_to = None
        if doubt or sending.queue is not None or len(sending.tried) > self._retries:
            return SendFailure(sending.to(queue), queue, error, doubt)
        if self._left_s(sending) <= 0:
            late = self._timed_out(sending)
            late.__cause__ = error
            return SendFailure(sending.to(queue), queue, late)
        log.warning(
            "%s: a message of topic %r goes to another queue: %s",
            *(name, sending.message.topic, error),
            extra={"store": name, "topic": sending.message.topic, "uniq_key": sending.uniq_key},
        )
        sending.route = self._routes.of(sending.message.topic, self._stores)
        return None

    def _doubt(self, name: str, sending: Sending) -> str:
        """Why the store that failed may have the message, now or when it is opened again; empty if it has not."""
        try:
            if not self._stores[name].was_stored(sending.uniq_key, sending.record_topic or sending.message.topic):
                return ""
        except (FlightlogError, KeyError) as e:
            return f"Whether the message {sending.uniq_key} is in {name!r} could not be found out: {e}"
        return (
            f"The message {sending.uniq_key} is in the log of {name!r}, not acknowledged: it was not sent to another "
            "store, which could make it two. Ask was_stored when the store is open again"
        )

    def _left_s(self, sending: Sending) -> float:
        """How much of its time is left."""
        return max(0.0, sending.deadline_s - self._clock.monotonic_s())

    def _timed_out(self, sending: Sending) -> SendTimeoutError:
        return SendTimeoutError(sending.message.topic, sending.uniq_key, sending.timeout_s, sending.appended_to)

    def _tell_hot(self, hot: HotSpots) -> None:
        told = [f"message group {group!r}: {part:.0%}" for group, part in hot.groups.items()]
        told += [f"{queue}: {part:.0%}" for queue, part in hot.queues.items()]
        facts = {"groups": dict(hot.groups), "queues": {str(queue): part for queue, part in hot.queues.items()}}
        log.warning("of the last 10,000 sends at least: %s", "; ".join(told), extra=facts)


def _noted(failure: SendFailure) -> FlightlogError:
    if failure.doubt:
        failure.error.add_note(failure.doubt)
    return failure.error


def _check_store(name: object, store: object) -> None:
    check_text("name", name)
    if not isinstance(store, SendStore):
        raise WrongTypeError("store", store, A_STORE)


def by_key(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
    """A selector: the queue of the message's first key, by the rule of RocketMQ's `SelectMessageQueueByHash`. Raises
    NoRouteError for a message without keys."""
    keys = (message.keys,) if isinstance(message.keys, str) else message.keys
    if not keys or not keys[0]:
        raise NoRouteError(f"topic {message.topic!r}: a message without keys has no queue by its key")
    return queues[by_hash_code(keys[0], len(queues))]
