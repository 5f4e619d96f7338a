"""The targets as figures: what is measured, against which rivals, and the ratio to reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from flightlog.benches import readers
from flightlog.benches.targets.device import device_case
from flightlog.benches.targets.lines import Line
from flightlog.tools.bench.case import (
    FRESH_PAGES,
    MEMCPY,
    NOTHING,
    OWN,
    PLAIN,
    PLAIN_COLD,
    RAW_LOOP,
    Case,
    Outcome,
)
from flightlog.tools.bench.machine.system_use import SPREAD_MAX, why_rounds_differ
from flightlog.tools.bench.messages import BATCH, record_size
from flightlog.tools.bench.plan import ROCKETMQ_BATCH, ROWS, Peers, peer_cases, subject_cases
from flightlog.tools.bench.reads.files import SEALS, VERIFY
from flightlog.tools.bench.reads.reads import QUERY, READ, READ_ALL, READ_BATCH, READ_COLD, READ_FIELDS
from flightlog.tools.bench.reads.recover import RECOVER
from flightlog.tools.bench.rocketmq import READ_MANY, Rocketmq
from flightlog.tools.bench.scan_run import BODY_SIZES
from flightlog.tools.bench.writers import put_case
from flightlog.tools.words import figure_text, size_text

KB, SMALL = 1024, 100
MOST_THREADS = 64
PRODUCERS = (2, 4, 8)
RATE = 200_000
QUERY_COUNT = 50_000
NO_LOSS = 0.97
"""The target for "no slower than without": rounds of the same code differ by more than these 3 %."""
BY_SIZE, BY_SYNC_SIZE, BY_TIME, AS_PLANNED = "size", "sync size", "time", "as planned"
SCAN_TARGETS: dict[str, tuple[float, ...]] = {
    "sum": (1.3, 0.7, 0.5),
    "all": (1.4, 0.95, 0.4),
    "topics": (1.5, 1.3, 1.5),
    "count": (1.5,),
    "queues": (0.2,),
    "write": (0.9,),
    "append": (0.9,),
    **{f"subscribe {share} %": (target,) for share, target in ((1, 0.2), (10, 0.35), (30, 0.5))},
    **{f"pushed {share} %": (target,) for share, target in ((1, 0.2), (10, 0.35), (30, 0.5))},
    "window": (0.5,),
}
"""A query of `flightlog bench scan` -> the highest multiple of its rival's time, for each body size or for all."""
GROUPS = (
    *("put", "batches", "columns", "paced", "threads", "sync", "sync-threads", "device", "peers"),
    *("read", "cold", "readers", "recovery", "verify", "query", "scan"),
)
By = Mapping[Case, Outcome]


def drained(outcome: Outcome) -> Sequence[float]:
    return [sample.each_s for sample in outcome.rounds]


def returned(outcome: Outcome) -> Sequence[float]:
    return [sample.put_s / sample.count for sample in outcome.rounds]


def percentile_us(name: str, percentile: float) -> Callable[[Outcome], Sequence[float]]:
    """`name`: of the times of a sample, such as `calls_ns`."""
    return lambda outcome: [float(np.percentile(getattr(each, name), percentile)) / 1e3 for each in outcome.rounds]


def whole(outcome: Outcome) -> Sequence[float]:
    return [sample.drained_s for sample in outcome.rounds]


def spread(outcome: Outcome) -> Sequence[float]:
    return [outcome.spread]


def figure_of(name: str) -> Callable[[Outcome], Sequence[float]]:
    return lambda outcome: [sample.figures[name] for sample in outcome.rounds]


@dataclass(frozen=True)
class Figure:
    """What a case comes to in each round: beside its fastest rival, or by itself if it has none."""

    group: str
    text: str
    target: float
    own: Case
    rivals: tuple[Case, ...] = ()
    of: Callable[[Outcome], Sequence[float]] = drained
    """One value a round; with rivals a time per message, until everything is dispatched or the last call returned."""
    unit: str = "x"
    at_most: bool = False
    """Whether the target is an upper limit; of rivals, a multiple of their time instead of their speed."""
    every: bool = False
    note: Callable[[By], str] | None = None
    beside: tuple[Case, ...] = ()
    """Cases that the note needs."""

    @property
    def needs_rocketmq(self) -> bool:
        return any(case.is_rocketmq for case in self.rivals)

    def line(self, outcomes: By) -> Line:
        if self.of is spread and len(outcomes[self.own].rounds) < 2:
            return self.missing("needs two rounds")
        values, note = tuple(self.of(outcomes[self.own])), self.note(outcomes) if self.note else ""
        if self.rivals:
            rivals = [self.of(outcomes[case]) for case in self.rivals]
            ratios = zip(values, map(min, *rivals) if len(rivals) > 1 else rivals[0], strict=True)
            values = tuple(own / best if self.at_most else best / own for own, best in ratios)
        if len(self.rivals) > 1 and not note:
            fastest = min(self.rivals, key=lambda case: median(self.of(outcomes[case])))
            note = f"the fastest of {len(self.rivals)} is {fastest.who}"
        return self._line(values, note)

    def missing(self, why: str) -> Line:
        """The line of a figure that was not measured."""
        return self._line((), why)

    def _line(self, values: tuple[float, ...], note: str) -> Line:
        return Line(self.group, self.text, self.target, values, self.unit, self.at_most, self.every, note)


@dataclass(frozen=True)
class Contest:
    """Figures whose cases run in the same rounds, and how much each case handles."""

    fill: str
    figures: tuple[Figure, ...]
    rounds: int | None = None
    """None: as many as the run has."""

    def cases(self) -> list[Case]:
        found = [case for figure in self.figures for case in (*figure.rivals, figure.own, *figure.beside)]
        return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Sizes:
    """The amounts to measure. Sizes in bytes."""

    size: int
    """Record bytes of one run."""
    sync_size: int
    """Record bytes of one run with a single thread of sync puts."""
    sync_fill_size: int
    """Record bytes in the store before such a run."""
    recovery_size: int
    device_step_size: int
    device_steps: int
    peer_s: float
    """Approximate duration of one run of a peer."""
    reader_s: float
    """Duration of each of the three parts of a readers round."""
    rounds: int
    scan_mib: int
    readers: int = 16

    @property
    def messages(self) -> int:
        """The number of messages whose records take `size` bytes."""
        return self.size // record_size(KB)


def contests(peers: Iterable[str], rocketmq: Rocketmq, groups: Sequence[str], sizes: Sizes) -> list[Contest]:
    """The contests of the groups, in the order of measuring."""
    record = record_size(KB)
    found = [
        *(Contest(BY_SIZE, _puts(rocketmq, size)) for size in (KB, SMALL)),
        *(Contest(BY_SIZE, _producers(size)) for size in (KB, SMALL)),
        Contest(BY_SYNC_SIZE, _sync(sizes.sync_fill_size // record)),
        Contest(BY_SYNC_SIZE, _sync_threads(rocketmq, sizes.sync_fill_size // record)),
        *(Contest(BY_TIME, _peers(tuple(peers), sync, size)) for sync in (False, True) for size in (KB, SMALL)),
        *(Contest(AS_PLANNED, _reads(subject, rocketmq, sizes.messages)) for subject in (READ, VERIFY)),
        Contest(AS_PLANNED, _reads(RECOVER, rocketmq, sizes.recovery_size // record)),
        _paced(),
        Contest(AS_PLANNED, _device(sizes), rounds=1),
        Contest(AS_PLANNED, _readers(sizes)),
        Contest(AS_PLANNED, _query(min(QUERY_COUNT, sizes.messages))),
    ]
    chosen = [replace(c, figures=tuple(f for f in c.figures if f.group in groups)) for c in found]
    return [contest for contest in chosen if contest.figures]


def _puts(rocketmq: Rocketmq, size: int) -> tuple[Figure, ...]:
    put, batch = (put_case(OWN, body_size=size, batch=count) for count in (1, BATCH))
    columns = put_case(OWN, body_size=size, batch=ROWS, columns=True)
    limit, fresh = ((put_case(who, body_size=size, batch=BATCH),) for who in (MEMCPY, FRESH_PAGES))
    name, is_large = f"{size:,} B", size == KB
    batches = f"put_many({BATCH}), {name}"
    found = [
        _beside_rocketmq("put", f"put, {name}", 3.5 if is_large else 5, put, rocketmq),
        _beside_rocketmq("batches", batches, 3 if is_large else 5, batch, rocketmq, ROCKETMQ_BATCH),
        Figure("batches", f"{batches}, returned, against put", 1.1 if is_large else 1.3, batch, (put,), returned),
        *(
            _spread(group, text, case)
            for group, text, case in (("put", f"put, {name}", put), ("batches", batches, batch))
        ),
    ]
    if is_large:
        text = f"columns, {name}, append only, against memcpy"
        found += [
            Figure("columns", text, 0.6, columns, limit, returned),
            Figure("columns", f"{text} into fresh pages, time", 1.1, columns, fresh, returned, at_most=True),
        ]
    return tuple(found)


def _spread(group: str, text: str, own: Case) -> Figure:
    def note(outcomes: By) -> str:
        return why_rounds_differ(outcomes[own])

    text = f"{text}, spread of its rounds"
    return Figure(group, text, SPREAD_MAX, own, of=spread, unit="", at_most=True, note=note)


def _beside_rocketmq(group: str, text: str, target: float, own: Case, rocketmq: Rocketmq, batch: int = 1) -> Figure:
    """Against RocketMQ's mapped mode; the note has its transient pool, whose puts do not survive its process."""
    mapped, pool = (rocketmq.put_case(pool=pool, body_size=own.body_size, batch=batch) for pool in (False, True))

    def note(outcomes: By) -> str:
        ratios = zip(drained(outcomes[own]), drained(outcomes[pool]), strict=True)
        times = figure_text(median(theirs / each for each, theirs in ratios))
        return f"{times}x its transient pool, which loses what its process had not committed; a put of this store stays"

    what = f"batch({batch})" if batch > 1 else "put"
    return Figure(
        group, f"{text}, against RocketMQ's {what}, mapped", target, own, (mapped,), note=note, beside=(pool,)
    )


def _producers(size: int) -> tuple[Figure, ...]:
    one = put_case(OWN, body_size=size)
    many = [(f"{count} producer threads, {size:,} B, against one", replace(one, threads=count)) for count in PRODUCERS]
    return tuple(Figure("threads", text, NO_LOSS, own, (one,)) for text, own in many)


def _sync(filled: int) -> tuple[Figure, ...]:
    own, raw = (put_case(who, sync=True, body_size=KB, filled=filled) for who in (OWN, RAW_LOOP))
    return (Figure("sync", f"sync put, {KB:,} B, 1 thread, against the raw loop", NO_LOSS, own, (raw,)),)


def _sync_threads(rocketmq: Rocketmq, filled: int) -> tuple[Figure, ...]:
    own = put_case(OWN, sync=True, body_size=KB, threads=MOST_THREADS, filled=filled)
    theirs = rocketmq.put_case(sync=True, body_size=KB, threads=MOST_THREADS, filled=filled)
    text = f"sync put, {KB:,} B, {MOST_THREADS} threads, against RocketMQ"
    return (Figure("sync-threads", text, 1.3, own, (theirs,)),)


def _peers(peers: tuple[str, ...], sync: bool, size: int) -> tuple[Figure, ...]:
    cases = peer_cases(Peers(peers), sync, size, ())
    found = []
    for batch in (1, BATCH):
        rivals = tuple(case for case in cases if case.batch == batch)
        if rivals:
            mode = f"{'sync' if sync else 'async'}, {size:,} B, {'batches' if batch > 1 else 'one by one'}"
            own = put_case(OWN, sync=sync, body_size=size, batch=batch)
            found.append(Figure("peers", f"peers, {mode}", 1, own, rivals))
    return tuple(found)


def _reads(subject: str, rocketmq: Rocketmq, count: int) -> tuple[Figure, ...]:
    """Figures of reading existing stores; without read_batch if pyarrow is not installed."""
    cases = subject_cases(subject, [KB], rocketmq, messages=count)
    own = {case.task: case for case in cases if case.who == OWN}
    theirs = {case.task: case for case in cases if case.is_rocketmq}
    plain = tuple(case for case in cases if case.who in (PLAIN, PLAIN_COLD))
    reads = tuple(theirs[task] for task in (READ, READ_MANY) if task in theirs)
    one_by_one = (own[READ],) if READ in own else ()
    wanted: dict[str, tuple[str, str, float, tuple[Case, ...]]] = {
        READ: ("read", "read, 1,024 B, against RocketMQ's read", 1, reads),
        READ_ALL: ("read", "read_all of four queues, 1,024 B, against one after another", 1, one_by_one),
        READ_FIELDS: ("read", "read, every field looked at, against RocketMQ's read", 1.1, reads),
        READ_BATCH: ("read", "read_batch, 1,024 B, against RocketMQ's read", 2.5, reads),
        READ_COLD: ("cold", "cold read, 1,024 B, against reading the plain file", 0.8, plain),
        SEALS: ("verify", "verify, seals alone, against reading", 0.6, plain),
        VERIFY: ("verify", "verify, the whole store, against reading", 0.5, plain),
        RECOVER: ("recovery", "recovery after a kill, against RocketMQ", 2, tuple(theirs.values())),
    }
    found = [
        Figure(group, text, target, own[task], rivals)
        for task, (group, text, target, rivals) in wanted.items()
        if task in own
    ]
    if RECOVER in own:
        text = f"recovery after a kill, {size_text(count * record_size(KB))} in memory"
        found.append(Figure("recovery", text, 1, own[RECOVER], of=whole, unit="s", at_most=True, every=True))
    return tuple(found)


def _paced() -> Contest:
    """Single puts at a fixed rate; the note has the same loop without a call."""
    own, nothing = (put_case(who, body_size=KB, rate=RATE) for who in (OWN, NOTHING))
    in_us: dict[str, Any] = {"unit": "µs", "at_most": True}
    found = []
    for percentile, target in ((99.0, 5.0), (99.9, 100.0)):

        def note(outcomes: By, percentile: float = percentile) -> str:
            waits = median(percentile_us("waits_ns", percentile)(outcomes[own]))
            floor = median(percentile_us("latencies_ns", percentile)(outcomes[nothing]))
            return (
                f"waits for the interpreter's lock or a core before a call, by themselves, {figure_text(waits)} µs; "
                f"the same loop with nothing to call, {figure_text(floor)} µs"
            )

        text = f"put at {RATE:,}/s, {KB:,} B"
        alone, due = (percentile_us(name, percentile) for name in ("calls_ns", "latencies_ns"))
        found += [
            Figure("paced", f"{text}, the call alone, p{percentile:g}", target, own, of=alone, **in_us),
            Figure(
                *("paced", f"{text}, from when it was due, p{percentile:g}", target, own),
                **{"of": due, "note": note, "beside": (nothing,), **in_us},
            ),
        ]
    return Contest(BY_SIZE, tuple(found))


def _device(sizes: Sizes) -> tuple[Figure, ...]:
    case = device_case(KB, sizes.device_step_size, sizes.device_steps)

    def ratios(outcome: Outcome) -> Sequence[float]:
        return [own / raw for own, raw in outcome.rounds[0].series if raw]

    def note(outcomes: By) -> str:
        if not ratios(outcomes[case]):
            return "this device does not tell what it writes"
        steps = zip(*outcomes[case].rounds[0].series, strict=True)
        own, raw = (" ".join(f"{value:.2f}" for value in values) for values in steps)
        return f"by {sizes.device_step_size / 1e6:g} MB of fill: this store {own}, the raw loop {raw}"

    text = f"device bytes per byte, sync puts, {KB:,} B, against the raw loop, at any fill"
    return (Figure("device", text, 1.1, case, of=ratios, at_most=True, every=True, note=note),)


def _readers(sizes: Sizes) -> tuple[Figure, ...]:
    """Threads and processes that read a backlog while its writer runs."""
    found = []
    for case in readers.cases(sizes.readers, KB, sizes.messages, sizes.reader_s):
        text = f"{case.who} beside a writer"
        share, pace = figure_of(readers.SHARE), figure_of(readers.PACE)
        found += [
            Figure("readers", f"{text}: the slowest, of its solo share", 0.5, case, of=share),
            Figure("readers", f"{text}: the writer, of its pace", 0.98, case, of=pace),
        ]
    return tuple(found)


def _query(count: int) -> tuple[Figure, ...]:
    """The latency of a query by key, from the page cache."""
    found = []
    for own in (case for case in subject_cases(QUERY, [KB], None, messages=count) if case.who == OWN):
        for p, target in ((50.0, 10.0), (99.0, 50.0)):
            text, of = f"key query, warm, p{p:g}", percentile_us("latencies_ns", p)
            found.append(Figure("query", text, target, own, of=of, unit="µs", at_most=True))
    return tuple(found)


def scan_figures(names: Mapping[str, str], cases: Sequence[Case]) -> list[Figure]:
    """Queries with Spark, as multiples of the time of their rivals; `names`: of a query, by its text."""
    found = []
    for own, rival in zip(cases[::2], cases[1::2], strict=True):
        targets = SCAN_TARGETS[names[own.task]]
        target = targets[BODY_SIZES.index(own.body_size) if len(targets) > 1 else 0]
        text = f"{own.task}, {own.body_size:,} B, against {rival.who}"
        found.append(Figure("scan", text, target, own, (rival,), at_most=True))
    return found
