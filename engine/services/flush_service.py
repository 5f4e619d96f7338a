"""The flush thread, which every open store has: it dispatches, syncs, seals and writes the checkpoint, and sleeps while
there is nothing to do.

A round runs flush_interval_ms after an append, and when something is due that an earlier round left:

    sync the log     async flush: if flush_least_pages are dirty or a segment is full, else every
                     flush_thorough_interval_ms; sync flush: what no put has synced
    dispatch         everything visible, into the queues and the key index
    flush queues     sync them, then checkpoint and progress page; every queue_flush_interval_ms, if
                     queue_flush_least_pages of entries are new or the log has begun a segment, else every
                     queue_flush_thorough_interval_ms
    flush the index  every index_flush_interval_ms
    clean up         every clean_interval_ms, first a minute after the start, if retention is on: before everything
                     else, because it may free the space that the rest needs

Between rounds the thread syncs at once for puts that did not wait for a sync (`sync_soon`). If appends come so fast
that much waits for dispatch, the preparing thread dispatches, too (`dispatch_beside`).

If the disk has no room for derived files, the round is repeated until it has. Any other failure poisons the store: puts
are refused, reads continue.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Protocol

from ...store.disk.clock import Clock
from ...store.errors import DiskError, DiskFullError, StorePoisonedError, SyncFailedError, TooManyFilesError
from ...store.settings import FlushMode, StoreSettings
from .service_thread import ServiceThread
from .wake_up import WakeUp


class FlushRule:
    """When to flush one kind of data, by RocketMQ's interval, least pages and thorough interval:

        least pages or more are dirty     every interval
        fewer                             every thorough interval
        nothing is dirty                  never

    The thorough interval runs from the last flush that it made due: what is written after a long idle time is flushed
    in the next round. Pure: the caller passes the time and says what is dirty.
    """

    def __init__(self, interval_s: float, least_pages: int, thorough_interval_s: float) -> None:
        self._interval_s, self._least_pages, self._thorough_interval_s = interval_s, least_pages, thorough_interval_s
        self._due_s = self._thorough_due_s = -math.inf

    def due_s(self, is_dirty: Callable[[int], bool]) -> float:
        """When to flush, by the clock that `flushed` is told; infinity where nothing is dirty.

        `is_dirty(n)` answers whether n pages are, `is_dirty(0)` whether a byte is.
        """
        if is_dirty(self._least_pages):
            return self._due_s
        return max(self._due_s, self._thorough_due_s) if is_dirty(0) else math.inf

    def flushed(self, now_s: float) -> None:
        """Everything was flushed at `now_s`."""
        self._due_s = now_s + self._interval_s
        if now_s >= self._thorough_due_s:
            self._thorough_due_s = now_s + self._thorough_interval_s


log = logging.getLogger("flightlog.flush")

FIRST_CLEAN_UP_S = 60
"""Delay of the first clean-up after the start, as in RocketMQ."""


class Flushable(Protocol):
    """The store, as the service uses it."""

    def log_is_dirty(self, least_pages: int) -> bool: ...

    def queues_are_dirty(self, least_pages: int) -> bool: ...

    def flush_log(self) -> None: ...

    def dispatch(self) -> None: ...

    def flush_queues(self) -> None: ...

    def index_is_dirty(self, least_pages: int) -> bool: ...

    def flush_index(self) -> None: ...

    def clean_up(self, hours: int | None) -> object: ...

    def poison(self, cause: BaseException) -> None: ...

    def expect_puts(self, notify: Callable[[], object] | None) -> None:
        """Let the next put on the fast path call `notify`, once; None: the one of the last call."""


class FlushService:
    """Started once, woken by appends, stopped and joined at close."""

    def __init__(self, settings: StoreSettings, clock: Clock, store: Flushable) -> None:
        self._clock, self._store = clock, store
        self._interval_s = settings.flush_interval_ms / 1000
        thorough_s, least_pages = settings.flush_thorough_interval_ms / 1000, settings.flush_least_pages
        self.is_sync = settings.flush_mode is FlushMode.SYNC
        if self.is_sync:
            least_pages = 0
        self._log_rule = FlushRule(self._interval_s, least_pages, thorough_s)
        self._queue_rule = FlushRule(
            settings.queue_flush_interval_ms / 1000,
            settings.queue_flush_least_pages,
            settings.queue_flush_thorough_interval_ms / 1000,
        )
        index_interval_s = settings.index_flush_interval_ms / 1000
        self._index_rule = FlushRule(index_interval_s, 0, index_interval_s)
        self._retention_hours, self._clean_interval_s = settings.retention_hours, settings.clean_interval_ms / 1000
        self._clean_due_s = math.inf
        if (self._retention_hours, settings.retention_bytes, settings.retention) != (None, None, None):
            self._clean_due_s = clock.monotonic_s() + max(FIRST_CLEAN_UP_S, self._clean_interval_s)
        self._listeners: list[Callable[[], object]] = []
        self._work = WakeUp()
        """Notified by appends. The thread waits for it while no round is due."""
        self._hurry = WakeUp()
        """Notified, together with `_work`, by what cannot wait for the next round."""
        self._is_hurried = self._lacks_room = False
        self._thread = ServiceThread("flightlog-flush", self._serve, self._notify)
        store.expect_puts(self._work.notify_once)

    def start(self) -> None:
        self._thread.start()

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Let each append on the slow path call it."""
        self._listeners.append(listener)

    def wake(self) -> None:
        """Called after an append."""
        for listener in self._listeners:
            listener()
        self.note_append()

    def note_append(self) -> None:
        """Wake this service alone after an append."""
        if not self._work.is_notified:
            self._work.notify()

    def sync_soon(self) -> None:
        """Called after an append that has to be synced without delay, though its put does not wait."""
        for listener in self._listeners:
            listener()
        self._is_hurried = True
        self._notify()

    def flush_beside(self) -> None:
        """Make the log durable in the caller's thread. A failure poisons the store, as in a round."""
        self._does(self._store.flush_log)

    def dispatch_beside(self) -> None:
        """Dispatch in the caller's thread. A failure poisons the store, as in a round."""
        self._does(self._store.dispatch)

    def stop(self) -> None:
        """Return once the thread has ended. The closer flushes what the thread did not.

        If a KeyboardInterrupt ends the wait, call it again.
        """
        self._thread.stop()

    @property
    def thread(self) -> ServiceThread:
        return self._thread

    def _notify(self) -> None:
        self._hurry.notify()
        self._work.notify()

    def _serve(self) -> None:
        due_s = self._clean_due_s  # when the next round comes
        is_coming = False  # because of appends; further ones need not wake the thread
        while True:
            left_s = due_s - self._clock.monotonic_s()
            if left_s > 0:
                is_notified = (self._hurry if is_coming else self._work).wait(None if due_s == math.inf else left_s)
                if is_notified and not is_coming:
                    is_coming = True
                    due_s = min(due_s, self._clock.monotonic_s() + self._interval_s)
            else:
                is_coming = False
                self._work.wait(0)  # appends from here on ask for another round
                self._store.expect_puts(None)
            if self._thread.is_stopping:
                return
            if self._is_hurried:
                self._is_hurried = False
                if not self._does(self._store.flush_log):
                    return
            if left_s <= 0:
                if not (self._does(self._clean_up_if_due) and self._does(self._flush_what_is_due)):
                    return
                due_s = self._next_round_s()

    def _flush_what_is_due(self) -> None:
        store = self._store
        if self._log_rule.due_s(store.log_is_dirty) <= self._clock.monotonic_s():
            store.flush_log()
            self._log_rule.flushed(self._clock.monotonic_s())
        store.dispatch()
        if self._queue_rule.due_s(store.queues_are_dirty) <= self._clock.monotonic_s():
            store.flush_queues()
            self._queue_rule.flushed(self._clock.monotonic_s())
        if self._index_rule.due_s(store.index_is_dirty) <= self._clock.monotonic_s():
            store.flush_index()
            self._index_rule.flushed(self._clock.monotonic_s())
        self._lacks_room = False

    def _clean_up_if_due(self) -> None:
        if self._clean_due_s > self._clock.monotonic_s():
            return
        try:
            self._store.clean_up(self._retention_hours)
        except (SyncFailedError, StorePoisonedError):
            raise
        except DiskError as e:  # nothing is lost
            log.warning("old files cannot be removed, retrying: %s", e, extra={"cause": repr(e)})
        self._clean_due_s = self._clock.monotonic_s() + self._clean_interval_s

    def _next_round_s(self) -> float:
        """When the next round is due without further appends; infinity if everything is flushed."""
        store, soon_s = self._store, self._clock.monotonic_s() + self._interval_s
        if self._lacks_room:
            return soon_s
        due_s = min(
            self._log_rule.due_s(store.log_is_dirty),
            self._queue_rule.due_s(store.queues_are_dirty),
            self._index_rule.due_s(store.index_is_dirty),
            self._clean_due_s,
        )
        return max(due_s, soon_s)

    def _does(self, work: Callable[[], None]) -> bool:
        """Run `work`; False if the store is poisoned, by this failure or an earlier one."""
        try:
            work()
        except StorePoisonedError:
            return False
        except (DiskFullError, TooManyFilesError) as e:
            if not self._lacks_room:  # once, not at every retry
                log.warning("derived files wait for room on the disk: %s", e, extra={"path": str(e.path)})
            self._lacks_room = True
        except BaseException as e:  # the store must not continue as if it were flushed
            self._store.poison(e)
            return False
        return True
