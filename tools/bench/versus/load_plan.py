"""Which loads a comparison of writers consists of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ....store.errors import UsageError
from .. import rocketmq, writers
from ..loads.load import Load
from ..writers import FILE, FRESH_PAGES, MEMCPY, NOTHING, OWN, RAW_LOOP

BATCH, ROWS = 256, 8192
ROCKETMQ_BATCH = 32
"""What its clients send at once by default is far less; its own limit is in bytes."""
ONE_BY_ONE = ("diskcache", "persist-queue", "litequeue")
"""Peers that take one message a call."""
ROCKETMQ = "rocketmq"


def flush_loads(
    body_sizes: Iterable[int], thread_counts: Sequence[int], peers: Sequence[str], rate: int | None
) -> list[Load]:
    """What a message costs in each flush mode, and what brings the cost down; at a `rate` how long a put takes in each
    mode, one by one and with threads that share the rate, each call timed from when it was due."""
    loads: list[Load] = []
    for size in body_sizes:
        if rate is not None:
            loads += [Load(NOTHING, False, size, rate=rate), Load(OWN, False, size, rate=rate)]
            loads += [Load(RAW_LOOP, True, size, rate=rate), Load(OWN, True, size, rate=rate)]
            loads += [Load(OWN, True, size, threads=count, rate=rate) for count in thread_counts]
            for peer in peers:
                both = [*peer_loads(peer, False, size, ()), *peer_loads(peer, True, size, thread_counts)]
                loads += [replace(load, rate=rate) for load in both if load.batch == 1]
            continue
        loads += [
            Load(MEMCPY, False, size, BATCH),
            Load(FRESH_PAGES, False, size, BATCH),
            Load(OWN, False, size),
            Load(OWN, False, size, BATCH),
            Load(OWN, False, size, ROWS, columns=True),
            Load(RAW_LOOP, True, size),
            Load(OWN, True, size),
            *(Load(OWN, True, size, threads=count) for count in thread_counts),
            Load(RAW_LOOP, True, size, BATCH),
            Load(OWN, True, size, BATCH),
            Load(OWN, True, size, ROWS, columns=True),
        ]
        for peer in peers:
            loads += peer_loads(peer, False, size, ()) + peer_loads(peer, True, size, thread_counts)
    return loads


def append_loads(body_sizes: Iterable[int], peers: Sequence[str], rate: int | None) -> list[Load]:
    """What a message costs without a sync; at a `rate` one by one alone, each call timed from when it was due."""
    loads: list[Load] = []
    for size in body_sizes:
        if rate is not None:
            names = [NOTHING, *writers.own_writers(), *(name for peer in peers for name in _names(peer))]
            loads += [Load(name, False, size, rate=rate) for name in names]
            continue
        loads += [Load(MEMCPY, False, size, BATCH), Load(FRESH_PAGES, False, size, BATCH), Load(FILE, False, size)]
        for name in writers.own_writers():
            loads += [Load(name, False, size), Load(name, False, size, BATCH)]
            loads.append(Load(name, False, size, ROWS, columns=True))
        for peer in peers:
            loads += peer_loads(peer, False, size, ())
    return loads


def _names(peer: str) -> tuple[str, ...]:
    return (rocketmq.MAPPED, rocketmq.POOL) if peer == ROCKETMQ else (peer,)


def peer_loads(peer: str, sync: bool, size: int, thread_counts: Sequence[int]) -> list[Load]:
    if peer == ROCKETMQ:
        names = (rocketmq.MAPPED,) if sync else _names(peer)  # its pool is for async flush alone
        found = [Load(name, sync, size, batch) for name in names for batch in (1, ROCKETMQ_BATCH)]
        return found + [Load(name, sync, size, threads=count) for name in names for count in thread_counts]
    if peer in ONE_BY_ONE:
        return [Load(peer, sync, size)]
    return [Load(peer, sync, size), Load(peer, sync, size, BATCH)]


def read_versus(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """The peers that `--versus` names, and RocketMQ's folder of jars. Raises UsageError for what is not at hand."""
    peers: list[str] = []
    jars: Path | None = None
    for word in (part for text in words for part in text.split(",")):
        if word == "all":
            peers += writers.peers_at_hand()
        elif word.startswith(f"{ROCKETMQ}="):
            jars = Path(word.partition("=")[2]).resolve()
            rocketmq.check_jars(jars)
            peers.append(ROCKETMQ)
        elif word == ROCKETMQ:
            raise UsageError("--versus rocketmq: name its jars, as in --versus rocketmq=FOLDER_OF_JARS")
        else:
            writers.check_peer(word)
            peers.append(word)
    return list(dict.fromkeys(peers)), jars
