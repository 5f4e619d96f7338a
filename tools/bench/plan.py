"""The cases of each run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...store import native
from ...store.errors import UsageError
from .case import FRESH_PAGES, MAPPED, MEMCPY, NOTHING, OWN, PLAIN, PLAIN_COLD, PURE, RAW_LOOP, Case, Prepare
from .messages import BATCH
from .reads.files import PLAIN_READ, SEALS, VERIFY, checking_seals, reading_plainly, verifying
from .reads.reads import (
    QUERY,
    READ,
    READ_ALL,
    READ_BATCH,
    READ_COLD,
    READ_FIELDS,
    asking,
    reading,
    reading_batches,
    reading_cold,
)
from .reads.recover import RECOVER, recovering
from .rocketmq import RIVALS, Rocketmq, check_store_jars
from .writers import check_peer, own_writers, peers_at_hand, put_case

BODY_SIZES = (100, 1024)
COUNTS = {100: 40_000, 1024: 20_000}
"""Messages of a store to read, by the size of their bodies."""
QUICK_PART = 20
ROWS = 8192
ROCKETMQ_BATCH = 32
"""RocketMQ's clients send far fewer at once by default; its own limit is in bytes."""
ONE_BY_ONE = ("diskcache", "persist-queue", "litequeue")
"""Peers that take one message a call."""
ROCKETMQ = "rocketmq"
SUBJECTS: dict[str, dict[str, tuple[Prepare, str]]] = {
    READ: {
        READ: (reading, MEMCPY),
        READ_ALL: (reading, MEMCPY),
        READ_FIELDS: (reading, MEMCPY),
        **({READ_BATCH: (reading_batches, MEMCPY)} if find_spec("pyarrow") else {}),
        READ_COLD: (reading_cold, PLAIN_COLD),
    },
    QUERY: {QUERY: (asking, MEMCPY)},
    RECOVER: {RECOVER: (recovering, MEMCPY)},
    VERIFY: {SEALS: (checking_seals, PLAIN), VERIFY: (verifying, PLAIN)},
}
"""Subject -> task -> its preparation and its reference, for existing stores."""


@dataclass(frozen=True)
class Peers:
    """The peers measured beside this store."""

    names: tuple[str, ...] = ()
    rocketmq: Rocketmq | None = None


def read_versus(words: Sequence[str]) -> Peers:
    """The peers that `--versus` names. Raises UsageError for an unknown one, or one that is not installed."""
    peers: list[str] = []
    rocketmq: Rocketmq | None = None
    for word in (part for text in words for part in text.split(",")):
        if word == "all":
            peers += peers_at_hand()
        elif word.startswith(f"{ROCKETMQ}="):
            jars = Path(word.partition("=")[2]).resolve()
            check_store_jars(f"--versus rocketmq={jars}", jars)
            rocketmq = Rocketmq(jars)
        elif word == ROCKETMQ:
            raise UsageError("--versus rocketmq: name its jars, as in --versus rocketmq=FOLDER_OF_JARS")
        else:
            check_peer(word)
            peers.append(word)
    return Peers(tuple(dict.fromkeys(peers)), rocketmq)


def flush_cases(body_sizes: Iterable[int], threads: Sequence[int], peers: Peers, rate: int | None) -> list[Case]:
    """The cost of a message in each flush mode, and what lowers it. At a `rate`: the latency of a put in each mode, one
    by one and with threads that share the rate, counted from when each call was due."""
    cases: list[Case] = []
    own = own_writers()[0]
    for size in body_sizes:
        here = [put_case(own, body_size=size), put_case(RAW_LOOP, sync=True, body_size=size)]
        here += [put_case(own, sync=True, body_size=size, threads=count) for count in (1, *threads)]
        beside = [case for sync in (False, True) for case in peer_cases(peers, sync, size, threads if sync else ())]
        if rate is None:
            limits = [put_case(who, body_size=size, batch=BATCH) for who in (MEMCPY, FRESH_PAGES)]
            for sync in (False, True):
                here.append(put_case(own, sync=sync, body_size=size, batch=BATCH))
                here.append(put_case(own, sync=sync, body_size=size, batch=ROWS, columns=True))
            here = [*limits, *here, put_case(RAW_LOOP, sync=True, body_size=size, batch=BATCH), *beside]
        else:
            paced = [put_case(NOTHING, body_size=size), *here, *(case for case in beside if case.batch == 1)]
            here = [replace(case, rate=rate) for case in paced]
        cases += sorted(here, key=lambda case: case.sync)
    return cases


def append_cases(body_sizes: Iterable[int], peers: Peers, rate: int | None) -> list[Case]:
    """The cost of a message without a sync. At a `rate`: puts one by one only, timed from when each call was due."""
    cases: list[Case] = []
    for size in body_sizes:
        found = peer_cases(peers, False, size, ())
        if rate is not None:
            paced = [put_case(name, body_size=size) for name in (NOTHING, *own_writers())]
            cases += [replace(case, rate=rate) for case in (*paced, *found) if case.batch == 1]
            continue
        cases += [put_case(who, body_size=size, batch=BATCH) for who in (MEMCPY, FRESH_PAGES)]
        for name in own_writers():
            cases += [put_case(name, body_size=size, batch=batch) for batch in (1, BATCH)]
            cases.append(put_case(name, body_size=size, batch=ROWS, columns=True))
        cases += found
    return cases


def peer_cases(peers: Peers, sync: bool, size: int, threads: Sequence[int]) -> list[Case]:
    """Cases of all peers in one flush mode; only RocketMQ puts from several threads."""
    cases = [
        put_case(name, sync=sync, body_size=size, batch=batch)
        for name in peers.names
        for batch in ((1,) if name in ONE_BY_ONE else (1, BATCH))
    ]
    for pool in (False,) if sync else (False, True):  # its pool is for async flush alone
        if peers.rocketmq is not None:
            fields: Any = {"pool": pool, "sync": sync, "body_size": size}
            cases += [peers.rocketmq.put_case(**fields, batch=batch) for batch in (1, ROCKETMQ_BATCH)]
            cases += [peers.rocketmq.put_case(**fields, threads=count) for count in threads]
    return cases


def subject_cases(
    subject: str, sizes: Iterable[int], rocketmq: Rocketmq | None, *, messages: int | None = None, quick: bool = False
) -> list[Case]:
    """Tasks on an existing store, with the C kernel and the pure reference, their limits, and RocketMQ's own tasks."""
    tasks, cases = SUBJECTS[subject], list[Case]()
    kernels = [(who, kernel) for who, kernel in ((OWN, "c"), (PURE, "pure")) if kernel in native.available()]
    for size in sizes:
        count = messages or COUNTS.get(size, COUNTS[1024]) // (QUICK_PART if quick else 1)
        for against in dict.fromkeys(against for _, against in tasks.values()):
            if against == MEMCPY:
                batch = min(BATCH, count)
                cases.append(put_case(MEMCPY, body_size=size, batch=batch, calls=count // batch))
            else:
                fields: dict[str, Any] = {"calls": count, "needs_disk": against == PLAIN_COLD}
                cases.append(Case(against, PLAIN_READ, size, prepare=reading_plainly, **fields))
        for task, (prepare, against) in tasks.items():
            fields = {"prepare": prepare, "against": against, "calls": count, "needs_disk": task == READ_COLD}
            fields["rival"] = (MAPPED, RIVALS[task]) if task in RIVALS else None
            cases += [Case(who, task, size, kernel=kernel, **fields) for who, kernel in kernels]
        if rocketmq is not None:
            cases += rocketmq.cases(tasks, size, count)
    return cases


def whole_cases(*, quick: bool = False) -> list[Case]:
    """Async and sync puts, then reads, queries and recovery, each with its limit."""
    none = Peers()
    cases = append_cases(BODY_SIZES, none, None)
    cases += [case for case in flush_cases(BODY_SIZES, (), none, None) if case.sync and case.batch == 1]
    for subject in (READ, QUERY, RECOVER):
        cases += subject_cases(subject, BODY_SIZES, None, quick=quick)
    return list(dict.fromkeys(cases))
