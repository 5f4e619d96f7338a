"""Long polls: pulls that wait for messages. Each is a future; one thread serves all of them.

    any thread         reads the queue; if it has no message, adds a future here
    flightlog-pulls    answers pulls whose queue got messages, and pulls whose time is over; it runs the callbacks of
                       the futures

A dispatch notes which of the awaited queues got entries; flightlog-arrivals then wakes the thread of this module.
Timeouts are rounded up to ticks of TICK_S, so that ten thousand pulls are not ten thousand timers.

Invariants:
- A future is completed once: by the thread that takes its pull out of `_waiting`.
- While a pull waits, `expect` was called after the queues were last read, or is about to be: no message goes
  unnoticed.
- A pull that is answered, cancelled or closed leaves nothing here.

RocketMQ's `PullRequestHoldService` instead checks every awaited queue every five seconds.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ...index.filter.wanted import Wanted
from ...store.arguments import INT64_MAX, check_queue, check_seconds, check_whole
from ...store.disk.clock import Clock
from ...store.errors import StoreClosedError
from ...store.get_result import GetResult, GetStatus
from ...store.queue_offsets import QueueKey
from .arrivals import Arrivals
from .futures import complete
from .service_thread import ServiceThread
from .wake_up import WakeUp

log = logging.getLogger("flightlog.pulls")

DEFAULT_WAIT_S = 15.0
MAX_WAIT_S = 30.0
TICK_S = 0.05
"""How much later than asked a pull may time out."""


class PullRequest(NamedTuple):
    """The arguments of the get."""

    key: QueueKey
    queue_offset: int
    max_count: int
    tags: Wanted
    max_size: int | None


class LongPoll(Future[GetResult]):
    """A pull that found nothing yet."""

    def __init__(self, request: PullRequest, found: GetResult, tick: int, take: Callable[[LongPoll], bool]) -> None:
        super().__init__()
        self.request, self.found, self.tick, self._take = request, found, tick, take

    def cancel(self) -> bool:
        """Cancel the future and stop waiting."""
        is_cancelled = super().cancel()
        if is_cancelled and self._take(self):
            self.set_running_or_notify_cancel()  # else a wait for several futures would not end
        return is_cancelled


class LongPolls:
    """Has no thread until a pull has to wait. Thread-safe."""

    def __init__(
        self,
        path: Path,
        get: Callable[..., GetResult],
        catch_up: Callable[[], None],
        visible: Callable[[], int],
        arrivals: Arrivals,
        clock: Clock,
    ) -> None:
        self._path, self._get, self._catch_up, self._visible = path, get, catch_up, visible
        """`get` is a QueueReader's: it reads dispatched messages; `catch_up` dispatches visible ones."""
        self._arrivals, self._clock = arrivals, clock
        self._lock = threading.Lock()
        self._waiting: dict[QueueKey, set[LongPoll]] = {}
        self._expiring: dict[int, set[LongPoll]] = {}
        """The same pulls, by the tick at which they time out."""
        self._ticks: list[int] = []
        """A heap of the keys of `_expiring`."""
        self._arrived: set[QueueKey] = set()
        """Awaited queues that got entries."""
        self._wake_up = WakeUp()
        self.thread = ServiceThread("flightlog-pulls", self._serve, self._wake_up.notify)

    def pull(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        tags: Wanted,
        max_size: int | None,
        wait_s: float,
    ) -> Future[GetResult]:
        """Return a future of the result of `get` that waits for a message up to `wait_s` seconds, 30 at most.

        The future is done when it is returned if `get` finds a message, or if there is nothing to wait for (an offset
        before the first message, or past the end). Otherwise a put to this queue completes it, under sync flush once
        the message is durable; messages that do not match the tags do not. After `wait_s` it completes with the result
        of `get` at that time: no messages, and the offset to continue from.

        A waiting pull needs no thread: there may be tens of thousands. `await asyncio.wrap_future(store.pull(...))`
        waits in a coroutine; cancelling it cancels the pull. Callbacks run in the one thread that answers pulls: they
        may use the store, pull again, and close it, but a callback that waits delays all other pulls. `close` completes
        every future with StoreClosedError. In a child made by fork the futures of the parent are never completed.

        Raises what `get` raises; an error that occurs later is set on the future. Raises UsageError for an invalid
        `wait_s`.
        """
        queue_id = check_queue(topic, queue_id)
        queue_offset = check_whole("queue_offset", queue_offset, ~INT64_MAX)
        max_count = check_whole("max_count", max_count, 1)
        if max_size is not None:
            max_size = check_whole("max_size", max_size)
        check_seconds("wait_s", wait_s, MAX_WAIT_S)
        request = PullRequest((topic, queue_id), queue_offset, max_count, tags, max_size)
        visible = self._visible()
        self._catch_up()
        found = self._look(request)
        if wait_s == 0 or not is_empty(found, request):
            future = Future[GetResult]()
            future.set_result(found)
            return future
        self.thread.start()
        tick = math.ceil((self._clock.monotonic_s() + wait_s) / TICK_S)
        poll = LongPoll(behind(found, request), found, tick, self._take)
        self._add(poll)
        self._arrivals.expect(self._wake_up, self._waiting)
        if self._visible() != visible:  # a message that came since may have notified no one
            self._catch_up()
            self._answer_one(poll, {})
        if self.thread.is_stopping and self._take(poll):
            raise self._closed_error()
        return poll

    def _look(self, ask: PullRequest) -> GetResult:
        return self._get(*ask.key, ask.queue_offset, ask.max_count, tags=ask.tags, max_size=ask.max_size)

    def note(self, keys: Iterable[QueueKey]) -> None:
        """Called by each dispatch, once its entries are in these queues and before it reports its progress."""
        waiting = self._waiting
        if waiting and (found := [key for key in keys if key in waiting]):
            with self._lock:
                self._arrived.update(found)

    def stop(self) -> None:
        """Answer every pull, with StoreClosedError if it got no message, and return once the thread has ended.

        A callback may call this. If a KeyboardInterrupt ends it, call it again.
        """
        if self.thread.is_current():
            self.thread.request_stop()
        else:
            self.thread.stop()
        self._answer_all()

    def __len__(self) -> int:
        """How many pulls wait."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    # -- waiting polls

    def _add(self, poll: LongPoll) -> None:
        with self._lock:
            expiring = self._expiring.get(poll.tick)
            if expiring is None:
                heapq.heappush(self._ticks, poll.tick)  # an interrupt here leaves a tick at which nothing expires
                expiring = self._expiring[poll.tick] = set()
            expiring.add(poll)  # first: without a tick it would wait for ever
            self._waiting.setdefault(poll.request.key, set()).add(poll)
            is_first = len(expiring) == 1 and self._ticks[0] == poll.tick
        if is_first:
            self._wake_up.notify()

    def _take(self, poll: LongPoll) -> bool:
        """Remove the poll. The caller that gets True completes it."""
        with self._lock:
            return self._remove(poll)

    def _remove(self, poll: LongPoll) -> bool:
        waiting = self._waiting.get(poll.request.key)
        if waiting is None or poll not in waiting:
            return False
        waiting.discard(poll)
        if not waiting:
            del self._waiting[poll.request.key]
        if (expiring := self._expiring.get(poll.tick)) is not None:
            expiring.discard(poll)
        return True

    # -- the thread

    def _serve(self) -> None:
        try:
            while not self.thread.is_stopping:
                if self._waiting:
                    self._arrivals.expect(self._wake_up, self._waiting)
                    self._catch_up()
                self._answer_arrived()
                self._answer_expired()
                self._wake_up.wait(self._wait_s())
        finally:
            self.thread.is_stopping = True
            self._answer_all()

    def _answer_arrived(self) -> None:
        with self._lock:
            arrived, self._arrived = self._arrived, set()
        for key in arrived:
            with self._lock:
                waiting = list(self._waiting.get(key, ()))
            known: dict[PullRequest, GetResult] = {}
            for poll in waiting:
                if self.thread.is_stopping:
                    return
                self._answer_one(poll, known)

    def _answer_one(self, poll: LongPoll, known: dict[PullRequest, GetResult]) -> None:
        """Answer the pull if there is a message; `known` holds results just read for other pulls."""
        request = poll.request
        try:
            found = known.get(request)
            if found is None:
                found = known[request] = self._look(request)
        except BaseException as e:  # for the caller of the pull
            if self._take(poll):
                self._complete(poll, e)
            return
        if is_empty(found, request):
            poll.found, poll.request = found, behind(found, request)
        elif self._take(poll):
            self._complete(poll, replace(found, messages=list(found.messages)))

    def _answer_expired(self) -> None:
        now = int(self._clock.monotonic_s() / TICK_S)
        while True:
            with self._lock:
                if not self._ticks or self._ticks[0] > now:
                    return
                expiring = self._expiring.pop(heapq.heappop(self._ticks), ())
                over = [poll for poll in expiring if self._remove(poll)]
            for poll in over:
                self._complete(poll, poll.found)

    def _wait_s(self) -> float | None:
        """Seconds until the next timeout; None if no pull waits."""
        with self._lock:
            while self._ticks and not self._expiring.get(self._ticks[0]):
                self._expiring.pop(heapq.heappop(self._ticks), None)
            return max(0.0, self._ticks[0] * TICK_S - self._clock.monotonic_s()) if self._ticks else None

    def _answer_all(self) -> None:
        with self._lock:
            left = [poll for waiting in self._waiting.values() for poll in waiting]
        for poll in left:
            if self._take(poll):
                self._complete(poll, self._closed_error())

    def _complete(self, poll: LongPoll, outcome: GetResult | BaseException) -> None:
        complete(poll, outcome, log, "pull", {"path": str(self._path), "topic": poll.request.key[0]})
        if poll.cancelled():  # by a caller that found it taken
            poll.set_running_or_notify_cancel()

    def _closed_error(self) -> StoreClosedError:
        return StoreClosedError(f"{self._path}: the store was closed; open it again")


def behind(found: GetResult, request: PullRequest) -> PullRequest:
    """The request for what follows."""
    if found.next_queue_offset == request.queue_offset:
        return request
    return request._replace(queue_offset=found.next_queue_offset)


def is_empty(found: GetResult, request: PullRequest) -> bool:
    """Whether there is nothing to return yet: no message, and the pull is at the end of the queue, or only messages
    that do not match its tags are left."""
    if found.messages:
        return False
    if found.status is GetStatus.NO_MESSAGE_IN_QUEUE:
        return request.queue_offset == 0
    if found.status is GetStatus.NO_MATCHED_MESSAGE:
        return found.next_queue_offset >= found.max_queue_offset
    return found.status is GetStatus.OFFSET_OVERFLOW_ONE
