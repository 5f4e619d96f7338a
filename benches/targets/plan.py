"""What has to be seen, as figures: who is measured, against whom, and what the ratio has to come to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flightlog.tools.bench.cases.file_workloads import PLAIN, PLAIN_COLD, READ_COLD, SEALS, VERIFY
from flightlog.tools.bench.cases.rocketmq_cases import RIVALS
from flightlog.tools.bench.loads.load import Load
from flightlog.tools.bench.rocketmq import MAPPED, POOL
from flightlog.tools.bench.versus.load_plan import BATCH, ROCKETMQ_BATCH, ROWS, peer_loads
from flightlog.tools.bench.writers import FRESH_PAGES, MEMCPY, OWN, PURE, RAW_LOOP

KB = 1024
SMALL = 100
RATE = 200_000
MOST_THREADS = 64
PRODUCERS = (2, 4, 8)
NO_LOSS = 0.97
"""As fast as without: rounds of the very same thing differ by more than the rest."""

BY_SIZE, BY_SYNC_SIZE, BY_TIME = "size", "sync size", "time"


@dataclass(frozen=True)
class WriterFigure:
    """How many times as fast as the fastest of its rivals a load is, round by round."""

    group: str
    text: str
    target: float
    own: Load
    rivals: tuple[Load, ...]
    returned: bool = False
    """Whether its clock stops when the last call has returned; else when everything is in queue and key index."""

    @property
    def needs_rocketmq(self) -> bool:
        return any(load.writer in (MAPPED, POOL) for load in self.rivals)


@dataclass(frozen=True)
class Contest:
    """Figures whose loads take turns, and what tells how much each of them writes."""

    fill: str
    figures: tuple[WriterFigure, ...]

    def loads(self) -> list[Load]:
        return list(dict.fromkeys(load for figure in self.figures for load in (*figure.rivals, figure.own)))


@dataclass(frozen=True)
class CaseFigure:
    """The same for cases of the subjects `read`, `verify`, `recover`."""

    group: str
    text: str
    target: float
    own: str
    rivals: tuple[str, ...]

    @property
    def needs_rocketmq(self) -> bool:
        return any(name in RIVALS.values() for name in self.rivals)


def writer_contests(peers: Iterable[str], groups: Sequence[str], sync_filled: int) -> list[Contest]:
    """Those of the groups, in the order in which they are measured. `sync_filled` messages are in a store before puts
    wait for each sync, whether one thread's or those of many."""
    contests = [
        *(Contest(BY_SIZE, _puts(size)) for size in (KB, SMALL)),
        Contest(BY_SIZE, tuple(_producers(KB))),
        Contest(BY_SIZE, tuple(_producers(SMALL))),
        Contest(BY_SYNC_SIZE, _sync(sync_filled)),
        Contest(BY_SYNC_SIZE, (_sync_threads(sync_filled),)),
        *(Contest(BY_TIME, _peers(peers, sync, size)) for sync in (False, True) for size in (KB, SMALL)),
    ]
    chosen = [Contest(c.fill, tuple(f for f in c.figures if f.group in groups)) for c in contests]
    return [contest for contest in chosen if contest.figures]


def _puts(size: int) -> tuple[WriterFigure, ...]:
    put, batch, pure = Load(OWN, False, size), Load(OWN, False, size, BATCH), Load(PURE, False, size)
    columns = Load(OWN, False, size, ROWS, columns=True)
    rocketmq = Load(MAPPED, False, size), Load(POOL, False, size)
    rocketmq_batch = Load(MAPPED, False, size, ROCKETMQ_BATCH), Load(POOL, False, size, ROCKETMQ_BATCH)
    limit = (Load(MEMCPY, False, size, BATCH),)
    name, is_large = f"{size:,} B", size == KB
    found = [
        WriterFigure("put", f"put, {name}, against RocketMQ", 4 if is_large else 7, put, rocketmq),
        WriterFigure(
            "batches",
            f"put_many({BATCH}), {name}, against RocketMQ's batch({ROCKETMQ_BATCH})",
            *(3 if is_large else 5, batch, rocketmq_batch),
        ),
    ]
    if is_large:
        found += [
            WriterFigure("columns", f"columns, {name}, append only, against memcpy", 0.85, columns, limit, True),
            WriterFigure("columns", f"columns, {name}, drained, against memcpy", 0.6, columns, limit),
            WriterFigure(
                "columns",
                f"columns, {name}, append only, against memcpy into fresh pages",
                *(0.9, columns, (Load(FRESH_PAGES, False, size, BATCH),), True),
            ),
            WriterFigure("pure", f"the pure reference, put, {name}, against RocketMQ", 1, pure, rocketmq),
        ]
    return tuple(found)


def _producers(size: int) -> Iterable[WriterFigure]:
    one = Load(OWN, False, size)
    for count in PRODUCERS:
        text = f"{count} producer threads, {size:,} B, against one"
        yield WriterFigure("threads", text, NO_LOSS, Load(OWN, False, size, threads=count), (one,))


def _sync(filled: int) -> tuple[WriterFigure, ...]:
    own, raw, rocketmq = (Load(writer, True, KB, filled=filled) for writer in (OWN, RAW_LOOP, MAPPED))
    text = f"sync put, {KB:,} B, 1 thread, against"
    return (
        WriterFigure("sync", f"{text} the raw loop", 0.95, own, (raw,)),
        WriterFigure("sync", f"{text} RocketMQ", 8, own, (rocketmq,)),
    )


def _sync_threads(filled: int) -> WriterFigure:
    own, rocketmq = (Load(writer, True, KB, threads=MOST_THREADS, filled=filled) for writer in (OWN, MAPPED))
    text = f"sync put, {KB:,} B, {MOST_THREADS} threads, against RocketMQ"
    return WriterFigure("sync-threads", text, 1.5, own, (rocketmq,))


def _peers(peers: Iterable[str], sync: bool, size: int) -> tuple[WriterFigure, ...]:
    loads = [load for peer in peers for load in peer_loads(peer, sync, size, ())]
    found = []
    for batch in (1, BATCH):
        rivals = tuple(load for load in loads if load.batch == batch)
        if rivals:
            mode = f"{'sync' if sync else 'async'}, {size:,} B, {'batches' if batch > 1 else 'one by one'}"
            found.append(WriterFigure("peers", f"peers, {mode}", 1, Load(OWN, sync, size, batch), rivals))
    return tuple(found)


CASE_SUBJECTS: dict[str, tuple[CaseFigure, ...]] = {
    "read": (
        CaseFigure("read", "read, 1,024 B, against RocketMQ's read", 1, "read", (RIVALS["read"], RIVALS["read_batch"])),
        CaseFigure(
            "read",
            "read, every field looked at, against RocketMQ's read",
            *(1, "read, all fields", (RIVALS["read"], RIVALS["read_batch"])),
        ),
        CaseFigure(
            "read",
            "read_batch, 1,024 B, against RocketMQ's read",
            *(3, "read_batch", (RIVALS["read"], RIVALS["read_batch"])),
        ),
        CaseFigure("cold", "cold read, 1,024 B, against reading the plain file", 0.8, READ_COLD, (PLAIN_COLD,)),
    ),
    "verify": (
        CaseFigure("verify", "verify, seals alone, against reading", 0.6, SEALS, (PLAIN,)),
        CaseFigure("verify", "verify, the whole store, against reading", 0.6, VERIFY, (PLAIN,)),
    ),
    "recover": (CaseFigure("recovery", "recovery after a kill, against RocketMQ", 8, "recover", (RIVALS["recover"],)),),
}
GROUPS = (
    *("put", "batches", "columns", "pure", "paced", "threads", "sync", "sync-threads", "device", "peers"),
    *("read", "cold", "readers", "recovery", "verify", "query"),
)
