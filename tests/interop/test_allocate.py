"""Queues shared out and chosen as RocketMQ's own client shares them out and chooses, on random questions."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flightlog.consume.allocate.allocate import (
    AllocationStrategy,
    Averagely,
    AveragelyByCircle,
    ByConfiguration,
    ByMachineRoom,
    MachineRoomNearby,
    allocate,
)
from flightlog.consume.allocate.consistent_hash import ConsistentHash
from flightlog.produce.queue_hash import by_hash_code, by_jump_hash
from flightlog.store.message_queue import MessageQueue
from flightlog.tests.interop import harness
from flightlog.tests.interop.harness import RocketMq
from flightlog.tests.support.rooms import ByName

QUESTIONS = 6_000
LIMIT_S = 300
ROOMS = ("north", "south", "west", "öst")
TOPICS = ("orders", "%RETRY%g", "订单", "\U0001f680", "\uffee")


def ask(rocketmq: RocketMq, folder: Path, lines: Sequence[Sequence[object]]) -> list[Any]:
    """The answers of AllocateProgram.java."""
    jobs = folder / "jobs"
    jobs.write_text("".join("\t".join(map(str, words)) + "\n" for words in lines), encoding="utf-8", newline="")
    command = rocketmq.command(str(folder), "allocate", {"jobs": jobs})
    finished = subprocess.run(
        command, cwd=folder, env=harness.java_environment(), capture_output=True, text=True, timeout=LIMIT_S
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    return [json.loads(line) for line in finished.stdout.splitlines()]


def some_queues(rng: random.Random) -> list[MessageQueue]:
    topics = rng.sample(TOPICS, rng.choice((1, 1, 1, 2)))
    kinds = ("{room}-{n}", "{room}@{n}", "{room}@", "@{n}", "{room}-@{n}@", "{room}@{n}@x")
    brokers = {
        rng.choice(kinds[:2] if rng.random() < 0.8 else kinds).format(room=rng.choice(ROOMS), n=rng.randrange(3))
        for _ in range(rng.randint(1, 4))
    }
    found = [MessageQueue(topic, broker, i) for topic in topics for broker in sorted(brokers) for i in range(12)]
    return rng.sample(found, rng.randint(1, min(len(found), 24)))


def some_members(rng: random.Random) -> list[str]:
    return sorted({f"{rng.choice(ROOMS)}-{rng.choice('ab🚀ﾮ')}{rng.randrange(4)}" for _ in range(rng.randint(1, 7))})


def some_strategy(rng: random.Random, queues: Sequence[MessageQueue]) -> tuple[str, AllocationStrategy]:
    """What it is asked with, and ours."""
    kind = rng.randrange(6)
    if kind < 2:
        return "", (Averagely(), AveragelyByCircle())[kind]
    if kind == 2:
        count = rng.randint(1, 12)
        return str(count), ConsistentHash(count)
    if kind == 3:
        own = sorted(rng.sample(range(len(queues)), rng.randint(1, len(queues))))
        return ",".join(map(str, own)), ByConfiguration([queues[place] for place in own])
    if kind == 4:
        rooms = rng.sample(ROOMS, rng.randint(1, 3))
        return ",".join(rooms), ByMachineRoom(frozenset(rooms))
    inner = rng.choice((Averagely(), AveragelyByCircle(), ConsistentHash()))
    return inner.name, MachineRoomNearby(inner, ByName())


def test_every_strategy_shares_out_as_rocketmqs(rocketmq: RocketMq, tmp_path: Path, interop_seed: int) -> None:
    rng = random.Random(interop_seed)
    lines: list[Sequence[object]] = []
    ours: list[list[int]] = []
    while len(lines) < QUESTIONS:
        queues, members = some_queues(rng), some_members(rng)
        if any(not ByName().room_of_queue(queue) for queue in queues):
            continue
        parameter, strategy = some_strategy(rng, queues)
        name = strategy.name.split("-")[0]
        # Who is no member has no part; RocketMQ's CONFIG alone gives it one.
        is_stranger = name != "CONFIG" and rng.random() < 0.05
        member = "stranger-x" if is_stranger else rng.choice(members)
        words = ["|".join(map(str, queue)) for queue in queues]
        lines.append(("allocate", name, parameter, member, ",".join(members), *words))
        ours.append([queues.index(queue) for queue in allocate(strategy, "g", member, queues, members)])
    theirs = [line["queues"] for line in ask(rocketmq, tmp_path, lines)]
    differing = [(line, own, their) for line, own, their in zip(lines, ours, theirs, strict=True) if own != their]
    assert not differing, differing[0]
    assert sum(map(bool, ours)) > QUESTIONS / 2


def test_a_group_has_the_queue_that_rocketmq_gives_it(rocketmq: RocketMq, tmp_path: Path, interop_seed: int) -> None:
    rng = random.Random(interop_seed)
    alphabet = "abcdefghijklmnop0123456789-_ äπ订🚀"
    groups = [
        "",
        "polygenelubricants",
        *("".join(rng.choices(alphabet, k=rng.randint(1, 40))) for _ in range(QUESTIONS)),
    ]
    lines = [("select", group, rng.choice((1, 2, 3, 4, 8, 16, 1000))) for group in groups]
    found = ask(rocketmq, tmp_path, lines)
    ours = [{"byHashCode": by_hash_code(g, n), "byJumpHash": by_jump_hash(g, n)} for _, g, n in lines]
    assert [{name: line[name] for name in own} for own, line in zip(ours, found, strict=True)] == ours
