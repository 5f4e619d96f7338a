"""Puts messages to the stores of a producer, one try after the other."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from ..engine.services.futures import complete
from ..store.disk.clock import Clock
from ..store.errors import FlightlogError
from ..store.message_queue import MessageQueue
from ..store.results import PutResult
from ..store.settings import FlushMode
from .faults import FaultRules, FaultTable
from .hot_spots import HotSpots, HotWatch
from .route import Route, Routes, SendStore
from .send_errors import NoRouteError
from .send_result import SendFailure, SendResult
from .sending import ELSEWHERE, NOT_STORED, STORE_FAILED, Sending

log = logging.getLogger("flightlog.produce")

MASK = 0x7FFFFFFF

Put = Callable[[Sending, MessageQueue], PutResult]
"""One try: puts a message to a queue, and waits until it is acknowledged."""


class RoundRobin:
    """Whose turn it is: a counter per thread, so that threads do not wait for each other. It starts at random, so that
    senders do not all begin with the same queue (RocketMQ's `ThreadLocalIndex`). Thread-safe."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def next(self) -> int:
        """0 to 2**31 - 1, one more than this thread's last one."""
        last: int | None = getattr(self._of_thread, "last", None)
        found = random.getrandbits(31) if last is None else (last + 1) & MASK
        self._of_thread.last = found
        return found


class Sender:
    """Thread-safe.

    Invariants:
    - What may be in one store already is not put to another: before another try the store is asked.
    - No try begins after the deadline of its message.
    """

    def __init__(self, stores: Mapping[str, SendStore], retries: int, fault_rules: FaultRules, clock: Clock) -> None:
        self.stores, self._retries, self.clock = dict(stores), retries, clock
        """`stores` is replaced, never changed: who looks at it needs no lock."""
        self._routes, self._turns, self._hot = Routes(clock), RoundRobin(), HotWatch()
        self._faults = FaultTable(clock, fault_rules)

    # -- stores

    def set_store(self, name: str, store: SendStore | None) -> None:
        """The store of this name is this one from the next try on; None: there is none."""
        others = {known: other for known, other in self.stores.items() if known != name}
        self.stores = others if store is None else {**others, name: store}
        self._routes.forget(name)
        self._faults.forget(name)

    def store_of(self, queue: MessageQueue) -> SendStore:
        store = self.stores.get(queue.broker_name)
        if store is None:
            raise NoRouteError(f"{queue}: the store {queue.broker_name!r} has been taken out meanwhile")
        return store

    def route(self, topic: str) -> Route:
        return self._routes.of(topic, self.stores)

    @property
    def hot_spots(self) -> HotSpots:
        return self._hot.found

    # -- which queue

    def choose_queue(self, sending: Sending) -> MessageQueue:
        """Raises NoRouteError where there is none any more."""
        if sending.queue is not None:
            return sending.queue
        if sending.tried:
            sending.route = self.route(sending.message.topic)
        return self._next_queue(sending.route, sending.tried)

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

    # -- sending

    def send(self, sending: Sending, put: Put | None = None) -> SendResult:
        """Have it put, to one queue after the other if need be."""
        put = put or self._put
        while True:
            queue, began_s = self.choose_queue(sending), self.clock.monotonic_s()
            try:
                found = put(sending, queue)
            except ELSEWHERE as e:
                self._go_elsewhere(sending, queue, e)
            else:
                return self.sent(sending, queue, found, began_s)

    def _put(self, sending: Sending, queue: MessageQueue) -> PutResult:
        """Put it, and wait for its sync."""
        store, message = self.store_of(queue), sending.to(queue)
        if not sending.ends_waits or store.settings.flush_mode is not FlushMode.SYNC:
            return store.put(message)
        left_s = self.left_s(sending)
        future = store.put_async(message)  # a put that syncs itself cannot be ended
        sending.appended_to = queue
        try:
            return future.result(left_s)
        except TimeoutError:
            self.note_hanging(queue, left_s)
            raise sending.timed_out() from None

    def send_async(self, sending: Sending) -> Future[SendResult]:
        """Append it in this call, to one queue after the other if need be; the future waits for its sync."""
        future: Future[SendResult] = Future()
        future.set_running_or_notify_cancel()
        self._put_async(sending, future)
        return future

    def _put_async(self, sending: Sending, future: Future[SendResult]) -> None:
        """Append it, and have the future completed. Raises where no store takes it."""
        while True:
            queue, began_s = self.choose_queue(sending), self.clock.monotonic_s()
            try:
                putting = self.store_of(queue).put_async(sending.to(queue))
            except ELSEWHERE as e:
                self._go_elsewhere(sending, queue, e)
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
            outcome = self.sent(sending, queue, putting.result(), began_s)
        except BaseException as e:  # whatever it is, the future must be completed
            try:
                if not isinstance(e, ELSEWHERE):
                    raise
                self._go_elsewhere(sending, queue, e)
                self._put_async(sending, future)
                return
            except BaseException as final:
                outcome = final
        complete(future, outcome, log, "send", {"uniq_key": sending.uniq_key})

    def _go_elsewhere(self, sending: Sending, queue: MessageQueue, error: FlightlogError) -> None:
        """A store did not take it. Returns if it may be put to another queue, else raises why not."""
        name = queue.broker_name
        self.note_failure(name, error)
        is_surely_not_there = sending.appended_to is None and isinstance(error, NOT_STORED)
        failure = self.refused(sending, queue, error, is_surely_not_there=is_surely_not_there)
        if failure is not None:
            if failure.doubt:
                failure.error.add_note(failure.doubt)
            raise failure.error
        log.warning(
            "%s: a message of topic %r goes to another queue: %s",
            *(name, sending.message.topic, error),
            extra={"store": name, "topic": sending.message.topic, "uniq_key": sending.uniq_key},
        )

    # -- what became of it

    def sent(self, sending: Sending, queue: MessageQueue, found: PutResult, began_s: float) -> SendResult:
        """Its store has it."""
        self._faults.note(queue.broker_name, (self.clock.monotonic_s() - began_s) * 1000)
        hot = self._hot.note(queue, sending.group, len(sending.route.queues))
        if hot is not None:
            _tell_hot(hot)
        return SendResult(found, queue, sending.uniq_key, len(sending.tried) + 1)

    def note_hanging(self, queue: MessageQueue, waited_s: float) -> None:
        """A store has not synced a message for so long."""
        self._faults.note(queue.broker_name, waited_s * 1000)

    def note_failure(self, name: str, error: FlightlogError) -> None:
        """A store took none of what it was given."""
        if isinstance(error, STORE_FAILED):
            self._faults.note_failure(name)
        self._routes.forget()

    def refused(
        self, sending: Sending, queue: MessageQueue, error: FlightlogError, *, is_surely_not_there: bool
    ) -> SendFailure | None:
        """What becomes of a message that its store did not take. None: it may be put to another queue."""
        name = queue.broker_name
        sending.tried.append(name)
        doubt = "" if is_surely_not_there else self._doubt(name, sending)
        sending.appended_to = None
        is_final = sending.queue is not None or not isinstance(error, ELSEWHERE) or len(sending.tried) > self._retries
        if doubt or is_final:
            return SendFailure(sending.to(queue), queue, error, doubt)
        if self.left_s(sending) <= 0:
            late = sending.timed_out()
            late.__cause__ = error
            return SendFailure(sending.to(queue), queue, late)
        return None

    def _doubt(self, name: str, sending: Sending) -> str:
        """Why the store that failed may have the message, now or when it is opened again; empty if it has not."""
        try:
            if not self.stores[name].was_stored(sending.uniq_key, sending.record_topic or sending.message.topic):
                return ""
        except (FlightlogError, KeyError) as e:
            return f"Whether the message {sending.uniq_key} is in {name!r} could not be found out: {e}"
        return (
            f"The message {sending.uniq_key} is in the log of {name!r}, not acknowledged: it was not sent to another "
            "store, which could make it two. Ask was_stored when the store is open again"
        )

    def left_s(self, sending: Sending) -> float:
        """How much of its time is left."""
        return max(0.0, sending.deadline_s - self.clock.monotonic_s())


def _tell_hot(hot: HotSpots) -> None:
    told = [f"message group {group!r}: {part:.0%}" for group, part in hot.groups.items()]
    told += [f"{queue}: {part:.0%}" for queue, part in hot.queues.items()]
    facts = {"groups": dict(hot.groups), "queues": {str(queue): part for queue, part in hot.queues.items()}}
    log.warning("of the last 10,000 sends at least: %s", "; ".join(told), extra=facts)
