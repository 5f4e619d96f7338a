"""Waking consumers and long polls that wait for messages.

Invariants:
- A waiter that called `expect` and then found nothing to read is notified once a new message can be read in a queue
  that it wants, or in a queue that was empty before, or once the store is poisoned or closed. It may also be notified
  without one.
- Without waiters a put only checks one flag, as always.

A put notifies at most once between two rounds of the flush service. With waiters it notifies the thread of this module
instead: the thread wakes the flush service, brings the queues up to the log, and notifies the waiters whose queues got
messages. Under sync flush it joins the group commit first, because only durable messages can be read.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Mapping

from ...store.log.commit_log import CommitLog
from ...store.queue_offsets import QueueKey
from .flush_service import FlushService
from .service_thread import ServiceThread
from .store_maintenance import StoreMaintenance
from .wake_up import Notifiable, WakeUp


class Arrivals:
    """Has no thread until a waiter appears. Thread-safe."""

    def __init__(self, commit_log: CommitLog, service: FlushService, maintenance: StoreMaintenance) -> None:
        self._log, self._service, self._maintenance = commit_log, service, maintenance
        self._lock = threading.Lock()
        self._waiting: dict[Notifiable, Container[QueueKey] | None] = {}
        """The queues that each waiter wants; None: all."""
        self._arrived: set[QueueKey] = set()
        """Queues that got messages while there were waiters."""
        self._has_new_queue = False
        """Whether one of them is new: waiters may not know it yet."""
        self._work = WakeUp()
        self._is_expected = False
        """Whether there ever was a waiter: before that, appends need not notify."""
        commit_log.poison_wake_ups.append(self._work.notify)
        service.add_listener(self._note_append)
        self.thread = ServiceThread("flightlog-arrivals", self._serve, self._work.notify)

    def expect(self, wake_up: Notifiable, wanted: Container[QueueKey] | None = None) -> None:
        """Notify this wake-up, once, when something new can be read. After this call look for messages, then wait.

        Other threads read `wanted`; it may change meanwhile.
        """
        with self._lock:
            self._waiting[wake_up] = wanted
        if self.thread.is_stopping:
            wake_up.notify()
            return
        self.thread.start()
        self._is_expected = True
        self._maintenance.expect_puts(self._work.notify_once)
        if self._log.end > self._log.visible:  # a put that notified no one, and cannot be read yet
            self._work.notify()

    def forget(self, wake_up: Notifiable) -> None:
        """Remove a waiter."""
        with self._lock:
            self._waiting.pop(wake_up, None)

    def _note_append(self) -> None:
        if self._is_expected:
            self._work.notify()

    def note(self, starts: Mapping[QueueKey, int]) -> None:
        """Called by each dispatch with the first queue offset of each queue that got entries; see Dispatcher."""
        if self._waiting:
            with self._lock:
                self._arrived.update(starts)
                self._has_new_queue = self._has_new_queue or 0 in starts.values()

    def stop(self) -> None:
        """Notify every waiter and return once the thread has ended. If a KeyboardInterrupt ends it, call it again."""
        self.thread.stop()
        self._notify_all()

    def _serve(self) -> None:
        while self._work.wait() and not self.thread.is_stopping:
            if self._waiting:  # some keep waiting; before the dispatch, so that no put goes unnoticed
                self._maintenance.expect_puts(self._work.notify_once)
            self._service.note_append()
            if self._service.is_sync:
                self._service.flush_beside()
            self._service.dispatch_beside()
            self._notify_some()

    def _notify_some(self) -> None:
        with self._lock:
            arrived, self._arrived = self._arrived, set()
            is_for_all = self._has_new_queue or self._log.poison is not None
            self._has_new_queue = False
            notified = [
                wake_up
                for wake_up, wanted in self._waiting.items()
                if is_for_all or wanted is None or any(map(wanted.__contains__, arrived))
            ]
            for wake_up in notified:
                del self._waiting[wake_up]
        for wake_up in notified:
            wake_up.notify()

    def _notify_all(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for wake_up in waiting:
            wake_up.notify()
