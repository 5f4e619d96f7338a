"""Waking those who wait for messages.

Invariants:
- Who was `expected` and then found nothing to read is rung once a message that came since can be read, or the store
  ends; perhaps also without one.
- While nobody waits, a put does what it always does: one look at a flag.

A put rings at most once between two rounds of the flush service. Once somebody waits, it rings the thread here in place
of that service: it passes the word on, brings the queues up to the log, and rings everybody. Under sync flush it joins
the sync first: what is not durable cannot be read.
"""

from __future__ import annotations

import threading

from ..store.commit_log import CommitLog
from .bell import Bell
from .flush_service import FlushService
from .service_thread import ServiceThread
from .upkeep import Upkeep


class Arrivals:
    """Without a thread until somebody waits. Safe from many threads."""

    def __init__(self, commit_log: CommitLog, service: FlushService, upkeep: Upkeep) -> None:
        self._log, self._service, self._upkeep = commit_log, service, upkeep
        self._lock = threading.Lock()
        self._waiting: set[Bell] = set()
        self._work = Bell()
        self.thread = ServiceThread("flightlog-arrivals", self._serve, self._work.ring)

    def expect(self, bell: Bell) -> None:
        """Ring this bell, once, when something new can be read. Look what there is after this call, then wait."""
        with self._lock:
            self._waiting.add(bell)
        if self.thread.is_stopping:
            bell.ring()
            return
        self.thread.start()
        self._service.also_wake = self._work.ring
        self._upkeep.expect_puts(self._work.ring_once)
        if self._log.end > self._log.visible:  # a put that rang nobody, and cannot be read yet
            self._work.ring()

    def forget(self, bell: Bell) -> None:
        """Who expected something waits no longer."""
        with self._lock:
            self._waiting.discard(bell)

    def stop(self) -> None:
        """Return once the thread has ended; everybody is rung. If a KeyboardInterrupt ends it, call it again."""
        self.thread.stop()
        self._ring_all()

    def _serve(self) -> None:
        while self._work.wait() and not self.thread.is_stopping:
            self._service.note_append()
            if self._service.is_sync:
                self._service.flush_beside()
            self._service.dispatch_beside()
            self._ring_all()

    def _ring_all(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        for bell in waiting:
            bell.ring()
