"""Calls a writer: as fast as it goes, or at a fixed rate; from one thread or from several.

At a fixed rate a call's latency counts from the moment when it was due. A writer that stalls is so charged for every
call that had to wait behind the stall, not only for the one that it stalled.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any

import numpy as np

Put = Callable[[Any], object]
SPIN_NS = 200_000
"""A wait shorter than that is spent looking at the clock: a sleep would come back too late."""
NONE = np.empty(0, np.int64)


def drive(puts: Sequence[Put], units: Sequence[Any], calls: int, *, rate: float | None, stamps: bool) -> np.ndarray:
    """Make `calls` calls with the units in turn, one thread a `put`; `rate` is in calls a second, all threads together.

    Returns the latencies (ns, int64), by thread; empty unless `stamps` or a rate asks for them. The first exception of
    a thread is raised when all have ended.
    """
    shares = [calls // len(puts) + (i < calls % len(puts)) for i in range(len(puts))]
    pause_ns = 1e9 * len(puts) / rate if rate else 0.0

    def run(i: int) -> np.ndarray:
        mine = islice(cycle(units[i :: len(puts)] or units), shares[i])
        if rate:
            return _paced(puts[i], mine, shares[i], pause_ns, pause_ns * i / len(puts))
        if stamps:
            return _stamped(puts[i], mine, shares[i])
        put = puts[i]
        for unit in mine:
            put(unit)
        return NONE

    return run(0) if len(puts) == 1 else _in_threads(run, len(puts))


def _stamped(put: Put, units: Iterator[Any], count: int) -> np.ndarray:
    latencies_ns = np.zeros(count, np.int64)
    now = time.perf_counter_ns
    for i, unit in enumerate(units):
        started_ns = now()
        put(unit)
        latencies_ns[i] = now() - started_ns
    return latencies_ns


def _paced(put: Put, units: Iterator[Any], count: int, pause_ns: float, delay_ns: float) -> np.ndarray:
    latencies_ns = np.zeros(count, np.int64)
    now = time.perf_counter_ns
    first_ns = now() + delay_ns
    for i, unit in enumerate(units):
        due_ns = first_ns + i * pause_ns
        while (ahead_ns := due_ns - now()) > 0:
            if ahead_ns > SPIN_NS:
                time.sleep((ahead_ns - SPIN_NS) / 1e9)
        put(unit)
        latencies_ns[i] = now() - due_ns
    return latencies_ns


def _in_threads(run: Callable[[int], np.ndarray], count: int) -> np.ndarray:
    found: list[np.ndarray] = [NONE] * count
    errors: list[BaseException] = []

    def one(i: int) -> None:
        try:
            found[i] = run(i)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=one, args=(i,), name=f"bench-{i}") for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return np.concatenate(found)


@contextmanager
def no_collection() -> Iterator[None]:
    """Python's collector looks at every prepared message again and again; that is no part of any writer. Enter it
    before the clock starts: it begins with a collection."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
