"""Hands messages to a listener: acknowledged when it succeeds, sent back when it fails.

What a listener returns says which of the two it is, in RocketMQ's words (`ConsumeConcurrentlyStatus`,
`ConsumeOrderlyStatus`), as a string or as a member of any enum with that name:

    None, CONSUME_SUCCESS                     acknowledged
    RECONSUME_LATER                           a failed attempt: the messages come again
    SUCCESS                                   CONSUME_SUCCESS, of an ordered listener
    SUSPEND_CURRENT_QUEUE_A_MOMENT            RECONSUME_LATER, of an ordered listener
    anything else                             a failed attempt, and a ListenerResultError

Invariants:
- The messages that the listener was given are acknowledged only after it succeeded, unless it did so itself.
- An exception of the listener ends here: it is counted, and logged the first time it comes from that line.
"""

from __future__ import annotations

import enum
import inspect
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ...store.arguments import check_callable
from ...store.errors import ListenerResultError
from ...store.meters import Distribution, Latest
from .back_off import BackOff
from .listener_loop import ListenerLoop
from .received import ReceivedMessage
from .subscription import Subscription

log = logging.getLogger("flightlog.consume")

Listener = Callable[[Any], Any]
"""Called with a ReceivedMessage, or a list of them if there are batches; a coroutine function is awaited."""

DONE, AGAIN = "CONSUME_SUCCESS", "RECONSUME_LATER"
RESULTS: Mapping[str, bool] = {DONE: True, AGAIN: False}
"""What a listener may return, besides None -> whether the messages are acknowledged."""
ORDERED_RESULTS: Mapping[str, bool] = {**RESULTS, "SUCCESS": True, "SUSPEND_CURRENT_QUEUE_A_MOMENT": False}


@dataclass(frozen=True)
class ConsumerStatistics:
    """What a consumer did since it was started. Numbers are of messages."""

    consumed: int
    """The listener succeeded. Among them those whose queue had gone elsewhere by then, where they come again."""
    failed: int
    """The listener failed: it raised or did not return success; a message that fails twice counts twice."""
    in_flight: int
    """In the hands of the listener now."""
    lag: int
    """Behind the group's offsets, in the queues that it has now."""
    listener_ms: Distribution
    """How long the latest calls of the listener took."""
    causes: dict[str, int]
    """What failed, in the listener or in reading, and how often. `RECONSUME_LATER` is the listener's own word."""


def check_listener(listener: Listener) -> None:
    """Raises WrongTypeError for what cannot be called."""
    check_callable("listener", listener, "a function, or a coroutine function, that returns once the work is done")


class Delivery:
    """Thread-safe."""

    def __init__(
        self,
        subscription: Subscription,
        listener: Listener,
        loop: ListenerLoop | None,
        *,
        in_batches: bool,
        back_off: BackOff | None,
    ) -> None:
        """`loop`: of a coroutine function. `back_off`: None where failed messages are stored for their next attempt."""
        self._subscription, self._listener, self._loop = subscription, listener, loop
        self._in_batches, self._back_off = in_batches, back_off
        self._results = ORDERED_RESULTS if subscription.is_ordered else RESULTS
        self._lock = threading.Lock()
        self._consumed = self._failed = self._in_flight = 0
        self._causes: Counter[str] = Counter()
        self._listener_ms = Latest()

    def deliver(self, batch: list[ReceivedMessage]) -> None:
        """Raises nothing."""
        with self._lock:
            self._in_flight += len(batch)
        begin_s = time.perf_counter()
        failure: str | BaseException | None
        try:
            given = batch if self._in_batches else batch[0]
            returned = self._listener(given) if self._loop is None else self._loop.call(self._listener, given)
            failure = self._failure(returned)
        except BaseException as e:  # whatever it is: the thread goes on, and the messages come again
            failure = e
        self._listener_ms.note((time.perf_counter() - begin_s) * 1e3)
        if failure is None:
            for has, part in groupby(batch, lambda message: message.place[0]):  # one queue's: nearly always one part
                self._subscription.acknowledge(batch[0].queue, has, [message.queue_offset for message in part])
            self._end(batch, consumed=len(batch))
            return
        back_off = self._back_off
        self._subscription.fail(batch, None if back_off is None else back_off.delay_s(max(batch[0].attempt, 1)))
        self._end(batch, failed=len(batch))
        if isinstance(failure, str):  # no error: the listener asked for it
            self._count(failure)
        else:
            self.tell("the listener failed, its messages are redelivered", failure)

    def _failure(self, returned: object) -> str | ListenerResultError | None:
        """None: the listener succeeded. A status: it failed and says so. An error: it returned no status."""
        if returned is None:
            return None
        status = returned.name if isinstance(returned, enum.Enum) else returned
        if isinstance(status, str) and status in self._results:
            return None if self._results[status] else status
        hint = ""
        if inspect.iscoroutine(returned):
            returned.close()
        if inspect.isawaitable(returned):
            hint = " Nobody awaited it: define the listener with `async def`."
        return ListenerResultError(_name_of(self._listener), returned, tuple(self._results), hint)

    def _end(self, batch: Sequence[ReceivedMessage], *, consumed: int = 0, failed: int = 0) -> None:
        with self._lock:
            self._in_flight -= len(batch)
            self._consumed += consumed
            self._failed += failed

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def tell(self, what: str, why: BaseException) -> None:
        """Count this, and log it if it is the first from its line of code."""
        cause = _cause(why)
        if self._count(cause):
            group, name = self._subscription.group, self._subscription.name
            extra = {"group": group, "member": name, "cause": cause}
            shown = f"{cause}: {why}" if isinstance(why, ListenerResultError) else cause
            log.warning("group %s: %s: %s: %s", *(group, name, what, shown), exc_info=why, extra=extra)

    def _count(self, cause: str) -> bool:
        """Whether it is the first of its kind."""
        with self._lock:
            self._causes[cause] += 1
            return self._causes[cause] == 1

    def statistics(self) -> ConsumerStatistics:
        lag = sum(self._subscription.lag().values())
        with self._lock:
            return ConsumerStatistics(
                *(self._consumed, self._failed, self._in_flight, lag),
                self._listener_ms.distribution(),
                dict(self._causes),
            )


def _name_of(listener: Listener) -> str:
    return getattr(listener, "__qualname__", None) or type(listener).__qualname__


def _cause(why: BaseException) -> str:
    """Its kind and where it was raised: as many of them as there are lines of code, whatever the messages say."""
    place = why.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" at {place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
    return f"{type(why).__qualname__}{where}"
