"""The one model of the bench: a case, a sample (one round of it), and its outcome (all rounds).

Everything that is measured is a case: a put by some writer in some mode, a read, a recovery, a query through Spark, a
load on a server, a delivery. A case says who does what, prepares its work, which is not timed, names its reference in
the same run, and says what is reported of it. `runner` runs cases round by round; `report` and `plot` show their
outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from .messages import record_size

OWN, PURE = "flightlog", "flightlog, pure"
MAPPED, POOL = "RocketMQ", "RocketMQ, transient pool"
RAW_LOOP, MEMCPY, FRESH_PAGES, NOTHING = "raw loop", "memcpy", "fresh pages", "nothing"
PLAIN, PLAIN_COLD = "plain read", "plain read, cold"
REFERENCES = (MEMCPY, FRESH_PAGES, RAW_LOOP, NOTHING, PLAIN, PLAIN_COLD)
"""Limits that no store can beat."""
PUT = "put"
PERCENTILES, WAIT_PERCENTILES = (50.0, 99.0, 99.9), (99.0, 99.9)
NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Sample:
    """One round of a case."""

    count: int
    """Messages."""
    drained_s: float
    """From the first call until everything was done (s): of puts, until the last message was in queue and index."""
    put_s: float
    """From the first call until the last one returned (s)."""
    latencies_ns: np.ndarray = field(default_factory=lambda: NONE)
    """int64, one per call; empty if they were not measured. With a rate: from the moment when the call was due."""
    waits_ns: np.ndarray = field(default_factory=lambda: NONE)
    """int64, one per call, at a fixed rate: how long a due call waited for another thread."""
    calls_ns: np.ndarray = field(default_factory=lambda: NONE)
    """int64, one per call, at a fixed rate: the duration of the call itself."""
    device_size: int | None = None
    """Bytes written to the device meanwhile, by all processes; None if the device does not report them."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Other figures, by a name that contains the unit."""
    series: Sequence[Any] = ()
    """The data to plot: values in ascending order, or points."""

    @property
    def each_s(self) -> float:
        """Seconds per message."""
        return self.drained_s / self.count


Work = Callable[[bool], "Sample | np.ndarray | None"]
"""The timed function; called once, told whether to time each call. Returns a Sample, or latencies of the calls
(int64, ns), or None if only the time until it returns counts."""
Prepare = Callable[["Case", Path], AbstractContextManager[Work]]
"""(case, folder) -> the work, ready to be timed. Files that it leaves in `folder` are reused by later rounds."""
Draw = Callable[[Any, Mapping[str, Sequence[Any]]], None]
"""(axes, series by who) -> drawn."""


@dataclass(frozen=True)
class Case:
    """Who does what, with which messages. Cases are equal if their tasks are, whatever the size of their rounds."""

    who: str
    """This store, a reference or a peer."""
    task: str = PUT
    body_size: int = 1024
    """Bytes."""
    sync: bool = False
    """Whether a put returns only when its messages are durable."""
    batch: int = 1
    """Messages per call."""
    columns: bool = False
    """Whether a call takes arrays instead of messages."""
    threads: int = 1
    filled: int = 0
    """Messages that many threads put before the clock starts: the cost of a sync may depend on how full a store is."""
    rate: int | None = None
    """Messages per second, evenly spaced (open loop); None: each thread puts as soon as its last put has returned."""
    kernel: str | None = None
    """"c" or "pure"; None for writers that use neither."""
    prepare: Prepare = field(kw_only=True, compare=False, repr=False)
    against: str | None = field(default=None, kw_only=True, compare=False)
    """The name of its reference."""
    calls: int = field(default=1, kw_only=True, compare=False)
    """Calls per round."""
    first_calls: int | None = field(default=None, kw_only=True, compare=False)
    """Calls before the clock starts; None: a few."""
    needs_disk: bool = field(default=False, kw_only=True, compare=False)
    """Whether it measures the disk: on a file system in memory, its figure would mean nothing."""
    rival: tuple[str, str] | None = field(default=None, kw_only=True, compare=False)
    """Who and task of RocketMQ's case to compare it with, if RocketMQ takes part."""
    has_figures: bool = field(default=False, kw_only=True, compare=False)
    """Whether the figures of its samples are reported, in a table of its task, instead of its rate."""
    draw: Draw | None = field(default=None, kw_only=True, compare=False, repr=False)
    """How the series of all cases of its task are drawn in one panel; None: its rate and latencies are drawn."""

    @property
    def mode(self) -> str:
        """The task and its parameters, in words."""
        if self.task != PUT:
            return self.task
        words = ["sync" if self.sync else "async"]
        if self.columns:
            words.append(f"columns of {self.batch:,}")
        elif self.batch > 1:
            words.append(f"batches of {self.batch:,}")
        if self.threads > 1:
            words.append(f"{self.threads} threads")
        if self.filled:
            words.append(f"behind {self.filled:,} others")
        if self.rate is not None:
            words.append(f"{self.rate:,}/s")
        return ", ".join(words)

    @property
    def count(self) -> int:
        """Messages per round."""
        return self.calls * self.batch

    @property
    def record_size(self) -> int:
        """Bytes of one message as a record in the commit log."""
        return record_size(self.body_size)

    @property
    def size(self) -> int:
        """Bytes of records per round."""
        return self.count * self.record_size

    @property
    def table(self) -> str:
        """The title of its table."""
        if self.has_figures:
            return self.task
        return f"Bodies of {self.body_size:,} bytes (records of {self.record_size:,} bytes)"

    @property
    def is_rocketmq(self) -> bool:
        return self.who in (MAPPED, POOL)

    @property
    def identity(self) -> dict[str, Any]:
        """The fields by which cases are compared."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.compare}

    def __str__(self) -> str:
        return f"{self.who}, {self.mode}, {self.body_size:,} B"


@dataclass
class Outcome:
    """A case and its rounds."""

    case: Case
    rounds: list[Sample] = field(default_factory=list)
    stamped: Sample | None = None
    """A separate round that timed every call, which slows fast writers down."""

    @property
    def per_message_s(self) -> float:
        """Median over the rounds, until everything was done."""
        return median(sample.each_s for sample in self.rounds)

    @property
    def returned_s(self) -> float:
        """Seconds per message, median over the rounds, until the last call had returned."""
        return median(sample.put_s / sample.count for sample in self.rounds)

    @property
    def spread(self) -> float:
        """Slowest minus fastest round, as a fraction of the median."""
        each = [sample.each_s for sample in self.rounds]
        return (max(each) - min(each)) / median(each)

    @property
    def device_bytes_per_byte(self) -> float | None:
        """Bytes written to the device per byte of record; only for sync writers."""
        found = [s.device_size / (s.count * self.case.record_size) for s in self.rounds if s.device_size is not None]
        return median(found) if found and self.case.sync else None

    @property
    def latencies_ns(self) -> list[np.ndarray]:
        """Latencies by round: of the stamped round, or of all rounds of a case that always times its calls."""
        samples = self.rounds if self.stamped is None else [self.stamped]
        return [sample.latencies_ns for sample in samples if len(sample.latencies_ns)]

    def latency_ns(self, percentile: float) -> float:
        """Percentile of a call's latency; NaN if no call was timed."""
        return _percentile(self.latencies_ns, percentile)

    def wait_ns(self, percentile: float) -> float:
        """Percentile of a call's wait for another thread; NaN without a rate."""
        waits_ns = NONE if self.stamped is None else self.stamped.waits_ns
        return _percentile([waits_ns] if len(waits_ns) else [], percentile)

    def part_of(self, reference: Outcome) -> float:
        """Speed relative to its reference, per message, within each round; 1.0 is equally fast."""
        return median(theirs.each_s / own.each_s for own, theirs in zip(self.rounds, reference.rounds, strict=False))

    def figure(self, name: str) -> float:
        """Median over the rounds that have this figure; NaN if none has."""
        found = [sample.figures[name] for sample in self.rounds if name in sample.figures]
        return median(found) if found else float("nan")


def _percentile(each_ns: Sequence[np.ndarray], percentile: float) -> float:
    return median(float(np.percentile(ns, percentile)) for ns in each_ns) if each_ns else float("nan")
