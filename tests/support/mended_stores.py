"""Stores with damage drawn by lot, verified, repaired and salvaged.

- Verify calls no store clean in which a message that a queue lists cannot be read, or one whose record is intact is not
  in its queue.
- Salvage carries every record over that is intact at its place, and its new store is clean.
- Repair loses no record that is intact at its place, except behind a torn tail that it says it cut.
- Nothing raises what is no error of flightlog, hangs, or takes memory without bound.

As a program: see damage_cases.py.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import flightlog
from flightlog import FlightlogError, StoreSettings
from flightlog.store import native
from flightlog.store.format.frame import FRAME_DTYPE
from flightlog.store.format.sys_flag import INNER_BATCH, has_queue_entry
from flightlog.store.segments.segment import segment_base
from flightlog.tests.support.damage_cases import Try, run_cases

LIGHT = "%LMQ%"
SETTINGS = StoreSettings(flush_interval_ms=3_600_000, allocate_step_size=4096, accept_future_store_time=True)


class Record(NamedTuple):
    """One record of the sound store."""

    physical_offset: int
    raw: bytes
    identity: bytes
    """A digest of everything but its place and its queue offset."""
    is_listed: bool


def identity(raw: bytes) -> bytes:
    return hashlib.blake2b(raw[4:20] + raw[36:], digest_size=12).digest()


def records_of(root: Path) -> list[Record]:
    """Every record of a sound store, in the order of its log."""
    found = []
    rows: Any = np.empty(1 << 14, FRAME_DTYPE)
    for path in sorted((root / "commitlog").iterdir()):
        raw, base = path.read_bytes(), int(path.name)
        count, _, _ = native.walk(raw, 0, len(raw), base, True, rows)
        for row in rows[:count]:
            start, size, flag = int(row["position"]), int(row["size"]), int(row["sys_flag"])
            record = raw[start : start + size]
            is_listed = has_queue_entry(flag) and not flag & INNER_BATCH
            found.append(Record(base + start, record, identity(record), is_listed))
    return found


def intact_in(root: Path, records: list[Record], segment_size: int) -> list[Record]:
    """Those that are at their place in a file that can be one of the log."""
    content: dict[int, bytes] = {}
    for path in (root / "commitlog").glob("*"):
        base = segment_base(path.name)
        if path.is_file() and base is not None and path.stat().st_size <= 1 << 20:
            content[base] = path.read_bytes()
    found = []
    for each in records:
        base = each.physical_offset - each.physical_offset % segment_size
        start = each.physical_offset - base
        if content.get(base, b"")[start : start + len(each.raw)] == each.raw:
            found.append(each)
    return found


class Case:
    """One damaged store."""

    def __init__(self, root: Path, records: list[Record], segment_size: int) -> None:
        self.root, self.segment_size = root, segment_size
        self.intact = intact_in(root, records, segment_size)
        self.told: Counter[str] = Counter()

    def run(self) -> None:
        self._verify()
        self._salvage()
        self._repair()

    def _verify(self) -> None:
        try:
            with flightlog.open_read_only(self.root) as view:
                report = view.verify()
                if not report.is_clean:
                    self.told["findings"] += 1
                    assert all(each.command is None or "PATH" in each.command for each in report.findings)
                    return
                self.told["clean"] += 1
                there = {each.physical_offset: each for each in self.intact if each.is_listed}
                end, seen = view.end_physical_offset, set[int]()
                deleted = view.deleted_topics
                for key in view.queues():
                    seen |= {message.physical_offset for message in view.read(*key)}
                missing = [
                    offset
                    for offset in there.keys() - seen
                    if view.min_physical_offset <= offset < end and not deleted.highest > offset
                ]
                assert not missing, f"verify called it clean, and no queue has the records at {sorted(missing)[:5]}"
        except FlightlogError as e:
            self.told[f"verify {type(e).__name__}"] += 1
            assert "clean" not in self.told, e

    def _salvage(self) -> None:
        out = self.root.with_name("salvaged")
        shutil.rmtree(out, ignore_errors=True)
        report = flightlog.salvage(self.root, out, SETTINGS, write=True)
        self.told["salvaged"] += 1
        assert report.after is not None
        # A record stands for one lost message in its own queue; light queues keep the holes of lost messages.
        found = [each for each in report.after.findings if LIGHT not in str(each.path)]
        assert not found, "\n".join(map(str, found))
        carried = Counter(each.identity for each in records_of(out)) if (out / "commitlog").exists() else Counter()
        wanted = Counter(each.identity for each in self.intact)
        if report.deleted:
            return
        assert not wanted - carried, f"{(wanted - carried).total()} intact records were not carried over"

    def _repair(self) -> None:
        try:
            report = flightlog.repair(self.root, SETTINGS, write=True)
        except FlightlogError as e:
            self.told[f"repair {type(e).__name__}"] += 1
            return
        self.told["mended" if report.is_clean else "left"] += 1
        left = {each.physical_offset for each in intact_in(self.root, self.intact, self.segment_size)}
        lost = [each.physical_offset for each in self.intact if each.physical_offset not in left]
        if lost:
            cuts = sorted(int(p.name.split("-")[1][:20]) for p in (self.root / "flightlog").glob("cut-*"))
            assert cuts and min(lost) >= cuts[0], f"the repair lost intact records: {lost[:5]}, {report.steps}"
            self.told["cut"] += 1


def prepare(store: Path) -> Try:
    """See run_cases."""
    records = records_of(store)
    segment_size = min(path.stat().st_size for path in (store / "commitlog").iterdir() if path.stat().st_size)

    def try_damaged(root: Path) -> Counter[str]:
        case = Case(root, records, segment_size)
        case.run()
        return case.told

    return try_damaged


if __name__ == "__main__":
    sys.exit(min(run_cases(prepare), 100))
