"""The thread of an open store that has blocks, pages and the next segment ready before appends come to them.

Appends wake it when they have used up half of what is ready; else it sleeps. After a burst of them it looks every now
and then whether the log is at rest, and prepares for the next burst. What it cannot prepare, appends make for
themselves: nothing that fails here refuses a put. See store/log/preparation.py. Where appends come so fast that much
waits for dispatch, it dispatches, too: a sync may keep the other thread from it for long.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from ...store.log.commit_log import CommitLog
from .service_thread import ServiceThread
from .wake_up import WakeUp

log = logging.getLogger("flightlog.store")

UNDISPATCHED_SIZE = 16 << 20
"""As many bytes of records may wait for the next round of dispatch."""
REST_S = 0.25
"""A log that has not grown for so long is at rest."""


class PrepareService:
    """Started once, woken by appends, stopped and waited for at close. Without a thread where nothing is prepared."""

    def __init__(self, commit_log: CommitLog, dispatch: Callable[[], object], work: WakeUp) -> None:
        """`work`: what the log's appends notify."""
        self._log, self._dispatch, self._work = commit_log, dispatch, work
        self._asked: deque[WakeUp] = deque()
        """Who waits until what is due is prepared; the thread alone takes them out."""
        self._asking = threading.Lock()
        """Held from a request's entry until it has notified, and while a round begins: no notify of it is left for
        another round, which would measure again how fast the log grows."""
        self.thread = ServiceThread("flightlog-prepare", self._serve, self._work.notify)

    def start(self) -> None:
        if self._log.preparation.is_wanted:
            self.thread.start()

    def stop(self) -> None:
        """Return once the thread has ended. If a KeyboardInterrupt ends the wait, call it again."""
        self.thread.stop()

    def settled(self, timeout_s: float) -> bool:
        """Whether all that is due now is prepared within that time. For a bench, which measures from there on."""
        done = WakeUp()
        with self._asking:
            self._asked.append(done)
            self._work.notify()
        return done.wait(timeout_s)

    def _serve(self) -> None:
        try:
            while self._wait() and not self.thread.is_stopping:
                with self._asking:
                    self._work.wait(0)  # what rang until now is of this round
                    asked = len(self._asked)
                is_due = True
                while is_due and not self.thread.is_stopping:
                    is_due = self._log.prepare()
                    if self._log.end - self._log.dispatched >= UNDISPATCHED_SIZE:
                        self._dispatch()
                if asked:  # no put is running: the callers know that
                    self._rest()
                for _ in range(asked):
                    self._asked.popleft().notify()
        except Exception:
            self._log.preparation.abandon()
            path = self._log.reader.folder.parent
            log.exception("%s: from now on nothing is prepared for appends", path, extra={"path": str(path)})

    def _wait(self) -> bool:
        """Return once there is work; meanwhile rest when it is time to."""
        log, end = self._log, self._log.end
        while log.preparation.has_burst(end):
            if self._work.wait(REST_S):
                return True
            if log.end == end:
                self._rest()
            end = log.end
        return self._work.wait()

    def _rest(self) -> None:
        """Prepare for a burst, until it comes."""
        while not self.thread.is_stopping and not self._work.is_notified and self._log.prepare_for_burst():
            pass
