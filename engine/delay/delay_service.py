"""Delayed messages of an open store: its delay levels, its timers, and the thread that delivers what is due.

The first message that is parked starts the thread, or the opening if messages wait already: a store without any has no
thread for it. The thread sleeps until the next delivery is due (schedule/deadline_queue.py); a put that parks an
earlier message wakes it. At close it stops first, before the services that its puts need.

It writes how far deliveries are every `delay_save_interval_ms` while that changes, and at close: after the thread has
ended and before the log closes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from ...index.queue.queue_table import QueueTable
from ...schedule.deadline_queue import DeadlineQueue
from ...schedule.delay_level import Deliver, LevelState
from ...schedule.delay_level_table import SCHEDULE_TOPIC
from ...schedule.timer_request import TIMER_TOPIC
from ...store.disk.clock import Clock
from ...store.disk.disk import Disk
from ...store.errors import DiskError, FlightlogError, StorePoisonedError
from ...store.log.commit_log import CommitLog
from ...store.results import PutResult
from ...store.settings import StoreSettings
from ..open.shutdown_state import LastWriter
from ..services.service_thread import ServiceThread
from ..services.store_maintenance import StoreMaintenance
from ..services.wake_up import WakeUp
from .delay_levels import DelayLevels
from .store_timers import StoreTimerHost, Timers, TimerState

log = logging.getLogger("flightlog.schedule")


class Saver(Protocol):
    """Keeps on the disk how far deliveries are."""

    @property
    def is_unsaved(self) -> bool: ...

    def save(self) -> None:
        """Raises DiskError; then it is tried again."""


class DelayService:
    """The delays of one open store. `resume` is the last step of the opening; any thread may call `parked`."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        settings: StoreSettings,
        clock: Clock,
        commit_log: CommitLog,
        table: QueueTable,
        last_writer: LastWriter,
        maintenance: StoreMaintenance,
        deliver: Deliver,
    ) -> None:
        """Raises ConfigFileError where the file of the delay levels cannot be read, nor its `.bak`; DiskError."""
        self._clock, self._log = clock, commit_log
        self._save_interval_s = settings.delay_save_interval_ms / 1000
        self._save_due_s: float | None = None
        self._failing: set[Saver] = set()
        """Those that could not write, and said so."""
        self._wake_up = WakeUp()
        self.deadlines = DeadlineQueue(clock, self._wake_up.notify)
        host = StoreTimerHost(commit_log, table, last_writer, maintenance.catch_up, deliver)
        self.levels: DelayLevels | None = None
        """None where nothing is delivered (`deliver_delayed`)."""
        self.timers = Timers(disk, path, settings, clock, host, maintenance.poison, self.deadlines)
        """Made in any case: puts ask it how to park a timer."""
        self.savers: list[Saver] = []
        """Write how far deliveries are."""
        self._on_parked: dict[str, Callable[[PutResult], None]] = {}
        """By topic: called for every message parked there, by the thread that put it, after the append."""
        if settings.deliver_delayed:
            self.levels = DelayLevels(
                *(disk, path, settings, clock, commit_log, table, maintenance.catch_up, deliver, self.deadlines)
            )
            self.deadlines.add(self.timers)
            self.savers += self.levels, self.timers
            self._on_parked |= {SCHEDULE_TOPIC: self.levels.parked, TIMER_TOPIC: self.timers.parked}
        self.thread = ServiceThread("flightlog-delay", self._serve, self._wake_up.notify)

    def resume(self) -> None:
        """Deliver what waits since before the opening. Raises DamagedStoreError, DiskError, ThreadStartError."""
        if self.levels is not None:
            # Both before the thread starts: it would open the timers as well.
            have_pending = self.levels.has_pending, self.timers.open_if_used()
            if any(have_pending):
                self.start()

    def start(self) -> None:
        """Start the thread if anything is delivered at all. Raises ThreadStartError if the system has none."""
        if self.levels is not None:
            self.thread.start()

    def parked(self, results: Iterable[PutResult]) -> None:
        """These were appended; some of them may wait for their delivery."""
        for result in results:
            listener = self._on_parked.get(result.topic)
            if listener is not None:
                listener(result)

    def stop(self) -> None:
        """Return once nothing is delivered any more. If a KeyboardInterrupt ends the wait, call it again."""
        self.thread.stop()

    def save(self) -> None:
        """Write how far deliveries are, unless that fails: then they begin further back the next time."""
        for saver in self.savers:
            if not saver.is_unsaved:
                continue
            try:
                saver.save()
            except DiskError as e:
                if saver not in self._failing:  # once, however often it is tried again
                    text = "how far deliveries are was not written; some may be made twice after a crash: %s"
                    log.warning(text, e, extra={"cause": repr(e)})
                self._failing.add(saver)
            else:
                self._failing.discard(saver)

    def close(self) -> None:
        """Write how far deliveries are and close the files, once the thread has ended. Can be called again."""
        if self.levels is not None and self._log.poison is None:  # a poisoned store is left as after a kill
            try:
                self.timers.take_in_late()
            except FlightlogError as e:
                log.warning("the next opening takes in the last timers: %s", e, extra={"cause": repr(e)})
        self.save()
        self.timers.close()

    def states(self) -> tuple[tuple[LevelState, ...], TimerState | None]:
        """What waits for each delay level, none where nothing is delivered; the timers, None if there never was one."""
        return () if self.levels is None else self.levels.states(), self.timers.state()

    def _serve(self) -> None:
        while not self.thread.is_stopping:
            try:
                wait_s = self.deadlines.run_due()
            except StorePoisonedError as e:
                log.warning("nothing is delivered any more: %s", e, extra={"cause": repr(e)})
                return
            self._wake_up.wait(self._save_when_due(wait_s))

    def _save_when_due(self, wait_s: float | None) -> float | None:
        """Save if it is time; how long the thread may sleep at most."""
        now_s = self._clock.monotonic_s()
        if self._save_due_s is not None and now_s >= self._save_due_s:
            self._save_due_s = None
            self.save()
        if self._save_due_s is None and any(saver.is_unsaved for saver in self.savers):
            self._save_due_s = now_s + self._save_interval_s
        if self._save_due_s is None:
            return wait_s
        left_s = max(self._save_due_s - now_s, 0.0)
        return left_s if wait_s is None else min(wait_s, left_s)
