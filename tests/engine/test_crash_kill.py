"""SIGKILL: whatever a writer was doing, every message whose put had returned is there afterwards, in order, once.

A page cache outlives its process, so this holds for async flush too. The same store is killed, recovered, appended to
and killed again, 50 times in each flush mode; half of the recoveries are done by the next writer, which may be killed
in the middle of it.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, StoreSettings

if TYPE_CHECKING:
    from flightlog.store.queue_offsets import QueueKey
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

WRITER = Path(__file__).parents[1] / "support" / "killed_writer.py"
COUNTED_SITES = ("batch", "roll", "allocate")

HEAD = re.compile(rb"(\d+ \d+ )(\d+) ")
"""How a body begins: round and thread, then the thread's number of the message."""

Place = tuple[str, int, int]
"""Topic, queue id, queue offset."""


def orders(rounds: int, dice: random.Random) -> Iterator[dict[str, Any]]:
    """Orders for the rounds. Of fifty, 15 die in a batch, 10 in a roll, 5 at an allocation, 20 elsewhere or
    anywhere."""
    plan = ["batch", "roll", "", "allocate", "sync", "batch", "roll", "derived", "batch", ""]
    for number in range(rounds):
        site = plan[number % len(plan)]
        if number % 20 == 19:
            site = "boot"
        reach = {"batch": 200, "roll": 10, "allocate": 12, "sync": 8, "derived": 30, "boot": 14}.get(site, 0)
        yield {
            "round": number,
            "site": site,
            "nth": dice.randint(1, reach) if reach else 0,
            "after": dice.random() < 0.5,
            "delay_ms": dice.randint(1, 90),
            "seed": dice.randrange(1 << 30),
        }


class Killer:
    """One tests/support/killed_writer.py."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.acknowledged: dict[Place, tuple[int, str]] = {}
        """Place -> physical offset and SHA-1 of the body."""
        self.inside: Counter[str] = Counter()
        """At which sites the writers were when they died."""

    def kill_one(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        has_opened = False
        for line in self._process.stdout:
            said = json.loads(line)
            if "end" in said:
                assert said["end"] == -signal.SIGKILL, f"the writer of {order} ended by itself: {said}"
                self.inside.update(said["inside"] or ["elsewhere"])
                if order["site"]:
                    assert has_opened == (order["site"] != "boot")
                return
            if "opened" in said:
                has_opened = True
            else:
                topic, queue_id, queue_offset, physical_offset = said["where"]
                place = (topic, queue_id, queue_offset)
                assert place not in self.acknowledged, f"{place} was given away twice"
                self.acknowledged[place] = (physical_offset, said["sha1"])
        raise AssertionError("the program that forks writers ended")


@contextmanager
def killer(path: Path, mode: FlushMode) -> Iterator[Killer]:
    command = [sys.executable, "-P", str(WRITER), str(path), mode.name]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        with process:
            yield Killer(process)
    finally:
        process.kill()


class Checker:
    """Compares a store with what was acknowledged; what a whole recovery has settled is not read again until the
    end."""

    def __init__(self, known: Killer) -> None:
        self._known = known
        self._settled: dict[QueueKey, int] = {}
        self._heads: dict[bytes, Place] = {}

    def check(self, store: flightlog.Store | flightlog.ReadOnlyStore, *, settles: bool, from_start: bool) -> int:
        """Every acknowledged message is where its put said; nothing is there twice; a thread's messages are in its
        order.

        Returns how many messages there are.
        """
        ends: dict[QueueKey, int] = {}
        found: dict[Place, tuple[int, str]] = {}
        for key, (first, end) in store.queues().items():
            assert first == 0
            start = 0 if from_start else self._settled.get(key, 0)
            last: dict[bytes, int] = {}
            offset = start
            for message in store.read(*key, start):
                assert message.queue_offset == offset
                offset += 1
                place = (*key, message.queue_offset)
                found[place] = (message.physical_offset, hashlib.sha1(message.body).hexdigest())
                writer, sequence = HEAD.match(message.body).groups()  # type: ignore[union-attr]
                head = writer + sequence
                assert self._heads.setdefault(head, place) == place, f"{head!r} is there twice"
                assert last.get(writer, -1) < int(sequence), "a thread's messages changed their order"
                last[writer] = int(sequence)
            assert offset == end
            ends[key] = end
        expected = {
            place: what
            for place, what in self._known.acknowledged.items()
            if from_start or place[2] >= self._settled.get(place[:2], 0)
        }
        lost = expected.items() - found.items()
        assert not lost, f"{len(lost)} acknowledged messages are lost or differ: {sorted(lost)[:3]}"
        if settles:
            self._settled = ends
        else:  # what nobody had to keep may be elsewhere after the recovery
            self._heads = {
                head: place for head, place in self._heads.items() if place[2] < self._settled.get(place[:2], 0)
            }
        return sum(ends.values())


@pytest.mark.ci
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", FlushMode)
def test_a_killed_writer_loses_nothing(
    mode: FlushMode, tmp_path: Path, scale: Scale, assert_clean: AssertClean
) -> None:
    rounds = scale.pick(ci=50, full=500)
    dice = random.Random(f"{mode.name} 7")
    path = tmp_path / "store"
    settings = StoreSettings(accept_future_store_time=True)
    with killer(path, mode) as known:
        checker = Checker(known)
        for order in orders(rounds, dice):
            known.kill_one(order)
            if not path.joinpath("commitlog").exists():
                continue  # died before there was a store
            with flightlog.open_read_only(path) as view:  # before anybody recovers it
                checker.check(view, settles=False, from_start=False)
            if order["round"] % 2:
                with flightlog.open(path, settings) as store:
                    checker.check(store, settles=True, from_start=False)
                    if order["round"] % 4 == 1:
                        report = store.verify()
                        assert report.is_clean, [str(order), *map(str, report.findings)]
    with flightlog.open(path, settings) as store:
        there = checker.check(store, settles=True, from_start=True)
    report = assert_clean(path)
    assert report.records == there
    at_sites = sum(known.inside[site] for site in COUNTED_SITES)
    print(
        f"{mode.name}: {rounds} kills, {len(known.acknowledged)} acknowledged of {there} messages in "
        f"{report.segments} segments, writers died inside {dict(known.inside.most_common())}"
    )
    assert at_sites >= rounds * 2 // 5, f"only {at_sites} kills inside a batch, a roll or an allocation"
    assert report.segments >= 20
