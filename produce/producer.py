"""Sends messages to the queues of one store or of several.

Several stores, one a disk, are for spread and for isolation, not for replication: each message is in one of them.

Invariants:
- A message group has one queue as long as the stores, their queue counts and the rule stay what they are: whatever
  fails, its messages go there or nowhere.
- What may be in one store already is not put to another: before another try the store is asked.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..store.arguments import check_callable, check_text, check_topic, check_type, check_whole
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
from .faults import FaultRules, FaultTable
from .hot_spots import HotSpots, HotWatch
from .queue_hash import by_hash_code, by_sip_hash
from .route import Route, Routes, SendStore
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


class SendResult(NamedTuple):
    """Where a message went."""

    put: PutResult
    queue: MessageQueue
    uniq_key: str
    tries: int


class Producer:
    """Sends to open stores; closes none of them. Safe from many threads.

    `stores`: one, or several by name; the names are those of brokers in RocketMQ's terms, and part of which queue a
    message group has. `rule`: which queue that is: `by_sip_hash` as RocketMQ's gRPC clients (the default),
    `by_hash_code` as its Java client, `by_jump_hash` as its proxy. To change the rule, the stores or a number of queues
    while messages wait breaks the order between what was sent before and what after. `retries`: of a message without a
    group, each to another store where there is one.
    """

    def __init__(
        self,
        stores: SendStore | Mapping[str, SendStore],
        *,
        rule: GroupRule = by_sip_hash,
        retries: int = RETRIES,
        fault_rules: FaultRules | None = None,
        clock: Clock | None = None,
    ) -> None:
        retries = check_whole("retries", retries)
        check_callable("rule", rule, "a function of a message group and a number of queues, such as by_sip_hash")
        if fault_rules is not None:
            check_type("fault_rules", fault_rules, FaultRules, "FaultRules, or None")
        if not isinstance(stores, (SendStore, Mapping)):
            raise WrongTypeError("stores", stores, f"{A_STORE}, or several by name, as in {{'disk-a': store}}")
        for name, store in {} if isinstance(stores, SendStore) else stores.items():
            _check_store(name, store)
        self._stores = {ONE_STORE: stores} if isinstance(stores, SendStore) else dict(stores)
        self._rule, self._retries, self._clock = rule, retries, clock or SystemClock()
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

    def send(self, message: Message, *, group: str | None = None, selector: Selector | None = None) -> SendResult:
        """Put a message to one of the topic's queues; `message.queue_id` is not looked at.

        Without `group` and `selector` the queues take turns, those of stores that are left alone for a while excepted,
        and a store that fails is left for another one, `retries` times. With `group` it goes to the queue of this
        message group, and the group is stored as its property `__SHARDINGKEY`; with `selector` to the one that it
        chooses. Those two are tried once: the error says what became of the message.

        A message without a `uniq_key` gets one, and the result tells it. What is promised when this returns is what
        `Store.put` promises. Raises NoRouteError, TooManyQueuesError (over 65,536 queues in a store), and what
        `put` raises: of a store that may have the message, that store's error, with a note.
        """
        if message.__class__ is not Message:
            check_message(message)
        if group is not None:
            check_text("group", group, "a message group as text")
        if selector is not None:
            check_callable("selector", selector, "a function of queues and a message, such as by_key")
        if group is not None and selector is not None:
            raise InvalidSettingsError("group and selector: expected one of them; a group has its queue by the rule")
        uniq_key = message.uniq_key or self._uniq_keys.make()
        route = self._routes.of(message.topic, self._stores)
        if group is not None:
            return self._send_in_order(message, group, route, uniq_key)
        if selector is not None:
            queue = selector(route.queues, message)
            if queue not in route.queues:
                raise InvalidSettingsError(
                    f"the selector chose {queue}, expected one of the {len(route.queues)} it got"
                )
            return self._put(replace(message, queue_id=queue.queue_id, uniq_key=uniq_key), queue, None, route, 1)
        return self._send_anywhere(message, route, uniq_key)

    def _send_in_order(self, message: Message, group: str, route: Route, uniq_key: str) -> SendResult:
        if route.unknown:
            raise NoRouteError(
                f"topic {message.topic!r}, message group {group!r}: {', '.join(route.unknown)} closed before it was "
                "known which queues are there, and so which one the group has. Open it again, or take it out"
            )
        queue = route.queues[self._rule(group, len(route.queues))]
        properties = {**(message.properties or {}), props.SHARDING_KEY: group}
        message = replace(message, queue_id=queue.queue_id, uniq_key=uniq_key, properties=properties)
        return self._put(message, queue, group, route, 1)

    def _send_anywhere(self, message: Message, route: Route, uniq_key: str) -> SendResult:
        tried: list[str] = []
        while True:
            queue = self._next_queue(route, tried)
            name = queue.broker_name
            there = replace(message, queue_id=queue.queue_id, uniq_key=uniq_key)
            try:
                return self._put(there, queue, None, route, len(tried) + 1)
            except ELSEWHERE as e:
                tried.append(name)
                if not isinstance(e, NOT_STORED) and self._may_have(name, there, e):
                    raise
                if len(tried) > self._retries:
                    raise
                log.warning(
                    "%s: a message of topic %r goes to another queue: %s",
                    *(name, message.topic, e),
                    extra={"store": name, "topic": message.topic, "uniq_key": uniq_key},
                )
                route = self._routes.of(message.topic, self._stores)

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

    def _put(self, message: Message, queue: MessageQueue, group: str | None, route: Route, tries: int) -> SendResult:
        name = queue.broker_name
        began_s = self._clock.monotonic_s()
        store = self._stores.get(name)
        if store is None:
            raise NoRouteError(f"{queue}: the store {name!r} has been taken out meanwhile")
        try:
            found = store.put(message)
        except ELSEWHERE as e:
            if isinstance(e, STORE_FAILED):
                self._faults.note_failure(name)
            self._routes.forget()
            raise
        self._faults.note(name, (self._clock.monotonic_s() - began_s) * 1000)
        hot = self._hot.note(queue, group, len(route.queues))
        if hot is not None:
            self._tell_hot(hot)
        assert message.uniq_key is not None
        return SendResult(found, queue, message.uniq_key, tries)

    def _may_have(self, name: str, message: Message, error: FlightlogError) -> bool:
        """Whether the store that failed may have the message, now or when it is opened again."""
        assert message.uniq_key is not None
        try:
            has_it = self._stores[name].was_stored(message.uniq_key, message.topic)
        except (FlightlogError, KeyError) as e:
            error.add_note(f"Whether the message {message.uniq_key} is in {name!r} could not be found out: {e}")
            return True
        if has_it:
            error.add_note(
                f"The message {message.uniq_key} is in the log of {name!r}, not acknowledged: it was not sent to "
                "another store, which could make it two. Ask was_stored when the store is open again"
            )
        return has_it

    def _tell_hot(self, hot: HotSpots) -> None:
        told = [f"message group {group!r}: {part:.0%}" for group, part in hot.groups.items()]
        told += [f"{queue}: {part:.0%}" for queue, part in hot.queues.items()]
        facts = {"groups": dict(hot.groups), "queues": {str(queue): part for queue, part in hot.queues.items()}}
        log.warning("of the last 10,000 sends at least: %s", "; ".join(told), extra=facts)


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
