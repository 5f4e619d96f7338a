"""The thread of an open store that delivers messages whose time has come.

It is started by the first message that is parked, or at the opening if messages wait already: a store without any has
no thread for it. It sleeps until the next delivery is due (schedule/deadlines.py) and is rung by whoever parks what is
due before. At close it stops first, before anything that it puts through.

Where schedulers plug in:

    begin()     makes them, `add`s each as a task of `deadlines`, and starts the thread if one of them has work
    on_parked   by topic: told of every message that was parked there, by the thread that put it, after the append
    savers      called by `save`: after the thread has ended, before the log closes
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ..schedule.deadlines import Deadlines
from ..store.clock import Clock
from ..store.errors import StorePoisonedError
from ..store.message import PutResult
from ..store.settings import StoreSettings
from .bell import Bell
from .service_thread import ServiceThread

log = logging.getLogger("flightlog.schedule")

OnParked = Callable[[PutResult], None]


class ScheduleService:
    """The schedulers of one open store, and their thread."""

    def __init__(self, settings: StoreSettings, clock: Clock) -> None:
        self._is_on = settings.deliver_delayed
        self._bell = Bell()
        self.deadlines = Deadlines(clock, self._bell.ring)
        self.on_parked: dict[str, OnParked] = {}
        self.savers: list[Callable[[], None]] = []
        self.thread = ServiceThread("flightlog-schedule", self._serve, self._bell.ring)

    def begin(self) -> None:
        """The store is open: deliver what waits."""

    def start(self) -> None:
        """Have the thread running. Raises RuntimeError if the system has none to give."""
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
        """Write how far deliveries are, after `stop`."""
        for saver in self.savers:
            saver()

    def _serve(self) -> None:
        while not self.thread.is_stopping:
            try:
                wait_s = self.deadlines.run_due()
            except StorePoisonedError as e:
                log.warning("nothing is delivered any more: %s", e, extra={"cause": repr(e)})
                return
            self._bell.wait(wait_s)
