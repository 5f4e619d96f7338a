"""The one model of the bench: a case, one run of it, and what its rounds came to.

Everything that is measured is a case: a put by some writer in some mode, a read, a recovery, a query through Spark. It
names who does what, prepares its work (which is not timed), and names the reference of the same run that it is held
against. `runner` runs cases round by round, `report` and `plot` tell their outcomes.
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
RAW_LOOP, MEMCPY, FRESH_PAGES, FILE, NOTHING = "raw loop", "memcpy", "fresh pages", "buffered file", "nothing"
PLAIN, PLAIN_COLD = "plain read", "plain read, cold"
REFERENCES = (MEMCPY, FRESH_PAGES, RAW_LOOP, FILE, NOTHING, PLAIN, PLAIN_COLD)
"""What no store can beat, or what promises less than one."""
PUT = "put"
PERCENTILES, WAIT_PERCENTILES = (50.0, 99.0, 99.9), (99.0, 99.9)
NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Sample:
    """One run of a case."""

    count: int
    """Messages."""
    drained_s: float
    """From the first call until everything was done: of puts, until the last message was in its queue and its index."""
    put_s: float
    """From the first call until the last one returned."""
    latencies_ns: np.ndarray = field(default_factory=lambda: NONE)
    """int64, one a call; empty unless they were asked for. With a rate: from the moment the call was due."""
    waits_ns: np.ndarray = field(default_factory=lambda: NONE)
    """int64, one a call, at a fixed rate: how much of its latency a call that was due waited for another thread."""
    calls_ns: np.ndarray = field(default_factory=lambda: NONE)
    """int64, one a call, at a fixed rate: how long the call itself took."""
    device_size: int | None = None
    """Bytes that went to the device in the meantime, whoever wrote them; None where it is not told."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Whatever else was measured, by a name that has its unit."""
    series: Sequence[Any] = ()
    """What is drawn of it: values in ascending order, or points."""

    @property
    def each_s(self) -> float:
        """Seconds a message."""
        return self.drained_s / self.count


Work = Callable[[bool], "Sample | np.ndarray | None"]
"""What is timed; called once, and told whether to time each call. Returns a Sample, the latencies of its calls (int64,
ns), or nothing where the time from call to return is all there is to tell."""
Prepare = Callable[["Case", Path], AbstractContextManager[Work]]
"""(case, folder) -> the work, ready to be timed. What it leaves in `folder` can be used again."""


@dataclass(frozen=True)
class Case:
    """Who does what, with which messages. Two cases are equal if they are the same task, however large their rounds."""

    who: str
    """This store, a reference or a peer."""
    task: str = PUT
    body_size: int = 1024
    """Bytes."""
    sync: bool = False
    """Whether a put returns only when its messages are durable."""
    batch: int = 1
    """Messages a call."""
    columns: bool = False
    """Whether a call takes arrays in place of messages."""
    threads: int = 1
    filled: int = 0
    """Messages that many threads put at once before the clock starts: what a sync costs may depend on how full a store
    is."""
    rate: int | None = None
    """Messages a second, evenly spaced (open loop); None: each thread puts as soon as the last put has returned."""
    kernel: str | None = None
    """"c" or "pure"; None for what uses neither."""
    prepare: Prepare = field(kw_only=True, compare=False, repr=False)
    against: str | None = field(default=None, kw_only=True, compare=False)
    """Who is its reference."""
    calls: int = field(default=1, kw_only=True, compare=False)
    """How many a round makes."""
    first_calls: int | None = field(default=None, kw_only=True, compare=False)
    """How many come before the clock; None: a few."""
    needs_disk: bool = field(default=False, kw_only=True, compare=False)
    """Whether it measures the disk, so that a file system in memory would give a figure that means nothing."""

    @property
    def mode(self) -> str:
        """What it does, in words."""
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
        """Messages of a round."""
        return self.calls * self.batch

    @property
    def record_size(self) -> int:
        """Bytes of one message as a record of the commit log."""
        return record_size(self.body_size)

    @property
    def size(self) -> int:
        """Bytes of records of a round."""
        return self.count * self.record_size

    @property
    def is_rocketmq(self) -> bool:
        return self.who in (MAPPED, POOL)

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that tell it from other cases."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.compare}

    def __str__(self) -> str:
        return f"{self.who}, {self.mode}, {self.body_size:,} B"


@dataclass
class Outcome:
    """A case and its rounds."""

    case: Case
    rounds: list[Sample] = field(default_factory=list)
    stamped: Sample | None = None
    """The round in which every call was timed on its own, which costs fast writers a part of their speed."""

    @property
    def per_message_s(self) -> float:
        """Median of the rounds, until everything was done."""
        return median(sample.each_s for sample in self.rounds)

    @property
    def returned_s(self) -> float:
        """Median of the rounds, a message, until the last call had returned."""
        return median(sample.put_s / sample.count for sample in self.rounds)

    @property
    def spread(self) -> float:
        """How far the slowest round is from the fastest, as a part of the median."""
        each = [sample.each_s for sample in self.rounds]
        return (max(each) - min(each)) / median(each)

    @property
    def device_bytes_per_byte(self) -> float | None:
        """Bytes that went to the device per byte of record; only for a writer that syncs."""
        found = [s.device_size / (s.count * self.case.record_size) for s in self.rounds if s.device_size is not None]
        return median(found) if found and self.case.sync else None

    @property
    def latencies_ns(self) -> list[np.ndarray]:
        """Of the calls: of the round that was for it, or of all rounds of a case that always times them."""
        samples = self.rounds if self.stamped is None else [self.stamped]
        return [sample.latencies_ns for sample in samples if len(sample.latencies_ns)]

    def latency_ns(self, percentile: float) -> float:
        """Of one call; NaN if none was timed."""
        return _percentile(self.latencies_ns, percentile)

    def wait_ns(self, percentile: float) -> float:
        """Of one call, for another thread; NaN without a rate."""
        stamped = self.stamped
        return _percentile([] if stamped is None or not len(stamped.waits_ns) else [stamped.waits_ns], percentile)

    def part_of(self, reference: Outcome) -> float:
        """How fast it is beside its reference, message for message, within each round: 1.0 is as fast."""
        return median(theirs.each_s / own.each_s for own, theirs in zip(self.rounds, reference.rounds, strict=False))

    def figure(self, name: str) -> float:
        """Median of the rounds that could tell it; NaN if none could."""
        found = [sample.figures[name] for sample in self.rounds if name in sample.figures]
        return median(found) if found else float("nan")


def _percentile(each_ns: Sequence[np.ndarray], percentile: float) -> float:
    return median(float(np.percentile(ns, percentile)) for ns in each_ns) if each_ns else float("nan")
