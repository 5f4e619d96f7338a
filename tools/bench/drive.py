"""Calls a writer: as fast as possible, or at a fixed rate; from one thread or from several.

At a fixed rate, latency counts from the moment when a call was due: a stall is charged to every call that waits behind
it (no coordinated omission). Waits are counted separately: the time from when a call was due, and the call before it
had returned, until it began. During a wait, another thread has the interpreter or the core.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .case import NONE

Put = Callable[[Any], object]
SPIN_NS = 200_000
"""Shorter waits poll the clock: a sleep would return too late."""
T = TypeVar("T")


class Times(NamedTuple):
    """Times of the calls (int64, ns), by thread; empty if they were not measured."""

    latencies_ns: np.ndarray = NONE
    waits_ns: np.ndarray = NONE
    """At a fixed rate: from when a call was due, and the one before had returned, until it began."""
    calls_ns: np.ndarray = NONE
    """At a fixed rate: from when a call began until it returned."""


def drive(puts: Sequence[Put], units: Sequence[Any], calls: int, *, rate: float | None, stamps: bool) -> Times:
    """Make `calls` calls with the units in turn, one thread a `put`; `rate` is in calls a second, all threads together.

    They are timed if `stamps` or a rate asks for it. The first exception of a thread is raised when all have ended.
    """
    shares = [calls // len(puts) + (i < calls % len(puts)) for i in range(len(puts))]
    pause_ns = 1e9 * len(puts) / rate if rate else 0.0

    def run(i: int) -> Times:
        mine = islice(cycle(_block(units, i, len(puts)) or units), shares[i])
        if rate:
            return _paced(puts[i], mine, shares[i], pause_ns, pause_ns * i / len(puts))
        if stamps:
            return Times(_stamped(puts[i], mine, shares[i]))
        put = puts[i]
        for unit in mine:
            put(unit)
        return Times()

    if len(puts) == 1:
        return run(0)
    found = in_threads([lambda i=i: run(i) for i in range(len(puts))])  # type: ignore[misc]
    return Times(*map(np.concatenate, zip(*found, strict=True)))


def _block(units: Sequence[Any], i: int, count: int) -> Sequence[Any]:
    """The i-th of `count` parts, of units that lie side by side in memory as in a single thread's: to fetch every
    eighth message of 1 KB from memory takes the CPU as long as all the rest of a put."""
    return units[i * len(units) // count : (i + 1) * len(units) // count]


def _untimed(count: int) -> np.ndarray:
    return np.full(count, -1, np.int64)  # with its pages: else every 512th call would be charged for a fault


def _stamped(put: Put, units: Iterator[Any], count: int) -> np.ndarray:
    latencies_ns = _untimed(count)
    now = time.perf_counter_ns
    for i, unit in enumerate(units):
        started_ns = now()
        put(unit)
        latencies_ns[i] = now() - started_ns
    return latencies_ns


def _paced(put: Put, units: Iterator[Any], count: int, pause_ns: float, delay_ns: float) -> Times:
    latencies_ns, waits_ns, calls_ns = _untimed(count), _untimed(count), _untimed(count)
    now = time.perf_counter_ns
    first_ns = free_ns = now() + delay_ns
    for i, unit in enumerate(units):
        due_ns = first_ns + i * pause_ns
        while (begun_ns := now()) < due_ns:
            if due_ns - begun_ns > SPIN_NS:
                time.sleep((due_ns - begun_ns - SPIN_NS) / 1e9)
        put(unit)
        waits_ns[i] = begun_ns - max(due_ns, free_ns)
        free_ns = now()
        calls_ns[i] = free_ns - begun_ns
        latencies_ns[i] = free_ns - due_ns
    return Times(latencies_ns, waits_ns, calls_ns)


def in_threads(works: Sequence[Callable[[], T]]) -> list[T]:
    """Run each function in its own thread; returns their results. Raises the first exception once all have ended."""
    with ThreadPoolExecutor(len(works), "bench") as pool:
        running = [pool.submit(work) for work in works]
    return [each.result() for each in running]


@contextmanager
def no_collection() -> Iterator[None]:
    """Turn the garbage collector off: it would traverse all prepared messages again and again, at the writer's expense.
    Enter it before the clock starts: it begins with a collection."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
