"""The threads of a consumer: each takes messages and hands them on, again and again.

What is there at once is taken by any of them. Where nothing is, one waits for all: the first message that comes wakes
that one, and it has another one wait in its place. So a message wakes no more threads than can have one, and a hundred
idle ones cost no more than one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

from ...engine.services.service_thread import ServiceThread
from ...store.errors import StoreClosedError
from .received import ReceivedMessage
from .subscription import PULL_RETRY_S, Subscription

_worker: ContextVar[int] = ContextVar("flightlog_worker")
"""The thread whose listener runs here; also in a coroutine that it waits for, and in what that hands to threads."""


class Workers:
    """Worker threads of one subscription. Every failure to read is reported, and the read is retried."""

    def __init__(
        self,
        subscription: Subscription,
        deliver: Callable[[list[ReceivedMessage]], None],
        tell: Callable[[str, BaseException], None],
        *,
        threads: int,
        batch_size: int,
    ) -> None:
        self._subscription, self._deliver, self._tell, self._batch_size = subscription, deliver, tell, batch_size
        self._turn_to_wait = threading.Lock()
        self._has_ended = threading.Condition()
        self._stops = threading.Event()
        name = f"flightlog-consume-{subscription.group}-{subscription.name}"
        self._threads = [
            ServiceThread(f"{name}-{number}", partial(self._work, number), self._stops.set) for number in range(threads)
        ]
        self._running: dict[int, int] = {}
        """Identities of the threads that have not ended -> their numbers."""

    def start(self) -> None:
        """Raises RuntimeError if the system has no threads to give."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> bool:
        """End the subscription's messages, and wait for what is in the listener's hands. False if that takes longer.

        A listener that calls this is not waited for.
        """
        self._subscription.stop()
        for thread in self._threads:
            thread.request_stop()
        deadline_s = time.monotonic() + timeout_s
        caller = _worker.get(threading.get_ident())
        with self._has_ended:
            while self._running.keys() - {caller}:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or not self._has_ended.wait(min(left_s, threading.TIMEOUT_MAX)):
                    return False
            own = self._running.get(caller)
        for number, thread in enumerate(self._threads):
            if number != own:
                thread.stop()
        return True

    def _work(self, number: int) -> None:
        ident = threading.get_ident()
        _worker.set(ident)
        with self._has_ended:
            self._running[ident] = number
        try:
            while batch := self._next():
                self._deliver(batch)
        finally:
            with self._has_ended:
                self._running.pop(ident)
                self._has_ended.notify_all()

    def _next(self) -> list[ReceivedMessage]:
        """Nothing: there is nothing more."""
        while not self._subscription.is_over:
            try:
                batch = self._subscription.poll(self._batch_size)
                if not batch:
                    with self._turn_to_wait:
                        batch = self._subscription.receive_batch(self._batch_size)
                if batch:
                    return batch
            except StoreClosedError:
                return []
            except Exception as e:  # a damaged message, a failing disk: other queues go on, and it may heal
                self._tell("messages could not be read", e)
                self._stops.wait(PULL_RETRY_S)
        return []
