"""Sends messages to the queues of one store or of several.

Several stores, one per disk, spread load and isolate failures; they do not replicate: each message is in one of them.

Invariants:
- A message group has one queue as long as the stores, their queue counts and the rule stay what they are: whatever
  fails, its messages go there or nowhere.
- What may be in one store already is not put to another: before another try the store is asked.
- No try begins after the timeout of its send.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

from ..schedule.delivered import HALF_TOPIC
from ..store.arguments import (
    check_callable,
    check_choice,
    check_flag,
    check_group,
    check_seconds,
    check_text,
    check_topic,
    check_type,
    check_whole,
)
from ..store.disk.clock import Clock, SystemClock
from ..store.errors import InvalidSettingsError, WrongTypeError
from ..store.format import property_names as props
from ..store.message import Message
from ..store.message_check import check_message, checked_messages
from ..store.message_queue import MessageQueue
from ..store.results import PutResult
from .back_pressure import BackPressure
from .faults import FaultRules
from .hot_spots import HotSpots
from .message_type import check_message_type
from .queue_hash import by_hash_code, by_sip_hash
from .route import Route, SendStore
from .send_errors import GroupLagError, NoRouteError, SendManyError, SendTimeoutError
from .send_many import send_parts
from .send_result import SendFailure, SendResult
from .sender import Sender
from .sending import Sending
from .transaction.checker import transactions_of
from .transaction.half_message import IS_TRANSACTION
from .transaction.transaction import Transaction
from .uniq_key import UniqKeys

RETRIES = 2
PRODUCER_GROUP = "DEFAULT_PRODUCER"
"""RocketMQ's, of a producer that is given none."""
TIMEOUT_S = 3.0
"""No try of a send begins later (RocketMQ's `sendMsgTimeout`)."""
LAG_POLL_S = 0.02
"""How often the lag is looked at while a send waits for it."""
A_STORE = "a store that is open for writing, as flightlog.open gives"
ONE_STORE = "store"
"""The name of the store of a producer that has one, and was told no name."""

GroupRule = Callable[[str, int], int]
"""Message group and number of queues -> place of the queue."""
Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses one of the queues."""


class Producer:
    """Sends to open stores; closes none of them. Thread-safe.

    `stores`: one, or several by name; the names are broker names in RocketMQ's terms, and influence which queue a
    message group has. `rule`: which queue that is: `by_sip_hash` as RocketMQ's gRPC clients (the default),
    `by_hash_code` as its Java client, `by_jump_hash` as its proxy. Changing the rule, the stores or a number of queues
    while messages wait breaks the order between earlier and later messages. `retries`: retries of a message without a
    group, each in another store if there is one. `producer_group`: the group whose TransactionChecker resolves
    transactions that were left open. `timeout_s`: of a send, see there. `check_message_type`: refuse messages of
    another type than their topic's attribute `message.type`, as RocketMQ's 5.x proxy does. `max_lag`: consumer group ->
    how many messages it may lag behind the topic; while it lags more, a send waits for it until its timeout
    (`on_lag="wait"`), or raises GroupLagError at once ("raise"). A group without offsets in the topic does not lag.
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
        max_lag: Mapping[str, int] | None = None,
        on_lag: str = "wait",
        fault_rules: FaultRules | None = None,
        clock: Clock | None = None,
    ) -> None:
        retries = check_whole("retries", retries)
        check_callable("rule", rule, "a function of a message group and a number of queues, such as by_sip_hash")
        check_text("producer_group", producer_group, "the name of a producer group as text")
        if timeout_s is not None:
            check_seconds("timeout_s", timeout_s)
        check_flag("check_message_type", check_message_type)
        check_choice("on_lag", on_lag, ("wait", "raise"))
        limits = _checked_lags({} if max_lag is None else max_lag)
        if fault_rules is not None:
            check_type("fault_rules", fault_rules, FaultRules, "FaultRules, or None")
        if not isinstance(stores, (SendStore, Mapping)):
            raise WrongTypeError("stores", stores, f"{A_STORE}, or several by name, as in {{'disk-a': store}}")
        for name, store in {} if isinstance(stores, SendStore) else stores.items():
            _check_store(name, store)
        by_name = {ONE_STORE: stores} if isinstance(stores, SendStore) else dict(stores)
        self._sender = Sender(by_name, retries, fault_rules or FaultRules(), clock or SystemClock())
        self.producer_group = producer_group
        self._rule, self._timeout_s, self._checks_message_type = rule, timeout_s, check_message_type
        self._uniq_keys = UniqKeys()
        self._back_pressure, self._waits_for_lag = BackPressure(limits, self._sender.clock), on_lag == "wait"

    def __repr__(self) -> str:
        return f"<Producer to {', '.join(f'{name!r}: {store!r}' for name, store in self._sender.stores.items())}>"

    # -- stores

    def add_store(self, name: str, store: SendStore) -> None:
        """Send to this store, too, from the next message on; it replaces one of the same name (a reopened store).
        Message groups move to other queues if the number of queues changes."""
        _check_store(name, store)
        self._sender.set_store(name, store)

    def remove_store(self, name: str) -> None:
        """Stop sending to this store. Message groups move. Raises InvalidSettingsError if there is none."""
        check_text("name", name)
        known = self._sender.stores
        if name not in known:
            raise InvalidSettingsError(f"no store {name!r}: there are {', '.join(sorted(known)) or 'none'}")
        self._sender.set_store(name, None)

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that messages of a topic are sent to. Raises NoRouteError, TooManyQueuesError."""
        check_topic(topic)
        return self._sender.route(topic).queues

    @property
    def hot_spots(self) -> HotSpots:
        """Message groups and queues that had more than their share of the last 10,000 sends."""
        return self._sender.hot_spots

    # -- sending

    def send(
        self,
        message: Message,
        *,
        group: str | None = None,
        selector: Selector | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Put a message into one of the topic's queues; `message.queue_id` is ignored.

        Without `group` and `selector` the queue is chosen round-robin, except those of stores that are skipped for a
        while; if a store fails, another one is tried, `retries` times. With `group` it goes to the queue of this
        message group, and the group is stored as its property `__SHARDINGKEY`; with `selector` to the queue that it
        chooses. These two are tried once.

        A message without a `uniq_key` gets one, which the result has. When this returns, the message is as durable as
        after `Store.put`. After `timeout_s` (default: the producer's) no try begins, and the wait for a sync ends;
        FLUSH_DISK_TIMEOUT, which a store answers before, is a result: the message is stored. With neither timeout, no
        try begins after 3 s, and a try waits for its sync as `put` does.

        Raises NoRouteError, TooManyQueuesError (over 65,536 queues in a store), MessageTypeError (on request),
        SendTimeoutError, which says whether the message may be stored, and what `put` raises: of a store that may have
        the message, that store's error, with a note.
        """
        sending = self._begin(message, group, selector, timeout_s)
        self._hold_back(sending)
        return self._sender.send(sending)

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
        sending = self._begin(message, group, selector, timeout_s)
        self._hold_back(sending)
        return self._sender.send_async(sending)

    async def send_coroutine(
        self,
        message: Message,
        *,
        group: str | None = None,
        selector: Selector | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """As `send`, awaited: other tasks of the loop run while it waits for a sync. No thread waits.

        It appends in the loop's thread. A coroutine that is cancelled while it waits has already appended its message:
        it stays stored.
        """
        import asyncio

        await asyncio.sleep(0)  # a loop that only sends must not keep the event loop from its other tasks
        sending = self._begin(message, group, selector, timeout_s)
        while (error := self._lagging(sending)) is not None:
            await asyncio.sleep(min(LAG_POLL_S, self._left_for(sending, error)))
        future = self._sender.send_async(sending)
        if future.done():
            return future.result()
        try:
            async with asyncio.timeout(self._sender.left_s(sending) if sending.ends_waits else None):
                return await asyncio.wrap_future(future)
        except SendTimeoutError:
            raise
        except TimeoutError:
            raise sending.timed_out() from None

    def send_many(
        self,
        messages: Iterable[Message],
        *,
        group: str | Callable[[Message], str | None] | None = None,
        selector: Selector | None = None,
        one_queue: bool = False,
        timeout_s: float | None = None,
    ) -> list[SendResult]:
        """Put messages with one `put_many` for each store that gets some of them, and so with one sync under sync
        flush; returns their results, in order.

        Each message has its queue as by `send`; `group` may be a function that says the message group of each. With
        `one_queue` all messages of a topic without a group and a selector go to the same queue, as in RocketMQ's
        batch send. The call is checked, and every queue known, before the first message is put.

        If a store refuses messages, those that may go to another store are put there, `retries` times and until
        `timeout_s` is over. If some are still left, it raises SendManyError, whose `outcomes` have a SendResult or a
        SendFailure for every message. Messages of a group keep their order: if one was not stored, those after it in
        the call were not, either. It waits for a sync as `put_many` does.
        """
        offered = checked_messages(messages)
        for place, message in enumerate(offered):
            if message.__class__ is not Message:
                check_message(message, f"messages[{place}]")
        check_flag("one_queue", one_queue)
        group_of = group if callable(group) else lambda _: group
        sendings = [self._begin(message, group_of(message), selector, timeout_s) for message in offered]
        for topic, count in Counter(each.message.topic for each in sendings).items():
            self._hold_back(next(each for each in sendings if each.message.topic == topic), count)
        outcomes = send_parts(self._sender, sendings, one_queue=one_queue)
        sent = [each for each in outcomes if not isinstance(each, SendFailure)]
        if len(sent) < len(outcomes):
            raise SendManyError(outcomes)
        return sent

    def transaction(
        self,
        message: Message,
        *,
        group: str | None = None,
        selector: Selector | None = None,
        timeout_s: float | None = None,
    ) -> Transaction:
        """Store a message that stays invisible until the returned transaction is committed.

            with producer.transaction(Message("orders", b"created")) as tx:
                ...  # the application's own work: an exception here rolls back
                # at the end of the block it is committed, unless tx.rollback() or tx.unknown() was called

        Queue and store are chosen as by `send`. The half message is stored when this returns, as durable as after a
        put; the TransactionChecker of this producer's group resolves it if its process dies. The store must have been
        opened without a pre_put_hook. `timeout_s` applies to the half message, as in `send`; a half message whose sync
        takes longer is rolled back, so the SendTimeoutError says that the message can be sent again.

        Raises InvalidMessageError for a delay, an inner batch or light queues, which a transaction cannot have;
        ThreadStartError; otherwise as `send`.
        """
        check_message(message)
        half = replace(message, properties={**(message.properties or {}), IS_TRANSACTION: "true"})
        sending = self._begin(half, group, selector, timeout_s)
        sending.record_topic = HALF_TOPIC
        self._hold_back(sending)
        begun: list[Transaction] = []

        def begin(sending: Sending, queue: MessageQueue) -> PutResult:
            transactions = transactions_of(self._sender.store_of(queue))
            left_s = self._sender.left_s(sending) if sending.ends_waits else None
            try:
                opened = transactions.begin(sending.to(queue), self.producer_group, sending.uniq_key, left_s)
            except TimeoutError:
                self._sender.note_hanging(queue, left_s or 0.0)
                late = sending.timed_out()
                late.add_note("The half message of its transaction is in the log, rolled back.")
                raise late from None
            begun.append(Transaction(transactions, opened, sending.uniq_key, queue))
            return opened.result

        self._sender.send(sending, begin)
        return begun[-1]

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
        route = self._sender.route(message.topic)
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
        deadline_s = self._sender.clock.monotonic_s() + tries_s
        ends_waits = limit_s is not None
        return Sending(message, uniq_key, group, queue, route, tries_s, deadline_s, ends_waits)

    def _lagging(self, sending: Sending, count: int = 1) -> GroupLagError | None:
        return self._back_pressure.take(sending.message.topic, self._sender.stores, count)

    def _left_for(self, sending: Sending, error: GroupLagError) -> float:
        """For how long it may wait for the group. Raises the error where not at all."""
        left_s = self._sender.left_s(sending) if self._waits_for_lag else 0.0
        if left_s <= 0:
            raise error
        return left_s

    def _hold_back(self, sending: Sending, count: int = 1) -> None:
        """Return when no group lags too far. Raises GroupLagError."""
        while (error := self._lagging(sending, count)) is not None:
            time.sleep(min(LAG_POLL_S, self._left_for(sending, error)))

    def _queue_of_group(self, topic: str, group: str, route: Route) -> MessageQueue:
        if route.unknown:
            raise NoRouteError(
                f"topic {topic!r}, message group {group!r}: {', '.join(route.unknown)} closed before it was "
                "known which queues are there, and so which one the group has. Open it again, or take it out"
            )
        return route.queues[self._rule(group, len(route.queues))]


def _checked_lags(max_lag: object) -> dict[str, int]:
    if not isinstance(max_lag, Mapping):
        raise WrongTypeError("max_lag", max_lag, "a number of messages by consumer group, as in {'billing': 10_000}")
    return {check_group(group): check_whole(f"max_lag[{group!r}]", limit) for group, limit in max_lag.items()}


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
