"""What `make delay` measures: how late messages come that fall due evenly, and a store that only waits.

A message with a delay level is due its level's delay after it was put. A timer is due at the first whole second at or
after the time that it asks for: that is RocketMQ's precision, and ours. Each is late from then on until it can be read,
by another process, too: under sync flush that takes the sync of its delivery.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from flightlog.engine.message_store import MessageStore, open_store
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import UsageError
from flightlog.store.format.property_names import TIMER_DELIVER_MS
from flightlog.store.message import Message
from flightlog.store.settings import FlushMode, StoreSettings
from flightlog.store.state.progress import read_progress

LEVEL, TIMER, NOTHING = "level", "timer", "nothing"
TOPIC = "bench"
BODY_SIZE = 100
NUMBER_SIZE = 8
TICKS_A_SECOND = 100
"""Puts of many a second: as evenly as a thread is woken."""
LEVELS = "1s 2h"
DELAY_MS = 1000
FAR_MS = 7_200_000
"""As far ahead is what an idle store waits for."""
PRECISION_MS = 1000
LIMIT_S = 120.0
"""How long deliveries may take after the last one is due; beyond it, the figure would mean nothing."""
LOOK_INTERVAL_S = 0.002
SETTLE_S = 2.0
"""How long a store takes for its last rounds of flushing."""
PERCENTILES = 50, 90, 99, 99.9, 100


def percentile_name(percentile: float) -> str:
    """100 -> 'max'."""
    return f"p{percentile:g}" if percentile < 100 else "max"


@dataclass(frozen=True)
class Lateness:
    """Deliveries of one kind, at one rate, in one flush mode."""

    kind: str
    rate: int
    """Messages that are put, and fall due, a second."""
    mode: str
    messages: int
    put_seconds: float
    """How long the puts took: more than was asked for where the machine could not keep up."""
    late_ms: np.ndarray
    """Of each message, in the order of delivery."""
    cpu_seconds: float
    """Of the whole process, puts included, until the last delivery."""

    def percentile(self, percentile: float) -> float:
        return float(np.percentile(self.late_ms, percentile))

    def as_object(self) -> dict[str, Any]:
        figures = {name: value for name, value in asdict(self).items() if name != "late_ms"}
        return figures | {f"{percentile_name(p)}_ms": self.percentile(p) for p in PERCENTILES}


@dataclass(frozen=True)
class Idle:
    """A store that nothing happens to."""

    kind: str
    """Of the messages that wait."""
    waiting: int
    seconds: float
    cpu_seconds: float
    context_switches: int
    """Each is a thread that woke, and slept again."""


class Watch:
    """Notes up to where the log could be read, and when. Use as a context manager around the work."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = [(0, 0)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_until_stopped, name="bench-watch")

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _look_until_stopped(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stop.wait(LOOK_INTERVAL_S)  # then one more look: nothing is left out
            progress = read_progress(RealDisk(), self._folder)
            if progress is not None and progress.visible > self._seen[-1][0]:
                self._seen.append((progress.visible, time.time_ns() // 1_000_000))

    def times_ms(self, ends: np.ndarray) -> np.ndarray:
        """When records that end there were first seen to be readable."""
        positions, times_ms = np.array(self._seen, np.int64).T
        found: np.ndarray = times_ms[np.searchsorted(positions, ends)]
        return found


def measure(folder: Path, kind: str, rate: int, seconds: float, mode: FlushMode) -> Lateness:
    """Put for so many seconds, and wait until all of it is delivered."""
    os.sync()  # what others have written would be written in the midst of it
    settings = StoreSettings(delay_levels=LEVELS, flush_mode=mode, segment_size=256 << 20, key_index=False)
    count = max(int(rate * seconds), 1)
    with open_store(folder, settings) as store, Watch(folder) as watch:
        cpu_s, began_s = time.process_time(), time.perf_counter()
        due_ms = _put_evenly(store, kind, rate, count)
        put_seconds = time.perf_counter() - began_s
        _await_deliveries(store, count)
        cpu_s = time.process_time() - cpu_s
    with open_store(folder, settings) as store:
        late_ms = _late_ms(store, watch, due_ms)
    return Lateness(kind, rate, mode.name.lower(), count, put_seconds, late_ms, cpu_s)


def _put_evenly(store: MessageStore, kind: str, rate: int, count: int) -> np.ndarray:
    """Put so many messages; returns when each of them is due."""
    each, due_ms = rate // TICKS_A_SECOND, np.zeros(count, np.int64)
    began_s, done = time.perf_counter(), 0
    while done < count:
        numbers = range(done, min(done + each, count))
        if kind == LEVEL:
            results = store.put_many([_message(number, delay_level=1) for number in numbers])
            due_ms[done : numbers.stop] = [result.store_timestamp_ms + DELAY_MS for result in results]
        else:
            at_ms = time.time_ns() // 1_000_000 + DELAY_MS
            wanted = {TIMER_DELIVER_MS: str(at_ms)}
            store.put_many([_message(number, properties=wanted) for number in numbers])
            due_ms[done : numbers.stop] = -(-at_ms // PRECISION_MS) * PRECISION_MS
        done = numbers.stop
        time.sleep(max(began_s + done / rate - time.perf_counter(), 0))
    return due_ms


def _message(number: int, **asked: Any) -> Message:
    return Message(TOPIC, number.to_bytes(NUMBER_SIZE, "big") + bytes(BODY_SIZE - NUMBER_SIZE), **asked)


def _await_deliveries(store: MessageStore, count: int) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while (delivered := _delivered(store)) < count:
        if time.monotonic() > deadline_s:
            raise UsageError(
                f"{count - delivered:,} messages of {count:,} are not delivered after {LIMIT_S:g} s: try a lower --rate"
            )
        time.sleep(0.05)


def _delivered(store: MessageStore) -> int:
    found = store.statistics()
    return sum(level.delivered for level in found.delays) + (found.timers.delivered if found.timers else 0)


def _late_ms(store: MessageStore, watch: Watch, due_ms: np.ndarray) -> np.ndarray:
    """Of each message, in the order of delivery. Raises AssertionError if not each came, once, and none early."""
    found = [
        (int.from_bytes(message.body[:NUMBER_SIZE], "big"), message.physical_offset + message.size)
        for message in store.read(TOPIC)
    ]
    numbers, ends = np.array(found, np.int64).reshape(-1, 2).T
    if not np.array_equal(np.sort(numbers), np.arange(len(due_ms))):
        raise AssertionError(f"{len(due_ms)} messages were put, {len(numbers)} delivered: expected each of them, once")
    late_ms: np.ndarray = watch.times_ms(ends) - due_ms[numbers]
    if late_ms.min() < 0:
        raise AssertionError(f"a message came {-late_ms.min()} ms early")
    return late_ms


def measure_idle(folder: Path, kind: str, waiting: int, seconds: float, settle_s: float = SETTLE_S) -> Idle:
    """What the process takes while a store is open, and all that waits is due in two hours."""
    with open_store(folder, StoreSettings.small(delay_levels=LEVELS)) as store:
        asked: dict[str, Any] = {"delay_level": 2}
        if kind == TIMER:
            asked = {"properties": {TIMER_DELIVER_MS: str(time.time_ns() // 1_000_000 + FAR_MS)}}
        store.put_many([_message(number, **asked) for number in range(waiting)])
        store.flush()
        time.sleep(settle_s)
        before, cpu_s = _context_switches(), time.process_time()
        time.sleep(seconds)
        return Idle(kind, waiting, seconds, time.process_time() - cpu_s, _context_switches() - before)


def _context_switches() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw + usage.ru_nivcsw
