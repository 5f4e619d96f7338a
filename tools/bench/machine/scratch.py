"""The scratch folder of a benchmark, removed at its end."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ....store.errors import UsageError
from ...words import size_text

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def scratch_folder(parent: Path | None) -> Iterator[Path]:
    """A new folder below `parent` (None: the temporary folder), removed with all that is in it once the block ends,
    also by Ctrl-C, SIGTERM or SIGHUP."""
    with _ended_by_signals():
        folder = Path(tempfile.mkdtemp(prefix="flightlog-bench-", dir=parent))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # no other one may set handlers, nor is interrupted
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]  # nohup has SIGHUP ignored
    for number in heard:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)  # as a shell tells of a process that a signal has ended


def check_room(folder: Path, size: int) -> None:
    """Raises UsageError if the disk has less than `size` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise UsageError(f"{folder.parent}: {size_text(free)} free, expected {size_text(size)}. Name another --folder")
