"""The one thread of an open store: it dispatches, syncs, seals and writes the checkpoint, and sleeps while nothing is
new.

    every flush_interval_ms after something was appended          under async flush: sync the log; dispatch
    every queue_flush_interval_ms after something was dispatched  sync queues, then checkpoint and progress page

Derived files that have no room wait for it: the round is tried again until there is some. Any other failure poisons the
store: puts are refused from then on, reads go on.

Raw locks are the bells here, not events: ringing is one call into C, which no KeyboardInterrupt can leave half done.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ..store.clock import Clock
from ..store.errors import DiskFullError, StorePoisonedError
from ..store.settings import StoreSettings

log = logging.getLogger("flightlog.flush")

STOP_POLL_S = 0.1


class _Bell:
    """Something to wait for. Rung once or often before a wait, it ends that wait."""

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()

    @property
    def is_rung(self) -> bool:
        return not self._silence.locked()

    def ring(self) -> None:
        try:  # noqa: SIM105 (an interrupt could come inside contextlib.suppress, before the release)
            self._silence.release()
        except RuntimeError:
            pass  # rung already

    def wait(self, timeout_s: float = -1) -> bool:
        """Return, and silence the bell, once it is rung; False if it is not within `timeout_s`."""
        return self._silence.acquire(timeout=timeout_s)


class FlushService:
    """Started once, woken by appends, stopped and waited for at close."""

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
        self._work, self._stop, self._ended = _Bell(), _Bell(), _Bell()
        self._is_stopping = self._has_ended = False
        self._finish: Callable[[], None] | None = None
        # A daemon: the interpreter joins other threads before `atexit` runs, which is where a forgotten store is
        # closed.
        self._thread = threading.Thread(target=self._run, name="flightlog-flush", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Something was appended."""
        if not self._work.is_rung:
            self._work.ring()

    def stop(self) -> None:
        """Return once the thread has ended. What it had not flushed is the closer's to flush.

        If a KeyboardInterrupt ends the wait, call it again.
        """
        self._request_stop()
        if self._thread.ident is None:
            return  # was never started
        while not self._has_ended:  # an interrupted Thread.join forgets a thread that still runs
            self._ended.wait(STOP_POLL_S)
        self._thread.join()

    def stop_then(self, finish: Callable[[], None]) -> None:
        """As `stop`, and `finish` afterwards: for a store whose handle was dropped without a close.

        A garbage collection may drop it in the service thread, in the middle of a round: then `finish` is called there,
        after that round.
        """
        if threading.current_thread() is self._thread and not self._has_ended:
            self._finish = finish
            self._request_stop()
        else:
            self.stop()
            finish()

    def _request_stop(self) -> None:
        self._is_stopping = True
        self._stop.ring()
        self._work.ring()

    def _run(self) -> None:
        try:
            self._serve()
        finally:
            self._has_ended = True
            if self._finish is not None:
                self._finish()
            self._ended.ring()

    def _serve(self) -> None:
        queues_due_s: float | None = None
        has_warned = False
        while not self._is_stopping:
            # Idle without queues to flush: wait for an append, however long that takes.
            self._work.wait(-1 if queues_due_s is None else 0)
            if self._stop.wait(self._interval_s):
                return
            try:
                self._flush_log()
                now_s = self._clock.monotonic_s()
                if queues_due_s is None:
                    queues_due_s = now_s + self._queue_interval_s
                elif now_s >= queues_due_s:
                    self._flush_queues()
                    queues_due_s = now_s + self._queue_interval_s if self._work.is_rung else None
                has_warned = False
            except StorePoisonedError:
                return
            except DiskFullError as e:
                if not has_warned:
                    log.warning("derived files wait for room on the disk: %s", e)
                has_warned = True
                queues_due_s = self._clock.monotonic_s() + self._queue_interval_s
            except BaseException as e:  # whatever it is, the store must not go on as if it were flushed
                log.exception("the flush service failed; the store takes no more puts")
                self._failed(e)
                return
