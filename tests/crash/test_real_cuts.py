"""The power fails, on a real ext4: what was acknowledged as durable is there afterwards, in order, once.

One store on a small mounted file system is written, cut, mounted again, looked at, recovered, and written again. The
cuts are directed into what is delicate (SITES, counted) or come at any moment; some writers are killed instead. Half of
the recoveries are the next writer's, whose power may fail in the middle of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, StoreSettings

if TYPE_CHECKING:
    from tests.conftest import Scale

WRITER = Path(__file__).parents[1] / "support" / "cut_writer.py"
IMAGE_SIZE = 256 << 20
CUTS_AN_IMAGE = 25
DIGEST_SIZE = 20
SEED = int(os.environ["FLIGHTLOG_SEED"])
REACH = {
    "roll": 12,
    "allocate": 10,
    "sync": 40,
    "queue": 60,
    "index": 40,
    "progress": 4,
    "seal": 8,
    "checkpoint": 6,
    "abort": 2,
    "rename": 4,
    "remove": 6,
    "boot": 30,
    "close": 30,
    "": 0,
}
"""Site -> among how many of its visits one is chosen. Without a site: any moment."""
SITES = [*(site for site in REACH if site), "", "", ""]
GEOMETRY: dict[str, Any] = {
    "segment_size": 64 << 10,
    "queue_file_entries": 100,
    "index_slots": 50,
    "index_entries": 200,
}
HEAD = re.compile(rb"(\d+ \d+) (\d+) ")
Place = tuple[str, int, int]


class Known:
    """What has to be there, and what was there when the store was last recovered."""

    def __init__(self) -> None:
        self.must: dict[Place, tuple[int, str]] = {}
        self.wrong: list[str] = []
        self.heard = self.checks = 0

    def hear(self, line: dict[str, Any]) -> None:
        if "wrong" in line:
            self.wrong.append(line["wrong"])
        if "where" in line:
            topic, queue_id, queue_offset, physical_offset = line["where"]
            place = (topic, queue_id, queue_offset)
            if place in self.must:
                self.wrong.append(f"{place} was given away twice")
            self.heard += 1
            self.must[place] = (physical_offset, line["sha1"])

    def check(self, store: flightlog.MessageStore | flightlog.ReadOnlyStore) -> int:
        """Everything that must be there is, unless its segment has been cleaned away; every message is whole; none is
        there twice; threads keep their order."""
        found: dict[Place, tuple[int, str]] = {}
        heads: set[bytes] = set()
        for key, (first, end) in store.queues().items():
            last: dict[bytes, int] = {}
            offset = first
            for message in store.read(*key, first):
                assert message.queue_offset == offset, f"{key}: {message.queue_offset}, expected {offset}"
                offset += 1
                body = message.body
                assert hashlib.sha1(body[:-DIGEST_SIZE]).digest() == body[-DIGEST_SIZE:], f"{message} is corrupt"
                head = HEAD.match(body)
                assert head is not None and head.group() not in heads, f"{message} is there twice"
                heads.add(head.group())
                writer, number = head.groups()
                assert last.get(writer, -1) < int(number), f"{message}: a thread's messages changed their order"
                last[writer] = int(number)
                found[(*key, message.queue_offset)] = (message.physical_offset, hashlib.sha1(body).hexdigest())
            assert offset == end, f"{key}: read up to {offset}, expected {end}"
        log_start = int(min(os.listdir(store.path / "commitlog"), default="0"))
        self.must = {place: what for place, what in self.must.items() if what[0] >= log_start}
        lost = self.must.items() - found.items()
        text = f"{len(lost)} of {len(self.must)} acknowledged messages are lost or differ ({len(found)} found)"
        assert not lost, f"{text}: {sorted(lost)[:3]}"
        self.checks += len(self.must)
        return len(found)


class Campaign:
    """Orders to one program of writers, and what came of them."""

    def __init__(self, mounts: ModuleType, folder: Path, mode: FlushMode, seed: int, *, lies: bool = False) -> None:
        self._disk, self._boot_anew = mounts.Ext4(folder, IMAGE_SIZE), mounts.boot_anew
        self._mode, self._seed, self._lies = mode, seed, lies
        self.sites: Counter[str] = Counter()
        self.unreached = 0
        """Writers that had done all their puts and closed their store before their end came."""
        self.cuts = self.kills = self.acknowledged = self.checks = 0

    def run(self, cuts: int) -> None:
        dice = random.Random(f"{self._mode.name} {self._seed}")
        with _program(self._disk.place) as self._tell:
            self._run(cuts, dice)

    def _run(self, cuts: int, dice: random.Random) -> None:
        while self.cuts + self.kills < cuts:
            self._disk.make()
            known = Known()
            for number in range(CUTS_AN_IMAGE):
                if self.cuts + self.kills >= cuts:
                    break
                order = self._order(number, dice)
                try:
                    self._one(order, known)
                except BaseException as e:
                    e.add_note(f"after {self.cuts} cuts, {self.kills} kills of seed {self._seed}: {order}")
                    raise
            self.acknowledged += known.heard
            self.checks += known.checks

    def _order(self, number: int, dice: random.Random) -> dict[str, Any]:
        site = "boot" if number and dice.random() < 0.05 else dice.choice(SITES)
        return {
            "round": number,
            "mode": self._mode.name,
            "site": site,
            "nth": dice.randint(1, REACH[site] or 1),
            "after": dice.random() < 0.5,
            "delay_ms": dice.randint(1, 150),
            "end": "kill" if dice.random() < 0.12 else "cut",
            "seed": dice.randrange(1 << 30),
            "lies": self._lies,
            "geometry": GEOMETRY,
        }

    def _one(self, order: dict[str, Any], known: Known) -> None:
        came = True
        with self._disk:
            for line in self._tell(order):
                known.hear(line)
                came = line.get("came", came)
        assert not known.wrong, [known.wrong[:3], line]
        self._count(order, came, line["end"])
        with self._disk as place:
            path = place / "store"
            if order["end"] == "cut":
                self._boot_anew(path)
            if not (path / "commitlog").exists():
                assert not known.must
                return
            with flightlog.open_read_only(path) as view:
                there = known.check(view)
            if order["round"] % 2:
                with flightlog.open(path, StoreSettings(**GEOMETRY, accept_future_store_time=True)) as store:
                    assert known.check(store) >= there
                    report = store.verify()
                    assert report.is_clean, [*map(str, report.findings)][:3]

    def _count(self, order: dict[str, Any], came: bool, end: int) -> None:
        if not came:
            assert end == 0
            self.unreached += 1
            return
        self.sites[order["site"] or "any moment"] += 1
        if order["end"] == "kill":
            assert end == -signal.SIGKILL, f"a writer that was killed ended with {end}"
            self.kills += 1
        else:
            assert end in (0, -signal.SIGBUS), f"a writer ended with {end}"
            self.cuts += 1

    def summary(self) -> str:
        return (
            f"{self._mode.name}, seed {self._seed}: {self.cuts} cuts, {self.kills} kills, {self.acknowledged} messages "
            f"that had to be there, {self.checks} checks, {self.unreached} ended before; {dict(self.sites)}"
        )


@contextmanager
def _program(place: Path) -> Iterator[Callable[[dict[str, Any]], Iterator[dict[str, Any]]]]:
    process = subprocess.Popen(
        [sys.executable, "-P", str(WRITER), str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def tell(order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            said = json.loads(line)
            yield said
            if "end" in said:
                return
        raise AssertionError("the program that forks writers ended")

    try:
        with process:
            yield tell
    finally:
        process.kill()


@pytest.fixture
def mounts(support: Callable[[str], ModuleType]) -> ModuleType:
    found = support("mounts")
    found.needs_root()
    return found


@pytest.mark.ci
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", FlushMode)
def test_power_cuts(mode: FlushMode, mounts: ModuleType, tmp_path: Path, scale: Scale) -> None:
    campaign = Campaign(mounts, tmp_path, mode, SEED)
    campaign.run(scale.pick(ci=100, full=2_500))
    print(campaign.summary())
    assert campaign.acknowledged > 10 * campaign.cuts
    assert len(campaign.sites) > len(REACH) - 3  # few visits of the rarest come in the middle of something


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_an_acknowledgement_before_its_sync_is_found_out(mounts: ModuleType, tmp_path: Path) -> None:
    campaign = Campaign(mounts, tmp_path, FlushMode.SYNC, SEED, lies=True)
    with pytest.raises(AssertionError, match="acknowledged messages are lost"):
        campaign.run(40)
