"""A window of seen ids whose process dies, or whose power is cut, at each step of the disk."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from flightlog import DeduplicationWindow, FlushMode
from flightlog.consume.deduplication import deduplication_window
from flightlog.testing import ManualClock, PowerDisk
from flightlog.testing.power_disk import Died

MAX_COUNT = 4
CUTS = 3
"""Power cuts after each step, beside a kill, and a cut that leaves what was synced alone."""


class Model:
    """What was promised: of the ids that count, the newest."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.under_way = ""
        """The id whose call has not returned: it may be noted, or not."""
        self.effects: list[str] = []

    def check(self, window: DeduplicationWindow) -> None:
        noted = {id for id in map(str, range(60)) if id in window}
        assert noted <= {*self.seen, self.under_way}
        # A note under way may have pushed the oldest one out.
        certain = self.seen[-MAX_COUNT + 1 :] if self.under_way else self.seen
        assert {*certain} - {self.under_way} <= noted


def work(folder: Path, disk: PowerDisk, model: Model, mode: FlushMode) -> None:
    """Notes, takes back and rewrites; two lives of the window."""
    for life in range(2):
        window = DeduplicationWindow(folder, max_count=MAX_COUNT, disk=disk, clock=ManualClock(), flush_mode=mode)
        try:
            for number in range(life * 30, life * 30 + 12):
                id = model.under_way = str(number)
                with window.once(id) as is_first:
                    assert is_first
                    model.effects.append(id)
                model.seen = [*model.seen, id][-MAX_COUNT:]
                if number % 3 == 0:
                    window.forget(id)
                    model.seen.remove(id)
                model.under_way = ""
        finally:
            window.close()


def each_step(folder: Path, mode: FlushMode, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[PowerDisk, Model, int]]:
    monkeypatch.setattr(deduplication_window, "SLACK", 2)
    for step in count():
        for way in range(CUTS + 2):
            root = folder / f"{step}-{way}"
            root.mkdir(parents=True)
            disk, model = PowerDisk(root), Model()
            disk.die_after = step
            try:
                work(root / "window", disk, model, mode)
            except Died:
                died = True
            else:
                died = False
            if way == 0:
                disk.kill()
            else:
                disk.cut(None if way == 1 else random.Random(step * CUTS + way))
            yield disk, model, way
        if not died:
            assert step > 60
            return


def test_a_note_survives_what_its_flush_mode_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for disk, model, _ in each_step(tmp_path, FlushMode.SYNC, monkeypatch):
        with DeduplicationWindow(disk.root / "window", max_count=MAX_COUNT, disk=disk, clock=ManualClock()) as window:
            model.check(window)


def test_async_notes_survive_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for disk, model, way in each_step(tmp_path, FlushMode.ASYNC, monkeypatch):
        with DeduplicationWindow(disk.root / "window", max_count=MAX_COUNT, disk=disk, clock=ManualClock()) as window:
            if way == 0:
                model.check(window)
            window.first_time("later")
            assert "later" in window
