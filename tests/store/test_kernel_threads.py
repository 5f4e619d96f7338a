"""The kernel and its pure twin let other threads run while they work."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from flightlog.store import native
from flightlog.store.frame import FRAME_DTYPE, MAGIC_V1

HOST = bytes(8)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("work", ["walk", "crc", "encode", "walk_places", "gather", "encode_columns"])
def test_other_threads_run_during_long_work(work: str) -> None:
    """With a switch interval of minutes, only work that gives the GIL away lets this thread run in the midst of it."""
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
    spans: list[tuple[float, float]] = []
    ticks: list[float] = []

    def seen() -> bool:
        return any(begin < tick < end for begin, end in spans for tick in ticks)

    def run() -> None:
        for _ in range(30):
            if not seen():
                begin = time.perf_counter()
                jobs[work]()
                spans.append((begin, time.perf_counter()))

    before, thread = sys.getswitchinterval(), threading.Thread(target=run)
    sys.setswitchinterval(600)
    try:
        thread.start()
        while thread.is_alive():
            ticks.append(time.perf_counter())
            time.sleep(0.0002)
    finally:
        sys.setswitchinterval(before)
    assert seen()
