"""The one thread of an open store: it dispatches, syncs, seals and writes the checkpoint, and sleeps while nothing is
new.

    every flush_interval_ms after something was appended          dispatch; under async flush: sync the log
    every queue_flush_interval_ms after something was dispatched  sync queues, then checkpoint and progress page

A failure here poisons the store: puts are refused from then on, reads go on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ..store.clock import Clock
from ..store.errors import StorePoisonedError
from ..store.settings import StoreSettings

log = logging.getLogger("flightlog.flush")


class FlushService:
    """Started once, woken by appends, stopped and joined at close."""

    def __init__(
        self,
        settings: StoreSettings,
        clock: Clock,
        flush_log: Callable[[], None],
        flush_queues: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._interval_s = settings.flush_interval_ms / 1000
        self._queue_interval_s = settings.queue_flush_interval_ms / 1000
        self._clock, self._flush_log, self._flush_queues, self._failed = clock, flush_log, flush_queues, failed
        self._work = threading.Event()
        self._stop = threading.Event()
        # A daemon: the interpreter joins other threads before `atexit` runs, which is where a forgotten store is
        # closed.
        self._thread = threading.Thread(target=self._run, name="flightlog-flush", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Something was appended."""
        if not self._work.is_set():
            self._work.set()

    def stop(self) -> None:
        """Return once the thread has ended. What it had not flushed is the closer's to flush."""
        self._stop.set()
        self._work.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        queues_due_s: float | None = None
        while not self._stop.is_set():
            # Idle without queues to flush: wait for an append, however long that takes.
            if queues_due_s is None:
                self._work.wait()
            self._work.clear()
            if self._stop.wait(self._interval_s):
                return
            try:
                self._flush_log()
                now_s = self._clock.monotonic_s()
                if queues_due_s is None:
                    queues_due_s = now_s + self._queue_interval_s
                elif now_s >= queues_due_s:
                    self._flush_queues()
                    queues_due_s = now_s + self._queue_interval_s if self._work.is_set() else None
            except StorePoisonedError:
                return
            except BaseException as e:  # whatever it is, the store must not go on as if it were flushed
                log.exception("the flush service failed; the store takes no more puts")
                self._failed(e)
                return
