"""The targets as figures: what is measured, against which rivals, and the ratio to reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from flightlog.tools.bench.case import FRESH_PAGES, MEMCPY, OWN, PLAIN, PLAIN_COLD, PURE, RAW_LOOP, Case
from flightlog.tools.bench.messages import BATCH
from flightlog.tools.bench.plan import ROCKETMQ_BATCH, ROWS, Peers, peer_cases, subject_cases
from flightlog.tools.bench.reads.files import SEALS, VERIFY
from flightlog.tools.bench.reads.reads import READ, READ_BATCH, READ_COLD, READ_FIELDS
from flightlog.tools.bench.reads.recover import RECOVER
from flightlog.tools.bench.rocketmq import READ_MANY, Rocketmq
from flightlog.tools.bench.writers import put_case

KB, SMALL = 1024, 100
MOST_THREADS = 64
PRODUCERS = (2, 4, 8)
NO_LOSS = 0.97
"""The target for "no slower than without": rounds of the same code differ by more than these 3 %."""
BY_SIZE, BY_SYNC_SIZE, BY_TIME, AS_PLANNED = "size", "sync size", "time", "as planned"
SCAN_TARGETS: dict[str, tuple[float, ...]] = {
    "sum": (1.3, 0.85, 0.5),
    "all": (1.2, 0.8, 0.4),
    "topics": (1.5,),
    "count": (1.5,),
    "write": (0.9,),
    **{f"subscribe {share} %": (target,) for share, target in ((1, 0.2), (10, 0.35), (30, 0.5))},
    **{f"pushed {share} %": (target,) for share, target in ((1, 0.2), (10, 0.35), (30, 0.5))},
    "window": (0.5,),
}
"""A query of `flightlog bench scan` -> the highest multiple of its rival's time, for each body size or for all."""
GROUPS = (
    *("put", "batches", "columns", "pure", "paced", "threads", "sync", "sync-threads", "device", "peers"),
    *("read", "cold", "readers", "recovery", "verify", "query", "scan"),
)
ON_REQUEST = ("scan",)
"""Groups that are measured only on request."""


@dataclass(frozen=True)
class Figure:
    """The speed of a case as a multiple of its fastest rival's, in each round."""

    group: str
    text: str
    target: float
    own: Case
    rivals: tuple[Case, ...]
    returned: bool = False
    """Whether the clock stops when the last call has returned; otherwise when everything is dispatched."""

    @property
    def needs_rocketmq(self) -> bool:
        return any(case.is_rocketmq for case in self.rivals)


@dataclass(frozen=True)
class Contest:
    """Figures whose cases run in the same rounds, and how much each case handles."""

    fill: str
    figures: tuple[Figure, ...]

    def cases(self) -> list[Case]:
        return list(dict.fromkeys(case for figure in self.figures for case in (*figure.rivals, figure.own)))


def contests(
    peers: Iterable[str], rocketmq: Rocketmq, groups: Sequence[str], sync_filled: int, reads: int, recovered: int
) -> list[Contest]:
    """The contests of the groups, in the order of measuring. Before sync puts, of one thread or many, a store has
    `sync_filled` messages; stores to read and to recover have `reads` and `recovered` messages."""
    found = [
        *(Contest(BY_SIZE, _puts(rocketmq, size)) for size in (KB, SMALL)),
        *(Contest(BY_SIZE, _producers(size)) for size in (KB, SMALL)),
        Contest(BY_SYNC_SIZE, _sync(rocketmq, sync_filled)),
        Contest(BY_SYNC_SIZE, (_sync_threads(rocketmq, sync_filled),)),
        *(Contest(BY_TIME, _peers(tuple(peers), sync, size)) for sync in (False, True) for size in (KB, SMALL)),
        *(Contest(AS_PLANNED, _reads(subject, rocketmq, reads)) for subject in (READ, VERIFY)),
        Contest(AS_PLANNED, _reads(RECOVER, rocketmq, recovered)),
    ]
    chosen = [Contest(c.fill, tuple(f for f in c.figures if f.group in groups)) for c in found]
    return [contest for contest in chosen if contest.figures]


def _puts(rocketmq: Rocketmq, size: int) -> tuple[Figure, ...]:
    put, batch, pure = (
        put_case(who, body_size=size, batch=count) for who, count in ((OWN, 1), (OWN, BATCH), (PURE, 1))
    )
    theirs, their_batches = (
        tuple(rocketmq.put_case(pool=pool, body_size=size, batch=count) for pool in (False, True))
        for count in (1, ROCKETMQ_BATCH)
    )
    columns = put_case(OWN, body_size=size, batch=ROWS, columns=True)
    limit, fresh = ((put_case(who, body_size=size, batch=BATCH),) for who in (MEMCPY, FRESH_PAGES))
    name, is_large = f"{size:,} B", size == KB
    batches = f"put_many({BATCH}), {name}, against RocketMQ's batch({ROCKETMQ_BATCH})"
    found = [
        Figure("put", f"put, {name}, against RocketMQ", 4 if is_large else 7, put, theirs),
        Figure("batches", batches, 3 if is_large else 5, batch, their_batches),
    ]
    if is_large:
        text = f"columns, {name}, append only, against memcpy"
        found += [
            Figure("columns", text, 0.85, columns, limit, True),
            Figure("columns", f"columns, {name}, drained, against memcpy", 0.6, columns, limit),
            Figure("columns", f"{text} into fresh pages", 0.9, columns, fresh, True),
            Figure("pure", f"the pure reference, put, {name}, against RocketMQ", 1, pure, theirs),
        ]
    return tuple(found)


def _producers(size: int) -> tuple[Figure, ...]:
    one = put_case(OWN, body_size=size)
    return tuple(
        Figure(
            "threads",
            f"{count} producer threads, {size:,} B, against one",
            NO_LOSS,
            replace(one, threads=count),
            (one,),
        )
        for count in PRODUCERS
    )


def _sync(rocketmq: Rocketmq, filled: int) -> tuple[Figure, ...]:
    own, raw = (put_case(who, sync=True, body_size=KB, filled=filled) for who in (OWN, RAW_LOOP))
    theirs = rocketmq.put_case(sync=True, body_size=KB, filled=filled)
    text = f"sync put, {KB:,} B, 1 thread, against"
    return (
        Figure("sync", f"{text} the raw loop", 0.95, own, (raw,)),
        Figure("sync", f"{text} RocketMQ", 8, own, (theirs,)),
    )


def _sync_threads(rocketmq: Rocketmq, filled: int) -> Figure:
    own = put_case(OWN, sync=True, body_size=KB, threads=MOST_THREADS, filled=filled)
    theirs = rocketmq.put_case(sync=True, body_size=KB, threads=MOST_THREADS, filled=filled)
    return Figure("sync-threads", f"sync put, {KB:,} B, {MOST_THREADS} threads, against RocketMQ", 1.5, own, (theirs,))


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
    """Contests of reading existing stores; without read_batch if pyarrow is not installed."""
    cases = subject_cases(subject, [KB], rocketmq, messages=count)
    own = {case.task: case for case in cases if case.who == OWN}
    theirs = {case.task: case for case in cases if case.is_rocketmq}
    plain = tuple(case for case in cases if case.who in (PLAIN, PLAIN_COLD))
    reads = tuple(theirs[task] for task in (READ, READ_MANY) if task in theirs)
    wanted: dict[str, tuple[str, str, float, tuple[Case, ...]]] = {
        READ: ("read", "read, 1,024 B, against RocketMQ's read", 1, reads),
        READ_FIELDS: ("read", "read, every field looked at, against RocketMQ's read", 1, reads),
        READ_BATCH: ("read", "read_batch, 1,024 B, against RocketMQ's read", 3, reads),
        READ_COLD: ("cold", "cold read, 1,024 B, against reading the plain file", 0.8, plain),
        SEALS: ("verify", "verify, seals alone, against reading", 0.6, plain),
        VERIFY: ("verify", "verify, the whole store, against reading", 0.6, plain),
        RECOVER: ("recovery", "recovery after a kill, against RocketMQ", 8, tuple(theirs.values())),
    }
    return tuple(
        Figure(group, text, target, own[task], rivals)
        for task, (group, text, target, rivals) in wanted.items()
        if task in own
    )
