"""The thread of an open store that delivers messages that are due.

It is started by the first message that is parked, or at the opening if messages wait already: a store without any has
no thread for it. It sleeps until the next delivery is due (schedule/deadline_queue.py) and is notified by a put
that parks an earlier message. At close it stops first, before the services that its puts need.

Where schedulers plug in, before `begin`:

    deadlines   their tasks
    on_parked   by topic: told of every message that was parked there, by the thread that put it, after the append
    savers      what writes how far they are: every `delay_save_interval_ms` while that moves, and at close, after the
                thread has ended and before the log closes
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from ...schedule.deadline_queue import DeadlineQueue
from ...store.disk.clock import Clock
from ...store.errors import DiskError, StorePoisonedError
from ...store.results import PutResult
from ...store.settings import StoreSettings
from .service_thread import ServiceThread
from .wake_up import WakeUp

log = logging.getLogger("flightlog.schedule")

OnParked = Callable[[PutResult], None]


class Saver(Protocol):
    """Keeps on the disk how far deliveries are."""

    @property
    def is_unsaved(self) -> bool: ...

    def save(self) -> None:
        """Raises DiskError; then it is tried again."""


class DelayService:
    """The schedulers of one open store, and their thread."""

    def __init__(self, settings: StoreSettings, clock: Clock) -> None:
        self._is_on, self._clock = settings.deliver_delayed, clock
        self._save_interval_s = settings.delay_save_interval_ms / 1000
        self._save_due_s: float | None = None
        self._failing: set[Saver] = set()
        """Those that could not write, and said so."""
        self._wake_up = WakeUp()
        self.deadlines = DeadlineQueue(clock, self._wake_up.notify)
        self.on_parked: dict[str, OnParked] = {}
        self.savers: list[Saver] = []
        self.thread = ServiceThread("flightlog-delay", self._serve, self._wake_up.notify)

    def start(self) -> None:
        """Have the thread running, if anything is delivered at all. Raises ThreadStartError if the system has none."""
        if self._is_on:
            self.thread.start()

    def parked(self, results: Iterable[PutResult]) -> None:
        """These were appended; some of them may wait for their delivery."""
        for result in results:
            listener = self.on_parked.get(result.topic)
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
