"""Hands messages to a listener: acknowledged when it returns, given back when it raises.

Invariants:
- What the listener was given is acknowledged only after it returned, unless it did so itself.
- Whatever the listener raises ends here: it is counted, and logged the first time it comes from that line.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ..store.errors import UsageError
from ..store.meters import Distribution, Latest
from .back_off import BackOff
from .received import ReceivedMessage
from .subscription import Subscription

log = logging.getLogger("flightlog.consume")

Listener = Callable[[Any], object]
"""Called with a ReceivedMessage, or a list of them if there are batches."""


@dataclass(frozen=True)
class ConsumerStatistics:
    """What a consumer did since it was started. Numbers are of messages."""

    consumed: int
    """The listener returned. Among them those whose queue had gone elsewhere by then, where they come again."""
    failed: int
    """The listener raised; one that fails twice counts twice."""
    in_flight: int
    """In the hands of the listener now."""
    lag: int
    """Behind the group's offsets, in the queues that it has now."""
    listener_ms: Distribution
    """How long the latest calls of the listener took."""
    causes: dict[str, int]
    """What failed, in the listener or in reading, and how often."""


def check_listener(listener: Listener) -> None:
    """A coroutine would be acknowledged before it ran."""
    call = getattr(type(listener), "__call__", None)  # noqa: B004 (of an object, this may be the coroutine)
    if not callable(listener) or inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(call):
        raise UsageError(
            f"listener={listener!r}: expected a function that returns once the message is worked off; "
            "in asyncio use `async for message in store.subscribe(...)`"
        )


class Delivery:
    """Safe from many threads."""

    def __init__(self, subscription: Subscription, listener: Listener, *, in_batches: bool, back_off: BackOff) -> None:
        self._subscription, self._listener = subscription, listener
        self._in_batches, self._back_off = in_batches, back_off
        self._lock = threading.Lock()
        self._consumed = self._failed = self._in_flight = 0
        self._causes: Counter[str] = Counter()
        self._listener_ms = Latest()

    def deliver(self, batch: list[ReceivedMessage]) -> None:
        """Raises nothing."""
        with self._lock:
            self._in_flight += len(batch)
        begin_s = time.perf_counter()
        try:
            returned = self._listener(batch if self._in_batches else batch[0])
            if returned is not None and inspect.isawaitable(returned):
                if inspect.iscoroutine(returned):
                    returned.close()
                raise UsageError(f"the listener returned {returned!r}, which nobody awaits: expected a plain function")
        except BaseException as e:  # whatever it is: the thread goes on, and the messages come again
            self._listener_ms.note((time.perf_counter() - begin_s) * 1e3)
            self._subscription.give_back(batch, self._back_off.delay_s(batch[0].attempt))
            self._end(batch, failed=len(batch))
            self.tell("the listener failed, its messages come again", e)
            return
        self._listener_ms.note((time.perf_counter() - begin_s) * 1e3)
        for has, part in groupby(batch, lambda message: message.place[0]):  # one queue's: nearly always one part
            self._subscription.acknowledge(batch[0].queue, has, [message.queue_offset for message in part])
        self._end(batch, consumed=len(batch))

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
        with self._lock:
            self._causes[cause] += 1
            is_new = self._causes[cause] == 1
        if is_new:
            group, name = self._subscription.group, self._subscription.name
            extra = {"group": group, "member": name, "cause": cause}
            log.warning("group %s: %s: %s: %s", *(group, name, what, cause), exc_info=why, extra=extra)

    def statistics(self) -> ConsumerStatistics:
        lag = sum(self._subscription.lag().values())
        with self._lock:
            return ConsumerStatistics(
                *(self._consumed, self._failed, self._in_flight, lag),
                self._listener_ms.distribution(),
                dict(self._causes),
            )


def _cause(why: BaseException) -> str:
    """Its kind and where it was raised: as many of them as there are lines of code, whatever the messages say."""
    place = why.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" at {place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
    return f"{type(why).__qualname__}{where}"
