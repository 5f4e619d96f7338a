"""Pulls that wait for messages: futures, and one thread for all of them.

    any thread         asks the queue; where there is nothing, leaves a future here
    flightlog-pulls    answers those whose queue has got messages since, and those whose time has come; so it runs the
                       callbacks of futures

A dispatch notes which of the queues that are waited for got entries; flightlog-arrivals then wakes the thread here.
Times end together, TICK_S apart: ten thousand pulls are no ten thousand timers.

Invariants:
- A future is completed once: by whoever takes its pull out of `_held`.
- While a pull is held, `expect` was called after the last look at the queues, or is about to be: no message comes
  unnoticed.
- A pull that is answered, cancelled or closed leaves nothing behind here.

RocketMQ: `PullRequestHoldService`, which looks at every queue that is waited for each five seconds.
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
"""By so much a pull's time may end late."""


class PullRequest(NamedTuple):
    """What is pulled; the arguments of a get."""

    key: QueueKey
    queue_offset: int
    max_count: int
    tags: str | None
    max_size: int | None


class LongPoll(Future[GetResult]):
    """A pull that found nothing yet."""

    def __init__(self, request: PullRequest, found: GetResult, tick: int, take: Callable[[LongPoll], bool]) -> None:
        super().__init__()
        self.request, self.found, self.tick, self._take = request, found, tick, take

    def cancel(self) -> bool:
        """As of any future; it waits no longer then."""
        is_cancelled = super().cancel()
        if is_cancelled and self._take(self):
            self.set_running_or_notify_cancel()  # else who waits for several futures would not be told
        return is_cancelled


class LongPolls:
    """Without a thread until a pull has to wait. Safe from many threads."""

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
        """`get` is a QueueReader's: it answers of what has been dispatched; `catch_up` dispatches what is visible."""
        self._arrivals, self._clock = arrivals, clock
        self._lock = threading.Lock()
        self._held: dict[QueueKey, set[LongPoll]] = {}
        self._ending: dict[int, set[LongPoll]] = {}
        """The same pulls, by the tick that their time ends at."""
        self._ticks: list[int] = []
        """A heap of the ticks there."""
        self._arrived: set[QueueKey] = set()
        """Queues that got entries, and are waited for."""
        self._wake_up = WakeUp()
        self.thread = ServiceThread("flightlog-pulls", self._serve, self._wake_up.notify)

    def pull(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        tags: str | None,
        max_size: int | None,
        wait_s: float,
    ) -> Future[GetResult]:
        """What `get` answers, once there is a message: a future that waits up to `wait_s` seconds for one, 30 at most.

        It is done when it is returned if `get` finds something, or there is nothing to wait for (an offset before the
        first message, or past the end). Otherwise a put to this queue completes it, under sync flush once the message
        is durable; messages that the tags leave out do not wake it. When its time is over it answers what `get` would:
        without messages, and with the offset to go on from.

        A pull that waits is no thread: there may be tens of thousands. `await asyncio.wrap_future(store.pull(...))`
        waits in a coroutine; cancelling takes it back. Callbacks run in the one thread that answers pulls: they may use
        the store, pull again, and close it, but while one waits, other pulls do. `close` completes every future with
        StoreClosedError; in a child made by fork those of the parent are never completed.

        Raises what `get` raises now; what a look at a message raises later is the future's. Raises UsageError for
        another `wait_s`.
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
        held = LongPoll(behind(found, request), found, tick, self._take)
        self._hold(held)
        self._arrivals.expect(self._wake_up, self._held)
        if self._visible() != visible:  # what came since rang nobody, perhaps
            self._catch_up()
            self._answer_one(held, {})
        if self.thread.is_stopping and self._take(held):
            raise self._closed_error()
        return held

    def _look(self, ask: PullRequest) -> GetResult:
        return self._get(*ask.key, ask.queue_offset, ask.max_count, tags=ask.tags, max_size=ask.max_size)

    def note(self, keys: Iterable[QueueKey]) -> None:
        """Called by each dispatch, once its entries are in these queues and before it is told to be over."""
        held = self._held
        if held and (found := [key for key in keys if key in held]):
            with self._lock:
                self._arrived.update(found)

    def stop(self) -> None:
        """Return once every pull is answered, with StoreClosedError if with nothing else, and the thread has ended.

        A callback may call this. If a KeyboardInterrupt ends it, call it again.
        """
        if self.thread.is_current():
            self.thread.request_stop()
        else:
            self.thread.stop()
        self._end_all()

    def __len__(self) -> int:
        """How many wait."""
        with self._lock:
            return sum(map(len, self._held.values()))

    # -- who waits

    def _hold(self, held: LongPoll) -> None:
        with self._lock:
            ending = self._ending.get(held.tick)
            if ending is None:
                heapq.heappush(self._ticks, held.tick)  # an interrupt here leaves a tick that nothing ends at
                ending = self._ending[held.tick] = set()
            ending.add(held)  # first: what no tick ends would be held for ever
            self._held.setdefault(held.request.key, set()).add(held)
            is_first = len(ending) == 1 and self._ticks[0] == held.tick
        if is_first:
            self._wake_up.notify()

    def _take(self, held: LongPoll) -> bool:
        """Hold it no longer; whoever gets True here completes it."""
        with self._lock:
            return self._remove(held)

    def _remove(self, held: LongPoll) -> bool:
        there = self._held.get(held.request.key)
        if there is None or held not in there:
            return False
        there.discard(held)
        if not there:
            del self._held[held.request.key]
        if (ending := self._ending.get(held.tick)) is not None:
            ending.discard(held)
        return True

    # -- the thread

    def _serve(self) -> None:
        try:
            while not self.thread.is_stopping:
                if self._held:
                    self._arrivals.expect(self._wake_up, self._held)
                    self._catch_up()
                self._answer_arrived()
                self._answer_ending()
                self._wake_up.wait(self._wait_s())
        finally:
            self.thread.is_stopping = True
            self._end_all()

    def _answer_arrived(self) -> None:
        with self._lock:
            arrived, self._arrived = self._arrived, set()
        for key in arrived:
            with self._lock:
                waiting = list(self._held.get(key, ()))
            known: dict[PullRequest, GetResult] = {}
            for held in waiting:
                if self.thread.is_stopping:
                    return
                self._answer_one(held, known)

    def _answer_one(self, held: LongPoll, known: dict[PullRequest, GetResult]) -> None:
        """Answer it if there is something; `known` are answers that were just given to others."""
        request = held.request
        try:
            found = known.get(request)
            if found is None:
                found = known[request] = self._look(request)
        except BaseException as e:  # it is the puller's
            if self._take(held):
                self._complete(held, e)
            return
        if is_empty(found, request):
            held.found, held.request = found, behind(found, request)
        elif self._take(held):
            self._complete(held, replace(found, messages=list(found.messages)))

    def _answer_ending(self) -> None:
        now = int(self._clock.monotonic_s() / TICK_S)
        while True:
            with self._lock:
                if not self._ticks or self._ticks[0] > now:
                    return
                ending = self._ending.pop(heapq.heappop(self._ticks), ())
                over = [held for held in ending if self._remove(held)]
            for held in over:
                self._complete(held, held.found)

    def _wait_s(self) -> float | None:
        """Until the next time ends; None: nobody waits."""
        with self._lock:
            while self._ticks and not self._ending.get(self._ticks[0]):
                self._ending.pop(heapq.heappop(self._ticks), None)
            return max(0.0, self._ticks[0] * TICK_S - self._clock.monotonic_s()) if self._ticks else None

    def _end_all(self) -> None:
        with self._lock:
            left = [held for waiting in self._held.values() for held in waiting]
        for held in left:
            if self._take(held):
                self._complete(held, self._closed_error())

    def _complete(self, held: LongPoll, outcome: GetResult | BaseException) -> None:
        complete(held, outcome, log, "pull", {"path": str(self._path), "topic": held.request.key[0]})
        if held.cancelled():  # by somebody who found it taken
            held.set_running_or_notify_cancel()

    def _closed_error(self) -> StoreClosedError:
        return StoreClosedError(f"{self._path}: the store was closed; open it again")


def behind(found: GetResult, request: PullRequest) -> PullRequest:
    """What is asked next."""
    if found.next_queue_offset == request.queue_offset:
        return request
    return request._replace(queue_offset=found.next_queue_offset)


def is_empty(found: GetResult, request: PullRequest) -> bool:
    """Whether there is nothing to be told: no message, and the end of the queue is reached where the pull stands, or
    behind what its tags leave out."""
    if found.messages:
        return False
    if found.status is GetStatus.NO_MESSAGE_IN_QUEUE:
        return request.queue_offset == 0
    if found.status is GetStatus.NO_MATCHED_MESSAGE:
        return found.next_queue_offset >= found.max_queue_offset
    return found.status is GetStatus.OFFSET_OVERFLOW_ONE
