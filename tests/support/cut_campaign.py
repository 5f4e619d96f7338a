"""Power cuts, one after the other, on a real ext4.

One store on a small mounted file system is written, cut, mounted again, looked at, recovered, and written again. The
cuts are directed into what is delicate (SITES, counted) or come at any moment; some writers are killed instead. Half of
the recoveries are the next writer's, whose power may fail in the middle of it.

As a program, `cut_campaign.py FOLDER CUTS SEED...` runs a campaign of each flush mode with each seed, and says what
they came to.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import flightlog
from flightlog import FlushMode, StoreSettings
from flightlog.tests.support import mounts, other_readers, process
from flightlog.tests.support.clocks import ClockAhead
from flightlog.tests.support.cut_known import Known
from flightlog.tests.support.cut_later import LEVELS
from flightlog.tests.support.mounts import Ext4

WRITER = Path(__file__).with_name("cut_writer.py")
IMAGE_SIZE = 256 << 20
CUTS_AN_IMAGE = 10
REACH = {
    "roll": 12,
    "link": 4,
    "allocate": 10,
    "sync": 40,
    "folder": 4,
    "queue": 60,
    "batch queue": 8,
    "extension": 30,
    "index": 40,
    "key roll": 6,
    "progress": 4,
    "seal": 8,
    "checkpoint": 6,
    "abort": 2,
    "rename": 8,
    "topics": 30,
    "note": 20,
    "levels": 10,
    "timers": 10,
    "delete": 40,
    "retention": 40,
    "remove": 6,
    "file system": 1,
    "boot": 30,
    "close": 30,
    "": 0,
}
"""Site -> among how many of its visits one is chosen. Without a site: any moment."""
SITES = [*(site for site in REACH if site), "boot", "", "", "", ""]
GEOMETRY: dict[str, Any] = {
    "segment_size": 64 << 10,
    "queue_file_entries": 100,
    "index_slots": 50,
    "index_entries": 200,
}
AHEAD_SIZE = 16 << 10
"""As much as a segment of this size has prepared at most."""
AHEAD_MS = 60_000
"""So much later than all that the writers have put, everything is due."""
EXTENDED = GEOMETRY | {"queue_extension": True, "queue_extension_file_size": 4096}


class Campaign:
    """Orders to one program of writers, and what came of them."""

    def __init__(self, folder: Path, mode: FlushMode, seed: int, *, lies: bool = False) -> None:
        self._disk = Ext4(folder, IMAGE_SIZE)
        self._mode, self._seed, self._lies = mode, seed, lies
        self._deck: list[str] = []
        """Sites that are still to come before the first one comes again."""
        self.sites: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        """Acknowledged calls, or messages of them."""
        self.cuts = self.kills = self.checks = 0
        self.same_boots = 0
        """Cuts after which the image was mounted again as by the same boot of the machine."""
        self.poisoned = 0
        """Writers whose sync failed after the cut, and which then refused everything."""
        self.killed_by_pages = 0
        """Writers that stored into a page of a mapping which the file system, shut down, did not give them any more."""
        self.delivered = 0
        """Messages that had waited, copies too."""
        self.unreached = 0
        """Writers that had done all their puts and closed their store before their end came."""

    @property
    def acknowledged(self) -> int:
        return sum(count for call, count in self.done.items() if call.startswith(("put", "append")))

    def run(self, cuts: int) -> None:
        dice = random.Random(f"{self._mode.name} {self._seed}")
        with _program(self._disk.place) as self._tell:
            self._run(cuts, dice)

    def _run(self, cuts: int, dice: random.Random) -> None:
        while self.cuts + self.kills < cuts:
            self._disk.make()
            known: Known = Known()
            geometry = dice.choice((GEOMETRY, EXTENDED))
            for number in range(CUTS_AN_IMAGE):
                if self.cuts + self.kills >= cuts:
                    break
                order = self._order(number, geometry, dice)
                try:
                    self._one(order, known)
                except BaseException as e:
                    e.add_note(f"after {self.cuts} cuts, {self.kills} kills of seed {self._seed}: {order}")
                    raise
            self._deliver(geometry, known)
            self.done += known.done
            self.checks += known.checks

    def _order(self, number: int, geometry: dict[str, Any], dice: random.Random) -> dict[str, Any]:
        if not self._deck:
            self._deck = dice.sample(SITES, len(SITES))
        site = self._deck.pop()
        if site == "extension" and geometry is not EXTENDED:
            site = "queue"
        return {
            "round": number,
            "is_recovered": number % 2 == 1,
            "is_looked_at": number % 2 == 0 or dice.random() < 0.5,
            "mode": self._mode.name,
            "site": site,
            "nth": dice.randint(1, REACH[site] or 1),
            "after": dice.random() < 0.5,
            "delay_ms": dice.randint(1, 150),
            "end": "kill" if dice.random() < 0.12 else "cut",
            "seed": dice.randrange(1 << 30),
            "lies": self._lies,
            "geometry": geometry,
            "prepare_ahead_size": AHEAD_SIZE if site == "link" else dice.choice((0, AHEAD_SIZE)),
        }

    def _one(self, order: dict[str, Any], known: Known) -> None:
        came = True
        with self._disk:
            for line in self._tell(order):
                known.hear(line)
                came = line.get("came", came)
                self.poisoned += "poisoned" in line
        assert not known.wrong, [known.wrong[:3], line]
        self._count(order, came, line["end"])
        with self._disk as place:
            path = place / "store"
            if order["end"] == "cut":
                if order["seed"] % 2:
                    mounts.boot_anew(path)
                else:  # the same kernel has mounted the disk again
                    self.same_boots += came
            if not (path / "commitlog").exists():
                assert not known.must
                return
            there = 0
            if order["is_looked_at"]:
                with flightlog.open_read_only(path) as view:
                    there = known.check(view)
                    other_readers.agree(view)
            if order["is_recovered"]:
                settings = _settings(order["geometry"], deliver_delayed=False)
                with flightlog.open(path, settings) as store:
                    assert known.check(store) >= there
                    report = store.verify()
                    assert report.is_clean, [*map(str, report.findings)][:3]

    def _deliver(self, geometry: dict[str, Any], known: Known) -> None:
        """What still waits in the end comes."""
        with self._disk as place:
            path = place / "store"
            if not (path / "commitlog").exists():
                return
            clock = ClockAhead(AHEAD_MS)
            with flightlog.open(path, _settings(geometry), clock=clock) as store:
                process.wait_until(lambda: not _waiting(store))
                known.check(store)
                known.later.check_all()
                self.delivered += known.later.delivered_count
            with flightlog.open_read_only(path) as view:
                report = view.verify()
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
            self.killed_by_pages += end != 0
            self.cuts += 1

    def summary(self) -> str:
        return (
            f"{self._mode.name}, seed {self._seed}: {self.cuts} cuts ({self.same_boots} without a new boot), "
            f"{self.kills} kills, {self.poisoned} poisoned, "
            f"{self.killed_by_pages} of SIGBUS, {self.acknowledged} messages that had to be there, "
            f"{self.checks} checks, {self.delivered} delivered, {self.unreached} ended before; "
            f"acknowledged {dict(sorted(self.done.items()))}; "
            f"sites {dict(sorted(self.sites.items()))}"
        )


def _settings(geometry: dict[str, Any], **more: Any) -> StoreSettings:
    levels = LEVELS
    return StoreSettings(**geometry, **more, accept_future_store_time=True, delay_levels=levels)


def _waiting(store: flightlog.Store) -> int:
    statistics = store.statistics()
    timers = statistics.timers
    levels = sum(level.pending for level in statistics.delays)
    return levels + (0 if timers is None else timers.pending + timers.untaken)


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


def main() -> None:
    folder, cuts, *seeds = sys.argv[1:]
    for seed in map(int, seeds):
        for mode in FlushMode:
            campaign = Campaign(Path(folder), mode, seed)
            campaign.run(int(cuts))
            print(campaign.summary(), flush=True)


if __name__ == "__main__":
    main()
