"""What a test had logged. Other tests of the process leave threads and objects, which log, too."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable

import pytest


def watched(caplog: pytest.LogCaptureFixture) -> Callable[[], list[logging.LogRecord]]:
    """Returns what tells the records of flightlog, but for those of threads that run already."""
    gc.collect()  # what other tests left would say here that it goes
    others = set(threading.enumerate()) - {threading.current_thread()}

    def records() -> list[logging.LogRecord]:
        of_others = {thread.ident for thread in others if thread.is_alive()}
        return [each for each in caplog.records if each.name.startswith("flightlog") and each.thread not in of_others]

    return records
