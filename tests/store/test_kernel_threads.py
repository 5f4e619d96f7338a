"""The kernel and its pure reference let other threads run while they work."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from flightlog.store import native
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_V1

HOST = bytes(8)
DEADLINE_S = 240
HELD_US, WORKED_US = 2000, 500
sleep_with_the_lock = ctypes.PyDLL(None).usleep
"""Unlike `time.sleep`, keeps the interpreter's lock."""


def _works_without_the_lock(thread: threading.Thread) -> bool:
    """The caller keeps the interpreter's lock meanwhile: a thread that waits for it takes no CPU time."""
    assert thread.ident is not None
    clock = time.pthread_getcpuclockid(thread.ident)
    before_s = time.clock_gettime(clock)
    sleep_with_the_lock(HELD_US)
    return time.clock_gettime(clock) - before_s > WORKED_US / 1e6


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("work", ["walk", "crc", "encode", "walk_places", "gather", "encode_columns"])
def test_other_threads_run_during_long_work(work: str) -> None:
    """With a switch interval of minutes a thread keeps the interpreter's lock until it gives it away: work that goes on
    while this thread has the lock does so without it. Tried again where the machine had no CPU left for both threads.
    """
    body = bytes(48 << 20)
    data, rows = bytearray(len(body) + 200), np.zeros(1, FRAME_DTYPE)

    def encode() -> int:
        return native.encode_record(
            data, 0, MAGIC_V1, 1, 2, 3, 0, 0, 5, HOST, 6, HOST, 7, 8, body, b"topic", b"properties"
        )

    size = encode()
    int64, int32 = np.array([0, size, len(body)], np.int64), np.zeros(1, np.int32)
    jobs: dict[str, Callable[[], object]] = {
        "walk": lambda: native.walk(data, 0, size, 0, True, rows),
        "crc": lambda: native.masked_crc32(data),
        "encode": encode,
        "walk_places": lambda: native.walk_places(data, int64[:1], int64[1:2], 0, True, rows),
        "gather": lambda: native.gather(body, int64[:1], int64[2:3], memoryview(data)[: len(body)]),
        "encode_columns": lambda: native.encode_columns(
            *(data, 0, MAGIC_V1, 0, 0, 0, HOST, HOST, b"topic", int32, int32, int64[:1], int64[:1]),
            *(body, int64[:1], int64[2:3], b"", int64[:1], int64[:1]),
        ),
    }
    done, proven, deadline_s = threading.Event(), False, time.monotonic() + DEADLINE_S

    def run() -> None:
        while not done.is_set():  # to the end of the looks: an ended thread has no clock
            jobs[work]()

    before, thread = sys.getswitchinterval(), threading.Thread(target=run)
    sys.setswitchinterval(600)
    try:
        thread.start()
        while not proven and time.monotonic() < deadline_s:
            proven = _works_without_the_lock(thread)
            time.sleep(0.0002)  # gives the lock away
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(before)
    assert proven
