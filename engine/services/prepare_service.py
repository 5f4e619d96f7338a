"""The thread of an open store that prepares blocks, pages and the next segment ahead of the append position.

Appends wake it when they have used half of what is prepared; otherwise it sleeps. After a burst of appends it checks
from time to time whether the log is at rest, and prepares for the next burst. Appends prepare for themselves what it
could not: no failure here refuses a put. See store/log/preparation.py. If appends come so fast that much waits for
dispatch, it dispatches, too, because a long sync may keep the flush thread from it.
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
"""How many bytes of records may wait for the next round of dispatch."""
REST_S = 0.25
"""A log that has not grown for this long is at rest."""


class PrepareService:
    """Started once, woken by appends, stopped and joined at close. Has no thread if nothing is to be prepared."""

    def __init__(self, commit_log: CommitLog, dispatch: Callable[[], object], work: WakeUp) -> None:
        """`work`: what the log's appends notify."""
        self._log, self._dispatch, self._work = commit_log, dispatch, work
        self._asked: deque[WakeUp] = deque()
        """Callers of `settled` that wait; only the thread removes them."""
        self._asking = threading.Lock()
        """Held while a request is added and notifies, and while a round begins: its notification then belongs to that
        round. One more round would measure again how fast the log grows."""
        self.thread = ServiceThread("flightlog-prepare", self._serve, self._work.notify)

    def start(self) -> None:
        if self._log.preparation.is_wanted:
            self.thread.start()

    def stop(self) -> None:
        """Return once the thread has ended. If a KeyboardInterrupt ends the wait, call it again."""
        self.thread.stop()

    def settled(self, timeout_s: float) -> bool:
        """Whether everything due now is prepared within that time. A bench calls it before it measures."""
        done = WakeUp()
        with self._asking:
            self._asked.append(done)
            self._work.notify()
        return done.wait(timeout_s)

    def _serve(self) -> None:
        try:
            while self._wait() and not self.thread.is_stopping:
                with self._asking:
                    self._work.wait(0)  # notifications until now belong to this round
                    asked = len(self._asked)
                is_due = True
                while is_due and not self.thread.is_stopping:
                    is_due = self._log.prepare()
                    if self._log.end - self._log.dispatched >= UNDISPATCHED_SIZE:
                        self._dispatch()
                if asked:  # the callers know that no put is running
                    self._rest()
                for _ in range(asked):
                    self._asked.popleft().notify()
        except Exception:
            self._log.preparation.abandon()
            path = self._log.reader.folder.parent
            log.exception(
                "%s: preparation failed, appends prepare for themselves from now on", path, extra={"path": str(path)}
            )

    def _wait(self) -> bool:
        """Return once there is work; prepare for a burst when the log is at rest."""
        log, end = self._log, self._log.end
        while log.preparation.has_burst(end):
            if self._work.wait(REST_S):
                return True
            if log.end == end:
                self._rest()
            end = log.end
        return self._work.wait()

    def _rest(self) -> None:
        """Prepare for a burst until there is work."""
        while not self.thread.is_stopping and not self._work.is_notified and self._log.prepare_for_burst():
            pass
