"""One way to write messages, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

import numpy as np

from .drive import NONE

PERCENTILES = (50.0, 99.0, 99.9)
WAIT_PERCENTILES = (99.0, 99.9)


@dataclass(frozen=True)
class Load:
    """Who writes which messages, how."""

    writer: str
    """A name of `writers`."""
    sync: bool
    """Whether a call returns only when its messages are durable."""
    body_size: int
    """Bytes."""
    batch: int = 1
    """Messages a call."""
    columns: bool = False
    """Whether a call takes arrays in place of messages."""
    threads: int = 1
    filled: int = 0
    """Messages that are put by many threads at once before the clock starts: what a sync costs may depend on how full
    a store is."""
    rate: int | None = None
    """Messages a second, evenly spaced (open loop); None: each thread puts as soon as the last put has returned."""

    @property
    def mode(self) -> str:
        """In words, without the writer."""
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

    def __str__(self) -> str:
        return f"{self.writer}, {self.mode}, {self.body_size:,} B"


@dataclass(frozen=True)
class Round:
    """One run of a load."""

    count: int
    """Messages."""
    drained_s: float
    """From the first put until the last message was in its queue and its index."""
    put_s: float
    """From the first put until the last one returned."""
    latencies_ns: np.ndarray
    """int64, one a call; empty unless they were asked for. With a rate: from the moment the call was due."""
    waits_ns: np.ndarray = field(default_factory=lambda: NONE)
    """int64, one a call, at a fixed rate: how much of its latency a call that was due waited for another thread."""
    calls_ns: np.ndarray = field(default_factory=lambda: NONE)
    """int64, one a call, at a fixed rate: how long the call itself took."""
    device_size: int | None = None
    """Bytes that went to the device in the meantime, whoever wrote them; None where it is not told."""


@dataclass
class Outcome:
    """A load and its rounds."""

    load: Load
    record_size: int
    """Bytes of one message as a record of the commit log."""
    rounds: list[Round] = field(default_factory=list)
    stamped: Round | None = None
    """The round in which every call was timed on its own, which costs fast writers a part of their speed."""

    @property
    def per_message_s(self) -> float:
        """Median of the rounds, until drained."""
        return median(round_.drained_s / round_.count for round_ in self.rounds)

    @property
    def spread(self) -> float:
        """How far the slowest round is from the fastest, as a part of the median."""
        each = [round_.drained_s / round_.count for round_ in self.rounds]
        return (max(each) - min(each)) / median(each)

    @property
    def device_bytes_per_byte(self) -> float | None:
        """Bytes that went to the device per byte of record; only for a writer that syncs."""
        found = [r.device_size / (r.count * self.record_size) for r in self.rounds if r.device_size is not None]
        return median(found) if found and self.load.sync else None

    @property
    def returned_s(self) -> float:
        """Median of the rounds, a message, until the last put had returned."""
        return median(round_.put_s / round_.count for round_ in self.rounds)

    def latency_ns(self, percentile: float) -> float:
        """Of one call; NaN if none was timed."""
        if self.stamped is None or not len(self.stamped.latencies_ns):
            return float("nan")
        return float(np.percentile(self.stamped.latencies_ns, percentile))

    def wait_ns(self, percentile: float) -> float:
        """Of one call, for another thread; NaN without a rate."""
        if self.stamped is None or not len(self.stamped.waits_ns):
            return float("nan")
        return float(np.percentile(self.stamped.waits_ns, percentile))
