"""One image that a cut has left, opened as its owner would: looked at by a view, recovered, checked, and gone on with.

    reopening = Reopening(history)
    reopening.look(tree, mark, was_cut=True)          # raises where something is not as it must be

`look` can record the recovery, for a second cut in the middle of it.
"""

from __future__ import annotations

import random
from typing import Any

import flightlog
from flightlog import Message
from flightlog.testing import kill
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import Inode
from flightlog.tests.support import inside, other_readers
from flightlog.tests.support.account import Found, Mark
from flightlog.tests.support.histories import History
from flightlog.tests.support.memory_disk import MemoryDisk, Tree
from flightlog.tests.support.recording import Moment, Recorder

KEYS_ASKED = 2
CHECKED_ONE_IN = 5
GOING_ON = 0.15
"""How many of the recovered stores take messages and are closed."""


class Reopening:
    """Opens what is left of one history."""

    going_on = GOING_ON

    def __init__(self, history: History) -> None:
        self._history = history

    def look(
        self, tree: Tree, mark: Mark, dice: random.Random, *, was_cut: bool, records: bool = False
    ) -> list[Moment[Mark]]:
        """Returns the moments of the recovery, if it `records` them."""
        history = self._history
        disk = history.new_disk(tree)
        settings = history.settings(dice)
        with history.small_files():
            seen = self._view(disk, mark, was_cut) if "commitlog" in tree else None
            recorder: Recorder[Mark] | None = None
            if records:
                recorder = Recorder(disk, FaultyDisk(), Inode, lambda: mark)
            store = flightlog.open(history.root, settings, disk=disk, clock=self._clock(mark))
            disk.watcher = None
            try:
                found = self._check(store, mark, dice, was_cut)
                self._compare(seen, found)
                report = store.verify()
                assert report.is_clean, f"verify: {[*map(str, report.findings)][:3]}"
                if dice.random() < self.going_on:
                    self._go_on(store, disk, found, mark, dice)
            finally:
                kill(store)
        return recorder.moments if recorder is not None else []

    def _clock(self, mark: Mark) -> Any:
        return self._history.clock

    def _view(self, disk: MemoryDisk, mark: Mark, was_cut: bool) -> Found:
        """No writer is alive: a view, and of every fifth image verify, `info` and Spark's readers, find what the log
        holds, whatever the page says."""
        with flightlog.open_read_only(self._history.root, disk=disk) as view:
            found = self._history.read_all(view, mark.offered, view.min_physical_offset)
            self._history.check(mark, found, was_cut=was_cut)
            if mark.acknowledged_count % CHECKED_ONE_IN == 0:
                other_readers.agree(view, disk)
        return found

    def _check(self, store: flightlog.Store, mark: Mark, dice: random.Random, was_cut: bool) -> Found:
        found = self._history.read_all(store, mark.offered, inside.log(store).reader.min_offset)
        self._history.check(mark, found, was_cut=was_cut)
        self._history.check_keys(store, mark, found, dice, KEYS_ASKED)
        return found

    @staticmethod
    def _compare(seen: Found | None, found: Found) -> None:
        """A view of a store without a live writer finds what recovery finds."""
        there = seen.places if seen is not None else {}
        assert found.places == there, f"a view found {sorted(there)}, recovery {sorted(found.places)}"

    def _go_on(self, store: flightlog.Store, disk: MemoryDisk, found: Found, mark: Mark, dice: random.Random) -> None:
        """It takes messages, closes, and has them when it is looked at again."""
        ends = store.queues()
        bodies = [b"one more", b"and another"]
        results = store.put_many([Message("orders", body, keys="late") for body in bodies])
        assert [result.queue_offset for result in results] == [ends.get(("orders", 0), (0, 0))[1] + i for i in (0, 1)]
        store.close()
        with flightlog.open_read_only(self._history.root, disk=disk) as view:
            at = results[0].queue_offset
            assert [message.body for message in view.read("orders", 0, at)] == bodies
            assert sum(end - first for first, end in view.queues().values()) == len(found.places) + len(bodies)
            report = view.verify()
            assert report.is_clean, f"verify after a close: {[*map(str, report.findings)][:3]}"
