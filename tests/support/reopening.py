"""One image that a cut has left, opened as its owner would: looked at by a view, recovered, checked, and gone on with.

    reopening = Reopening(history, parts, dice)
    reopening.look(tree, mark, was_cut=True)          # raises where something is not as it must be

`look` can record the recovery, for a second cut in the middle of it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import flightlog
from flightlog import Message

if TYPE_CHECKING:
    from tests.support.account import Found, Mark
    from tests.support.histories import History, Parts
    from tests.support.memory_disk import MemoryDisk, Tree
    from tests.support.recording import Moment, Recorder

KEYS_ASKED = 2
GOING_ON = 0.15
"""How many of the recovered stores take messages and are closed."""


class Reopening:
    """Opens what is left of one history."""

    going_on = GOING_ON

    def __init__(self, history: History, parts: Parts) -> None:
        self._history, self._parts = history, parts

    def look(
        self, tree: Tree, mark: Mark, dice: random.Random, *, was_cut: bool, records: bool = False
    ) -> list[Moment[Mark]]:
        """Returns the moments of the recovery, if it `records` them."""
        history, parts = self._history, self._parts
        disk: MemoryDisk = parts.memory_disk.MemoryDisk(history.root, tree)
        settings = history.settings(dice)
        with history.small_files():
            seen = self._view(disk, mark) if "commitlog" in tree else None
            recorder: Recorder[Mark] | None = None
            if records:
                recorder = parts.recording.Recorder(disk, parts.disks.FaultyDisk(), parts.power.Inode, lambda: mark)
            store = flightlog.open(history.root, settings, disk=disk, clock=self._clock(mark))
            disk.watcher = None
            try:
                found = self._check(store, mark, dice, was_cut)
                self._compare(seen, found, was_cut)
                report = store.verify()
                assert report.is_clean, f"verify: {[*map(str, report.findings)][:3]}"
                if dice.random() < self.going_on:
                    self._go_on(store, disk, found, mark, dice)
            finally:
                store._upkeep.poison(InterruptedError("killed"))
                store.close()
        return recorder.moments if recorder is not None else []

    def _clock(self, mark: Mark) -> Any:
        return self._history.clock

    def _view(self, disk: MemoryDisk, mark: Mark) -> Found:
        """What waits for its sync under sync flush is acknowledged and not yet visible, also after a kill."""
        account = self._parts.account
        with flightlog.open_read_only(self._history.root, disk=disk) as view:
            found: Found = account.read_all(view, mark.offered, view.min_physical_offset)
            account.check(mark, found, was_cut=True)
        return found

    def _check(self, store: flightlog.MessageStore, mark: Mark, dice: random.Random, was_cut: bool) -> Found:
        account = self._parts.account
        found: Found = account.read_all(store, mark.offered, store._log.reader.min_offset)
        account.check(mark, found, was_cut=was_cut)
        account.check_keys(store, mark, found, dice, KEYS_ASKED)
        return found

    @staticmethod
    def _compare(seen: Found | None, found: Found, was_cut: bool) -> None:
        """A view of a killed writer's store ends where the writer let readers see; else it finds what recovery does."""
        there = seen.places if seen is not None else {}
        is_same = found.places == there if was_cut else there.items() <= found.places.items()
        assert is_same, f"a view found {sorted(there)}, recovery {sorted(found.places)}"

    def _go_on(
        self, store: flightlog.MessageStore, disk: MemoryDisk, found: Found, mark: Mark, dice: random.Random
    ) -> None:
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
