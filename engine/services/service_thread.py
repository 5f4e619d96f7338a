"""A thread of an open store: started once, stopped, joined.

Invariants:
- The work runs once, however often `start` is called and whatever a KeyboardInterrupt did to the calls before.
- A KeyboardInterrupt may end every wait; the wait can be repeated.
- The thread is a daemon: the interpreter joins other threads before it runs `atexit`, which closes forgotten stores.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable

from ...store.disk.thread_start import thread_start_errors
from .wake_up import WakeUp

STOP_POLL_S = 0.1


class ServiceThread:
    """`work` must return soon after `is_stopping` is set and `wake` is called."""

    def __init__(self, name: str, work: Callable[[], None], wake: Callable[[], None]) -> None:
        self._name, self._work, self._wake = name, work, wake
        self._claim = threading.Lock()
        """Taken by the thread that does the work, and never released."""
        self._ended = WakeUp()
        self._was_started = False
        self._thread: threading.Thread | None = None
        self._at_end: Callable[[], None] | None = None
        self.is_stopping = False
        self.has_ended = False
        """Whether the work is over; `at_end` may still be running."""

    def start(self) -> None:
        """Start the thread once. If an interrupt ends this, call it again: a second thread ends at once.

        Raises ThreadStartError if the system refuses a thread.
        """
        if self._was_started:
            return
        # An interrupt leaves Thread.start, which is Python code, half done, with an error of its own. So another thread
        # calls it, which no interrupt reaches; starting that one is a single call into C.
        is_done, failures = WakeUp(), list[BaseException]()

        def start_thread() -> None:
            try:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            except BaseException as e:
                failures.append(e)
            finally:
                is_done.notify()

        with thread_start_errors(self._name):
            _thread.start_new_thread(start_thread, ())
            is_done.wait()
            if failures:
                raise failures[0]
        self._was_started = True

    def is_current(self) -> bool:
        """Whether the caller is this thread."""
        return self._thread is threading.current_thread()

    def request_stop(self) -> None:
        self.is_stopping = True
        self._wake()

    def stop(self) -> None:
        """Return once the work is over. A thread whose start was interrupted does nothing when it runs.

        The work itself must not call this.
        """
        self.request_stop()
        if not self._was_started and self._thread is None:
            return
        while not self.has_ended:  # an interrupted Thread.join forgets a thread that still runs
            self._ended.wait(STOP_POLL_S)
        if self._thread is not None and not self.is_current():
            self._thread.join()

    def stop_then(self, finish: Callable[[], None]) -> None:
        """Stop the work and let this thread call `finish` after it. Returns at once."""
        self._at_end = finish
        self.request_stop()

    def _run(self) -> None:
        if not self._claim.acquire(blocking=False):
            return
        self._thread = threading.current_thread()
        try:
            if not self.is_stopping:
                self._work()
        finally:
            self.has_ended = True
            try:
                if self._at_end is not None:
                    self._at_end()
            finally:
                self._ended.notify()
