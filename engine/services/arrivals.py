"""Waking those who wait for messages.

Invariants:
- Who was `expected` and then found nothing to read is notified once a message that came since can be read in a queue
  that is wanted, or in one that had none before, or the store is poisoned or ends; perhaps also without one.
- While nobody waits, a put does what it always does: one look at a flag.

A put notifies at most once between two rounds of the flush service. Once somebody waits, it notifies the thread here in
place of that service: it passes the word on, brings the queues up to the log, and notifies those whose queues got
messages. Under sync flush it joins the sync first: what is not durable cannot be read.
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
    """Without a thread until somebody waits. Safe from many threads."""

    def __init__(self, commit_log: CommitLog, service: FlushService, maintenance: StoreMaintenance) -> None:
        self._log, self._service, self._maintenance = commit_log, service, maintenance
        self._lock = threading.Lock()
        self._waiting: dict[Notifiable, Container[QueueKey] | None] = {}
        """And the queues that each wants; None: all."""
        self._arrived: set[QueueKey] = set()
        """Queues that got messages while somebody waited."""
        self._has_new_queue = False
        """Whether one of them had none before: perhaps nobody knows of it yet."""
        self._work = WakeUp()
        self._is_expected = False
        """Whether anybody has ever waited: before that, an append need not be told."""
        commit_log.poison_wake_ups.append(self._work.notify)
        service.add_listener(self._note_append)
        self.thread = ServiceThread("flightlog-arrivals", self._serve, self._work.notify)

    def expect(self, wake_up: Notifiable, wanted: Container[QueueKey] | None = None) -> None:
        """Notify this wake-up, once, when something new can be read. Look what there is after this call, then wait.

        `wanted` is asked from other threads, and may change meanwhile.
        """
        with self._lock:
            self._waiting[wake_up] = wanted
        if self.thread.is_stopping:
            wake_up.notify()
            return
        self.thread.start()
        self._is_expected = True
        self._maintenance.expect_puts(self._work.notify_once)
        if self._log.end > self._log.visible:  # a put that rang nobody, and cannot be read yet
            self._work.notify()

    def forget(self, wake_up: Notifiable) -> None:
        """Who expected something waits no longer."""
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
        """Return once the thread has ended; everybody is notified. If a KeyboardInterrupt ends it, call it again."""
        self.thread.stop()
        self._notify_all()

    def _serve(self) -> None:
        while self._work.wait() and not self.thread.is_stopping:
            if self._waiting:  # some of them will wait on; and before the dispatch, so that no put notifies nobody
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
