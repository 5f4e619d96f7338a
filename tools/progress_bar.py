"""A progress bar without dependencies: one line on stderr, drawn by its own thread, if stderr can erase it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

REDRAW_S = 0.1
BAR_WIDTH = 24
SPINNER = "|/-\\"
CLEAR_LINE = "\r\033[K"


class ProgressBar:
    """Use as a context manager around the work, which advances `done`; or `count` returns the progress.

    Without a total, it shows a spinner and the time. The line is erased at the end; the caller reports the result.
    """

    def __init__(self, label: str, total: int | None = None, count: Callable[[], int] | None = None) -> None:
        self.done = 0
        self._label, self._total, self._count = label, total, count
        self._started_s = time.monotonic()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> ProgressBar:
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":  # which cannot erase a line
            self._thread = threading.Thread(target=self._draw_until_stopped, name="flightlog-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)

    def advance(self) -> None:
        """One more is done."""
        self.done += 1

    def _draw_until_stopped(self) -> None:
        turn = 0
        while not self._stop.wait(REDRAW_S):
            turn += 1
            print(CLEAR_LINE + self.line(turn)[: _terminal_width() - 1], end="", file=sys.stderr, flush=True)

    def line(self, turn: int) -> str:
        """What the terminal shows now."""
        passed = f"{time.monotonic() - self._started_s:.0f} s"
        if not self._total:
            return f"  {SPINNER[turn % len(SPINNER)]} {self._label}, {passed}"
        part = min((self._count() if self._count else self.done) / self._total, 1.0)
        filled = round(part * BAR_WIDTH)
        return f"  [{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {part:4.0%} {self._label}, {passed}"


def _terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80
