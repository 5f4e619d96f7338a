"""The lateness of delayed messages that become due evenly, and the cost of an idle store with pending ones.

A message with a delay level is due when its level's delay has passed since the put. A timer is due at the first whole
second at or after its requested time; that is the precision of RocketMQ, and ours. Lateness is the time from then until
the message can be read, also by another process: under sync flush, after the sync of its delivery.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flightlog.benches import pending as many_timers
from flightlog.benches.loads import await_all, body_of, load, number_of, percentiles
from flightlog.engine.message_store import MessageStore, open_store
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import UsageError
from flightlog.store.format.property_names import TIMER_DELIVER_MS
from flightlog.store.message import Message
from flightlog.store.settings import FlushMode, StoreSettings
from flightlog.store.state.progress import read_progress
from flightlog.tools.bench.case import Case, Sample
from flightlog.tools.bench.plot import curves

LEVEL, TIMER, NOTHING = "levels", "timers", "nothing"
TOPIC = "bench"
RATES = 1_000, 10_000
"""Messages that become due a second."""
TICKS_A_SECOND = 100
"""Batch puts a second: as evenly as a thread can be woken."""
LEVELS = "1s 2h"
DELAY_MS, FAR_MS, PRECISION_MS = 1000, 7_200_000, 1000
LOOK_INTERVAL_S = 0.002
SETTLE_S = 2.0
"""Time for the last flushes of a store to finish."""
WAITING = 1000
"""Pending messages of an idle store."""
PERCENTILES = 50, 90, 99, 99.9, 100
TITLES = {
    LEVEL: "Delay levels: how late messages can be read, ms; the target of p99 is 150",
    TIMER: "Timers: how late, from the whole second on in which they are due, ms",
}
IDLE = "An idle store"


def cases(rates: Sequence[int], seconds: float, idle_s: float, pending: int | None = None) -> dict[str, list[Case]]:
    """The cases of each part. Raises UsageError for a rate that cannot be put evenly."""
    for rate in rates:
        if rate < TICKS_A_SECOND:
            raise UsageError(f"--rate {rate}: expected at least {TICKS_A_SECOND}")
    found = {kind: [_case(kind, rate, seconds, mode) for rate in rates for mode in FlushMode] for kind in TITLES}
    waiting = {NOTHING: 0, LEVEL: WAITING, TIMER: WAITING}
    found["idle"] = [
        load(f"{count:,} {kind} wait", IDLE, partial(measure_idle, kind, count, idle_s))
        for kind, count in waiting.items()
    ]
    if pending is not None:
        found["pending"] = many_timers.cases(pending)
    return found


def _case(kind: str, rate: int, seconds: float, mode: FlushMode) -> Case:
    who = f"{rate:,} due a second, {mode.name.lower()} flush"
    return load(who, TITLES[kind], lambda folder: measure(folder, kind, rate, seconds, mode), curves("ms late"))


class Watch:
    """Context manager: records up to which offset the log could be read, and when."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = [(0, 0)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_until_stopped, name="bench-watch")

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look_until_stopped(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stop.wait(LOOK_INTERVAL_S)  # one more check after the stop
            progress = read_progress(RealDisk(), self._folder)
            if progress is not None and progress.visible > self._seen[-1][0]:
                self._seen.append((progress.visible, time.time_ns() // 1_000_000))

    def times_ms(self, ends: np.ndarray) -> np.ndarray:
        """When records that end at these offsets were first readable."""
        positions, times_ms = np.array(self._seen, np.int64).T
        found: np.ndarray = times_ms[np.searchsorted(positions, ends)]
        return found


def measure(folder: Path, kind: str, rate: int, seconds: float, mode: FlushMode) -> Sample:
    """Put for a number of seconds, and wait until everything is delivered."""
    os.sync()  # otherwise data of earlier cases would be written during this one
    settings = StoreSettings(delay_levels=LEVELS, flush_mode=mode, segment_size=256 << 20, key_index=False)
    count = max(int(rate * seconds), 1)
    with open_store(folder, settings) as store, Watch(folder) as watch:
        _put_far(store, kind, 1)  # makes the files, for which a busy disk may take longer than the delay
        cpu_s, began_s = time.process_time(), time.perf_counter()
        due_ms = put_evenly(store, kind, rate, count)
        put_s = time.perf_counter() - began_s
        await_all(lambda: _delivered(store) >= count, lambda: f"{count - _delivered(store):,} are not delivered")
        cpu_s, whole_s = time.process_time() - cpu_s, time.perf_counter() - began_s
    with open_store(folder, settings) as store:
        late_ms = np.sort(_late_ms(store, watch, due_ms))
    share = 100 * cpu_s / (put_s + DELAY_MS / 1000)
    figures = {"messages": count, "put in s": put_s, **percentiles(late_ms, "ms", PERCENTILES), "% CPU of it": share}
    return Sample(count, whole_s, put_s, figures=figures, series=late_ms.tolist())


def _put_far(store: MessageStore, kind: str, count: int) -> None:
    """Put messages that are due in two hours."""
    wanted: dict[str, Any] = {"delay_level": 2}
    if kind == TIMER:
        wanted = {"properties": {TIMER_DELIVER_MS: str(time.time_ns() // 1_000_000 + FAR_MS)}}
    store.put_many([Message(TOPIC, body_of(number), **wanted) for number in range(count)])


def put_evenly(store: MessageStore, kind: str, rate: int, count: int) -> np.ndarray:
    """Put `count` messages evenly. Returns the due time of each."""
    each, due_ms = rate // TICKS_A_SECOND, np.zeros(count, np.int64)
    began_s, done = time.perf_counter(), 0
    while done < count:
        numbers = range(done, min(done + each, count))
        if kind == LEVEL:
            results = store.put_many([Message(TOPIC, body_of(number), delay_level=1) for number in numbers])
            due_ms[done : numbers.stop] = [result.store_timestamp_ms + DELAY_MS for result in results]
        else:
            at_ms = time.time_ns() // 1_000_000 + DELAY_MS
            wanted = {TIMER_DELIVER_MS: str(at_ms)}
            store.put_many([Message(TOPIC, body_of(number), properties=wanted) for number in numbers])
            due_ms[done : numbers.stop] = -(-at_ms // PRECISION_MS) * PRECISION_MS
        done = numbers.stop
        time.sleep(max(began_s + done / rate - time.perf_counter(), 0))
    return due_ms


def _delivered(store: MessageStore) -> int:
    found = store.statistics()
    return sum(level.delivered for level in found.delays) + (found.timers.delivered if found.timers else 0)


def _late_ms(store: MessageStore, watch: Watch, due_ms: np.ndarray) -> np.ndarray:
    """Lateness of each message, in order of delivery. Raises AssertionError unless each came once and not early."""
    found = [(number_of(message.body), message.physical_offset + message.size) for message in store.read(TOPIC)]
    numbers, ends = np.array(found, np.int64).reshape(-1, 2).T
    if not np.array_equal(np.sort(numbers), np.arange(len(due_ms))):
        raise AssertionError(f"{len(due_ms)} messages were put, {len(numbers)} delivered: expected each of them, once")
    late_ms: np.ndarray = watch.times_ms(ends) - due_ms[numbers]
    if late_ms.min() < 0:
        raise AssertionError(f"a message came {-late_ms.min()} ms early")
    return late_ms


def measure_idle(kind: str, waiting: int, seconds: float, folder: Path, settle_s: float = SETTLE_S) -> Sample:
    """CPU and memory of a process with an open store whose pending messages are due in two hours."""
    with open_store(folder, StoreSettings.small(delay_levels=LEVELS)) as store:
        _put_far(store, kind, waiting)
        store.flush()
        time.sleep(settle_s)
        switches, cpu_s = _context_switches(), time.process_time()
        time.sleep(seconds)
        cpu_s, switches = time.process_time() - cpu_s, _context_switches() - switches
    figures = {"CPU, ms a second": 1e3 * cpu_s / seconds, "context switches a second": switches / seconds}
    return Sample(max(waiting, 1), seconds, seconds, figures=figures)


def _context_switches() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw + usage.ru_nivcsw
