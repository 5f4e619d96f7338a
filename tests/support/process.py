"""What stores hold of this process. Other tests have run in it before, and libraries have threads and files of their
own: only what is a store's counts."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

LIMIT_S = 240  # for what comes soon, on a machine that may do a lot besides


def threads() -> set[threading.Thread]:
    """Those of stores that run now."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("flightlog")}


def names_since(before: set[threading.Thread]) -> list[str]:
    """Those that have begun since `threads()` were these, by name."""
    return sorted(thread.name for thread in threads() - before)


def consumer_threads(before: set[threading.Thread]) -> list[str]:
    """Those of consumers among `names_since(before)`."""
    return [name for name in names_since(before) if name.startswith("flightlog-consume-")]


def descriptors(folder: Path) -> list[str]:
    """The files below a folder that this process has open, each as often as it is."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue  # the listing's own
        if Path(target).is_relative_to(folder):
            found.append(target)
    return sorted(found)


def is_in(thread: int, *functions: str) -> bool:
    """Whether the thread with that identifier is in all of these functions, qualified names, one calling another."""
    frame, names = sys._current_frames().get(thread), []
    while frame is not None:
        names.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return set(functions) <= set(names)


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.001)


def wait_until_still(look: Callable[[], object], still_s: float = 0.1) -> None:
    """Until what `look` tells has not changed for so long."""
    before: list[object] = []

    def is_still() -> bool:
        now = look()
        was_still = bool(before) and before[0] == now
        before[:] = [now]
        if not was_still:
            time.sleep(still_s)
        return was_still

    wait_until(is_still)
