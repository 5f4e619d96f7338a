"""Runs loads beside each other, round by round, so that what else the machine does hits all of them alike."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..cases.workloads import record_size
from ..loads.drive import drive, no_collection
from ..loads.load import Load, Outcome, Round
from ..loads.rows import make_rows
from ..machine import device
from ..machine.free_pages import touch_free_pages
from ..rocketmq import RocketmqProcess, is_rocketmq
from ..writers import opened
from ..writers.session import Session
from .trial import Entry, Trial, try_out

FIRST_MESSAGES = 256
"""Put into every fresh store before the clock starts, by the same call: the topic, its queues and the first segment are
there then, and so is what a store prepares for the next puts while nobody puts."""
FILL_THREADS = 64
"""Put the messages that a store is to be filled with."""
FREE_PAGES_MIN_SIZE, FREE_PAGES_MAX_SIZE = 64 << 20, 256 << 20
"""Bytes of memory that a round may need beside twice its records, for queues, index and pages ahead: the more, the more
it writes."""
FIRST_UNITS_MAX = 1 << 16
"""So many different ones are put before the clock starts, again and again where it is to be more."""


class Contest:
    """Everybody's rounds in one folder."""

    def __init__(self, folder: Path, rocketmq: RocketmqProcess | None = None) -> None:
        self._folder = folder
        self._rocketmq = rocketmq

    def try_out(self, load: Load) -> Trial:
        """What a round of the load takes; also warms the writer up."""
        return try_out(load, lambda calls: self.run(load, calls))

    def run(self, load: Load, calls: int, *, stamps: bool = False, first: int | None = None) -> Round:
        """One round in a folder of its own, which is gone afterwards, `first` calls before the clock starts."""
        first = first_calls(load) if first is None else first
        place = self._folder / "round"
        place.mkdir()
        try:
            if is_rocketmq(load):
                assert self._rocketmq is not None
                touch_free_pages(_memory_size(load, first + calls))
                return self._rocketmq.run(place, load, calls, first, first_threads(load), stamps=stamps)
            return _run(place, load, calls, first, stamps)
        finally:
            shutil.rmtree(place)

    def measure(
        self,
        entries: Sequence[Entry],
        rounds: int,
        done: Callable[[], None],
        *,
        stamped: bool = True,
        until_s: float = math.inf,
    ) -> list[Outcome]:
        """`rounds` rounds of all, fewer where the clock (`monotonic`) would be past `until_s` by the end, and if
        `stamped` one more in which every call is timed on its own; `done` is called after each run."""
        outcomes = [Outcome(entry.load, record_size(entry.load.body_size)) for entry in entries]
        for _ in range(rounds):
            started_s = time.monotonic()
            for entry, outcome in zip(entries, outcomes, strict=True):
                outcome.rounds.append(self.run(entry.load, entry.calls, first=entry.first_calls))
                done()
            now_s = time.monotonic()
            if now_s + (1 + stamped) * (now_s - started_s) > until_s:
                break
        for entry, outcome in zip(entries, outcomes, strict=True) if stamped else ():
            outcome.stamped = self.run(entry.load, entry.calls, stamps=True, first=entry.first_calls)
            done()
        return outcomes


def first_calls(load: Load) -> int:
    """How many calls a writer gets before the clock starts."""
    return -(-max(FIRST_MESSAGES, load.filled) // load.batch)


def first_threads(load: Load) -> int:
    return FILL_THREADS if load.filled else 1


def begin(session: Session, load: Load, calls: int | None = None) -> None:
    """Put the first messages, and wait until the writer is at rest."""
    calls, put = first_calls(load) if calls is None else calls, session.puts()[0]
    units = session.units(make_rows(load.body_size, min(calls * load.batch, FIRST_UNITS_MAX)))
    drive([put] * first_threads(load), units, calls, rate=None, stamps=False)
    session.settle()


def _run(place: Path, load: Load, calls: int, first: int, stamps: bool) -> Round:
    if not load.sync:
        # What earlier rounds left to write is not charged to this one. Before it opens: a page that was written back
        # faults at its next store, and the pages of memcpy are to be dirty.
        os.sync()
    with opened(place, load, (first + calls) * load.batch * record_size(load.body_size)) as session:
        begin(session, load, first)
        units = session.units(make_rows(load.body_size, calls * load.batch))
        rate = load.rate / load.batch if load.rate else None
        before = device.written_size(place)
        touch_free_pages(_memory_size(load, calls))
        with no_collection():
            started_s = time.perf_counter()
            times = drive(session.puts(), units, calls, rate=rate, stamps=stamps)
            put_s = time.perf_counter() - started_s
            session.drain()
            drained_s = time.perf_counter() - started_s
        after = device.written_size(place)
    size = None if before is None or after is None else after - before
    return Round(calls * load.batch, drained_s, put_s, *times, device_size=size)


def _memory_size(load: Load, calls: int) -> int:
    size = calls * load.batch * record_size(load.body_size)
    return 2 * size + min(FREE_PAGES_MIN_SIZE + size, FREE_PAGES_MAX_SIZE)
