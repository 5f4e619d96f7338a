"""Asynchronous puts under sync flush: the futures that `put_async` returns, and the threads that complete them.

    the caller's thread   appends the message, adds a future
    flightlog-sync        syncs the log while there are new records; never runs code of the application
    flightlog-pending     completes futures in log order, and so runs their callbacks

There are two threads because a sync that hangs must not delay the deadline of a future, and a slow callback must not
delay the next sync. Both are started by the first `put_async` and end at `close`. This is group commit: one sync
serves every future whose record it covers, and the synchronous puts that wait at the same time.

Invariants:
- Both threads run before a message is appended for a future, so every future that a caller holds is completed.
- Only flightlog-pending completes a future that a caller holds. That thread receives no KeyboardInterrupt; one inside
  `Future` could leave its lock acquired. A put during `close` waits in its own thread instead.
- A future is completed with PUT_OK if its record is durable, else with an error if a sync has failed, else with
  FLUSH_DISK_TIMEOUT once its deadline has passed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from ...store.disk.clock import Clock
from ...store.errors import DiskError, FlightlogError, StorePoisonedError
from ...store.log.commit_log import CommitLog
from ...store.results import PutResult, PutStatus
from ..services.futures import complete
from ..services.service_thread import ServiceThread
from ..services.wake_up import WakeUp

log = logging.getLogger("flightlog.flush")


class _Pending(NamedTuple):
    """A future that waits for a sync."""

    future: Future[PutResult]
    result: PutResult
    end: int
    """Physical offset one past the record."""
    deadline_s: float


class PendingPuts:
    """The queue of futures that wait for a sync, in log order."""

    def __init__(
        self, commit_log: CommitLog, clock: Clock, timeout_s: float, poison: Callable[[BaseException], None]
    ) -> None:
        self._log, self._clock, self._timeout_s, self._poison = commit_log, clock, timeout_s, poison
        self._line: deque[_Pending] = deque()
        self._to_sync = WakeUp()
        self._news = WakeUp()
        """Notified after each sync, successful or not, and when the first future is added to an empty queue."""
        self._is_idle = False
        """Whether flightlog-pending waits for the first future, without a deadline."""
        self._is_finishing = False
        self._failure: BaseException | None = None
        """The error that ended flightlog-sync; None while it runs, and if `finish` ended it. No later sync succeeds."""
        self._syncer = ServiceThread("flightlog-sync", self._sync, self._to_sync.notify)
        self._completer = ServiceThread("flightlog-pending", self._complete, self._news.notify)

    @property
    def threads(self) -> tuple[ServiceThread, ServiceThread]:
        return self._syncer, self._completer

    def runs_callbacks_here(self) -> bool:
        """Whether the caller is the thread that completes futures."""
        return self._completer.is_current()

    def start(self) -> None:
        """Start the threads unless they run. Raises ThreadStartError if the system refuses to start one."""
        self._completer.start()
        self._syncer.start()

    def add(self, result: PutResult) -> Future[PutResult]:
        """The future of a message that was appended. It cannot be cancelled."""
        future: Future[PutResult] = Future()
        future.set_running_or_notify_cancel()
        end = result.physical_offset + result.size
        pending = _Pending(future, result, end, self._clock.monotonic_s() + self._timeout_s)
        self._line.append(pending)
        self._to_sync.notify()
        if self._is_idle:
            self._news.notify()
        return self._wait_for(pending) if self._is_finishing else future

    def finish(self) -> None:
        """Complete every future that was added before, and end both threads.

        Safe to call from a callback of a future, which then completes the remaining futures itself. If a
        KeyboardInterrupt ends the wait, call it again.
        """
        self._is_finishing = True
        self._syncer.stop()
        if self._completer.is_current():
            self._completer.request_stop()
            self._complete_what_can_be()
        else:
            self._completer.stop()

    def _sync(self) -> None:
        is_last = False
        while not is_last and self._failure is None:
            self._to_sync.wait()
            is_last = self._syncer.is_stopping
            try:
                self._log.flush()
            except DiskError as e:
                self._failure = e
            except BaseException as e:  # after any error, no put may be acknowledged as synced
                self._poison(e)
                self._failure = e
            finally:
                self._news.notify()

    def _complete(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._completer.is_stopping
            deadline_s = self._complete_what_can_be()
            if not is_last:
                self._wait_until(deadline_s)

    def _wait_until(self, deadline_s: float | None) -> None:
        """Wait for a sync, or until the deadline of the first future."""
        if deadline_s is not None:
            self._news.wait(max(0.0, deadline_s - self._clock.monotonic_s()))
            return
        self._is_idle = True  # before `_line` is checked: `add` notifies if this is set
        if not self._line:
            self._news.wait()
        self._is_idle = False

    def _complete_what_can_be(self) -> float | None:
        """Complete futures from the front of the queue. Returns the deadline of the first one that must wait on."""
        line = self._line
        while line:
            pending = line[0]
            outcome = self._outcome(pending)
            if outcome is None:
                return pending.deadline_s
            line.popleft()
            _complete(pending.future, outcome)
        return None

    def _outcome(self, pending: _Pending) -> PutResult | BaseException | None:
        """What its future is completed with; None if it must wait on."""
        failure = self._failure  # read first: a record that was durable before the failed sync is acknowledged
        if pending.end <= self._log.flushed:
            return pending.result
        if failure is not None:
            return self._error(failure)
        if self._clock.monotonic_s() >= pending.deadline_s:
            return pending.result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT)
        return None

    def _error(self, failure: BaseException) -> BaseException:
        """A separate exception for every future: raising one writes a traceback into it."""
        cause = self._log.poison or failure
        error = StorePoisonedError(self._log.reader.folder.parent, cause)
        error.__cause__ = cause
        return error

    def _wait_for(self, pending: _Pending) -> Future[PutResult]:
        """A completed future, for a put during `close`: the thread may have ended before it sees a new one."""
        outcome: PutResult | BaseException = pending.result
        try:
            if not self._log.flush(self._timeout_s, pending.end):
                outcome = pending.result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT)
        except FlightlogError as e:
            outcome = e
        future: Future[PutResult] = Future()
        _complete(future, outcome)
        return future


def _complete(future: Future[PutResult], outcome: PutResult | BaseException) -> None:
    physical_offset = outcome.physical_offset if isinstance(outcome, PutResult) else None
    complete(future, outcome, log, "put", {"physical_offset": physical_offset})
