"""A power cut at every operation of every flush: what was flushed can be brought back byte for byte, and until then no
slot on disk names an entry that is not there."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from flightlog.index.key.index_file import IndexGeometry, IndexState
from flightlog.index.key.key_index import KeyIndex
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import plain_index

GEOMETRY = IndexGeometry(2500, 61)
"""Slots in three pages, so that a cut may come between them; files of 60 keys."""
BATCHES = (1, 7, 30, 1, 45, 3, 70, 5)
"""Keys between two flushes: some within a file, some over the end of one."""


def make_keys(dice: random.Random) -> list[Any]:
    keys, offset, time_ms = [], 0, 1_700_000_000_000
    for count in BATCHES:
        offset += 100  # the keys of one record are put together
        for _ in range(count):
            offset += dice.choice((0, 100))
            time_ms += dice.choice((0, 700, 90_000))
            keys.append(plain_index.Key(dice.choice((5, 7, dice.randrange(2**31))), offset, time_ms))
    return keys


class Writer:
    """Puts and flushes until the power goes."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.dice = root, random.Random(seed)
        self.keys = make_keys(self.dice)
        self.disk = PowerDisk(root)
        self.died = Died
        self.flushed: tuple[IndexState, int] = (IndexState(), 0)

    def open(self) -> KeyIndex:
        index = KeyIndex(self.disk, self.root, GEOMETRY, plain_index.StillClock())
        index.load()
        return index

    def run(self) -> None:
        index, done = self.open(), 0
        for count in BATCHES:
            index.put(plain_index.key_entries_of(self.keys[done : done + count]))
            done += count
            self.flushed = (index.flush(), done)
        index.close()

    def go_on(self) -> None:
        """Put the whole log again: what is known is passed over."""
        index = self.open()
        index.put(plain_index.key_entries_of(self.keys))
        index.flush()
        index.close()

    def files(self) -> list[bytes]:
        folder = self.root / "index"
        return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.exists() else []

    def expected(self, count: int) -> list[bytes]:
        return [bytes(f) for f in plain_index.PlainIndex(GEOMETRY.slots, GEOMETRY.entries, self.keys[:count]).files]

    def check_slots(self) -> None:
        """Every slot that is not empty names an entry of its own, as it was written."""
        all_files = self.expected(len(self.keys))
        for number, found in enumerate(self.files()):
            for slot, head in enumerate(struct.unpack_from(f">{GEOMETRY.slots}i", found, 40) if found else ()):
                if head:
                    at = GEOMETRY.entry_position(head)
                    assert found[at : at + 20] == all_files[number][at : at + 20]
                    assert struct.unpack_from(">i", found, at)[0] % GEOMETRY.slots == slot

    def recover(self) -> None:
        state, count = self.flushed
        index = self.open()
        assert index.rewind(state, self.keys[count - 1].time_ms if count else None)
        assert index.state == state
        assert index.last_physical_offset == (self.keys[count - 1].physical_offset if count else None)
        index.close()
        assert self.files() == self.expected(count)


def operations(tmp_path: Path) -> int:
    """How many things a whole run does to the disk."""
    writer = Writer(tmp_path / "whole", 0)
    (tmp_path / "whole").mkdir()
    writer.disk.die_after = 1 << 30
    writer.run()
    assert writer.files() == writer.expected(len(writer.keys))
    return (1 << 30) - int(writer.disk.die_after)


@pytest.mark.parametrize("cut", [False, True], ids=["killed", "power cut"])
def test_death_at_every_operation(cut: bool, tmp_path: Path) -> None:
    count = operations(tmp_path)
    assert count > 60
    for fatal in range(count + 1):
        for seed in range(3 if cut else 1):
            writer = Writer(tmp_path / f"{fatal}-{seed}", seed)
            writer.root.mkdir()
            writer.disk.die_after = fatal
            try:
                writer.run()
            except writer.died:
                pass
            else:
                assert fatal == count or seed
            if cut:
                writer.disk.cut(writer.dice)
            else:
                writer.disk.kill()
            writer.check_slots()
            writer.recover()
            writer.go_on()
            assert writer.files() == writer.expected(len(writer.keys))


def test_power_cut_within_a_rewind(tmp_path: Path) -> None:
    """Rewinding from far ahead, cut at each of its operations, and done again."""
    fatal, went_through = 0, 0
    while went_through < 2:
        writer = Writer(tmp_path / str(fatal), fatal)
        writer.root.mkdir()
        writer.run()
        half = sum(BATCHES[:4])
        early = Writer(tmp_path / f"{fatal}-early", fatal)
        early.root.mkdir()
        index = early.open()
        index.put(plain_index.key_entries_of(early.keys[:half]))
        writer.flushed = (early_state := index.flush(), half)
        index.close()
        # Clocks stand still: the files of both have the same names.
        assert early_state.file in [int(path.name) for path in (writer.root / "index").iterdir()]
        writer.disk.die_after = fatal
        try:
            writer.recover()
            went_through += 1
        except writer.died:
            pass
        writer.disk.cut(writer.dice)
        writer.check_slots()
        writer.recover()
        writer.go_on()
        assert writer.files() == writer.expected(len(writer.keys))
        fatal += 1
    assert fatal > 5
