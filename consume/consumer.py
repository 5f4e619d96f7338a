"""Calls a listener with the messages of a group: manages threads, acknowledgements and retries."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from ..index.filter.sql_filter import SqlFilter
from ..index.filter.wanted import Wanted
from ..store.arguments import check_flag, check_seconds, check_type, check_whole, checked_folder
from ..store.errors import UsageError
from ..store.message_queue import MessageQueue
from .allocate.allocate import AllocationStrategy
from .deliver.back_off import SUSPENSION, BackOff
from .deliver.delivery import ConsumerStatistics, Delivery, Listener, check_listener
from .deliver.failures import OnDeadLetter
from .deliver.listener_loop import ListenerLoop, is_coroutine_function
from .deliver.process_queue import FlowLimits
from .deliver.subscription import Subscription
from .deliver.workers import Workers
from .group.group import Change
from .group.initial_offset import StartFrom, check_start
from .store import Store
from .stores import Stores
from .subscription_arguments import check_attempts, checked_subscription

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("flightlog.consume")

THREADS = 4
CLOSE_TIMEOUT_S = 30.0
CONSUME_TIMEOUT_S = 15 * 60.0
"""RocketMQ's `consumeTimeout`."""


class Consumer:
    """A member of a consumer group; a context manager, or `start` and `close` it. Each is started once.

        def work_off(message): ...

        with flightlog.Consumer(store, "orders", "billing", work_off):
            ...

    `listener` is called by `threads` threads with one message, or with a list of up to `batch_size` of one queue if
    that is more than 1. When it returns None or `"CONSUME_SUCCESS"` they are acknowledged. When it returns
    `"RECONSUME_LATER"` or raises, they are sent back, and the thread continues; any other result is a failed attempt,
    too, and logged as a ListenerResultError (the table is in `flightlog.consume.deliver.delivery`).

    A message that is sent back is stored in the group's retry topic and delivered again after 10 s, 30 s, 1 min and so
    on, until `max_attempts` deliveries have failed (None: as the group's settings say, 17 without any). Then it is
    stored among the group's dead letters (`store.dead_letters`), and `on_dead_letter` is called with it; by default
    that is logged. The same happens to a message that the listener has had for longer than `consume_timeout_s` (15
    minutes; None: no limit). With `back_off` failed messages stay with this member instead, for less time, and their
    attempts end with it; those of an `ordered` one do not.

    A listener may be a coroutine function. Its coroutines run in one event loop, `threads` at once: in a thread of its
    own, or with `async with` in the loop that runs there. `async with` also closes without blocking that loop.

    `topics`, `tags`, `filter`, `start`, `member`, `strategy`, `limits`, `broadcast_folder`, `on_change` and
    `must_exist` work as in `store.subscribe`; `store` may also be several stores, as `Stores`.

    `ordered`: one thread per queue at a time, and one message (or batch) after the other. A failed message blocks its
    queue: after a second (`back_off`) it is redelivered, before all messages behind it; without end, unless
    `max_attempts` is given. There is no consume timeout. A group that broadcasts has neither attempts that end nor dead
    letters.

    RocketMQ: `DefaultMQPushConsumer`, which has 20 threads; here they share one interpreter lock, so more of them help
    only if the listener waits for something.
    """

    def __init__(
        self,
        store: Store | Stores,
        topics: str | Mapping[str, Wanted],
        group: str | int,
        listener: Listener,
        *,
        threads: int = THREADS,
        batch_size: int = 1,
        tags: str = "*",
        filter: SqlFilter | None = None,
        start: StartFrom | int | datetime = StartFrom.FIRST,
        member: str | None = None,
        strategy: AllocationStrategy | None = None,
        limits: FlowLimits | None = None,
        ordered: bool = False,
        back_off: BackOff | None = None,
        broadcast_folder: str | os.PathLike[str] | None = None,
        on_change: Callable[[Change], None] | None = None,
        must_exist: bool = False,
        max_attempts: int | None = None,
        on_dead_letter: OnDeadLetter | None = None,
        consume_timeout_s: float | None = CONSUME_TIMEOUT_S,
    ) -> None:
        for name, value in (("threads", threads), ("batch_size", batch_size)):
            check_whole(name, value, 1)
        check_type("store", store, (Store, Stores), "a Store that is open for writing, or Stores")
        topics, group = checked_subscription(topics, group, tags, filter, member, strategy, limits, on_change)
        check_listener(listener)
        start = check_start(start)
        check_flag("ordered", ordered)
        check_flag("must_exist", must_exist)
        if broadcast_folder is not None:
            checked_folder("broadcast_folder", broadcast_folder)
        if back_off is not None:
            check_type("back_off", back_off, BackOff, "BackOff, or None")
        check_attempts(max_attempts, on_dead_letter, is_broadcasting=broadcast_folder is not None)
        if consume_timeout_s is not None:
            check_seconds("consume_timeout_s", consume_timeout_s)
        self.group = group
        self._listener, self._thread_count, self._batch_size = listener, threads, batch_size
        self._back_off = back_off
        if back_off is None and (ordered or broadcast_folder is not None):
            self._back_off = SUSPENSION if ordered else BackOff()
        self._subscribe = partial(
            store.subscribe,
            *(topics, group),
            tags=tags,
            start=start,
            member=member,
            strategy=strategy,
            limits=limits,
            ordered=ordered,
            broadcast_folder=broadcast_folder,
            on_change=on_change,
            must_exist=must_exist,
            max_attempts=max_attempts,
            on_dead_letter=on_dead_letter,
            consume_timeout_s=consume_timeout_s,
        )
        self._life = threading.Lock()
        self._parts: tuple[Subscription, Delivery, Workers] | None = None
        self._loop: ListenerLoop | None = None

    # -- life

    def start(self) -> Consumer:
        """Join the group and begin. Raises what `store.subscribe` raises; RuntimeError if there are no threads to be
        had."""
        return self._start(None)

    def _start(self, loop: asyncio.AbstractEventLoop | None) -> Consumer:
        with self._life:
            if self._parts is not None:
                raise UsageError(f"the consumer of group {self.group!r} was started before: make another one")
            subscription = self._subscribe()
            subscription.has_listener = True
            if is_coroutine_function(self._listener):
                self._loop = ListenerLoop(f"flightlog-consume-{subscription.group}-{subscription.name}-loop", loop)
            delivery = Delivery(
                *(subscription, self._listener, self._loop),
                in_batches=self._batch_size > 1,
                back_off=self._back_off,
            )
            workers = Workers(
                *(subscription, delivery.deliver, delivery.tell),
                threads=self._thread_count,
                batch_size=self._batch_size,
            )
            self._parts = subscription, delivery, workers
        try:
            if self._loop is not None:
                self._loop.start()
            workers.start()
        except BaseException:
            self.close()
            raise
        return self

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Stop receiving, wait for the listener to finish its messages, write acknowledgements, leave the group.

        Returns False if the listener still had messages after `timeout_s`: they are redelivered, whatever its thread
        does. Close it before the store. Closing twice is fine, also from the listener. Raises UsageError in the event
        loop of a coroutine listener, which it would block: use `await asyncio.to_thread(consumer.close)` there.
        """
        check_seconds("timeout_s", timeout_s)
        if self._parts is None:
            return True
        if self._loop is not None and self._loop.is_current():
            raise UsageError("close() would block the event loop of its listener: await asyncio.to_thread(x.close)")
        subscription, delivery, workers = self._parts
        has_ended = workers.stop(timeout_s)
        if not has_ended and subscription.is_alive:
            text = "group %s: %s is closed while its listener has messages, which come again: %d after %.1f s"
            values = (self.group, subscription.name, delivery.in_flight, timeout_s)
            log.warning(text, *values, extra={"group": self.group, "member": subscription.name})
        subscription.close()
        if self._loop is not None:
            self._loop.stop()
        return has_ended

    def __enter__(self) -> Consumer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Consumer:
        import asyncio

        return self._start(asyncio.get_running_loop())

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        return f"<Consumer of group {self.group!r}, {'not started' if self._parts is None else repr(self._parts[0])}>"

    # -- where it is: see Subscription

    @property
    def subscription(self) -> Subscription:
        """The member that it is. Raises UsageError before `start`."""
        if self._parts is None:
            raise UsageError(f"the consumer of group {self.group!r} has not been started")
        return self._parts[0]

    @property
    def queues(self) -> list[MessageQueue]:
        return self.subscription.queues

    def lag(self) -> dict[MessageQueue, int]:
        return self.subscription.lag()

    def pause(self, *queues: MessageQueue) -> None:
        self.subscription.pause(*queues)

    def resume(self, *queues: MessageQueue) -> None:
        self.subscription.resume(*queues)

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        self.subscription.seek(queue, queue_offset)

    def seek_to_time(self, timestamp_ms: int | datetime) -> None:
        self.subscription.seek_to_time(timestamp_ms)

    def skip_to_now(self) -> None:
        self.subscription.skip_to_now()

    def statistics(self) -> ConsumerStatistics:
        """Raises UsageError before `start`."""
        subscription = self.subscription
        assert self._parts is not None and subscription is self._parts[0]
        return self._parts[1].statistics()
