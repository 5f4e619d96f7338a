"""Whatever is put, flushed, rewound, truncated, expired and opened again: the files are byte for byte what a plain
one-key-at-a-time writer makes of the same keys, and queries answer what a list of them answers."""

from __future__ import annotations

import random
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flightlog.index.key.index_check import check_index
from flightlog.index.key.index_file import IndexGeometry, IndexState
from flightlog.index.key.key_index import KeyIndex
from flightlog.store import native
from flightlog.store.disk.disk import Disk
from flightlog.testing.power_disk import PowerDisk
from flightlog.tests.support import plain_index

STEPS = ("put", "put", "put", "flush", "kill", "close", "rewind", "truncate", "expire", "query")
BEGIN_MS = 1_700_000_000_000


class Life:
    """An index under test, and what it should be."""

    def __init__(self, disk: Disk, folder: Path, slots: int, entries: int, dice: random.Random) -> None:
        self.disk, self.folder, self.plain, self.dice = disk, folder, plain_index, dice
        self.slots, self.entries = slots, entries
        self.keys: list[Any] = []
        """Every key ever put and not taken back, expired ones included."""
        self.expired = 0
        """Files that are gone."""
        self.flushed: list[tuple[IndexState, int]] = [(IndexState(), 0)]
        """States that flushes made durable, and how many keys there were."""
        self.physical_offset, self.time_ms = 0, BEGIN_MS
        self.last_is_exact = True
        self.index = self.open()

    def open(self) -> KeyIndex:
        geometry = IndexGeometry(self.slots, self.entries)
        index = KeyIndex(self.disk, self.folder, geometry, self.plain.StillClock())
        index.load()
        assert not index.unreadable and not index.strays
        return index

    # -- what should be there

    def expected_files(self) -> list[bytes]:
        files = self.plain.PlainIndex(self.slots, self.entries, self.keys).files
        return [bytes(file) for file in files[self.expired :]]

    def check_bytes(self) -> None:
        """Compare the files of an index without anything unflushed."""
        paths = sorted((self.folder / "index").iterdir()) if (self.folder / "index").exists() else []
        found, expected = [path.read_bytes() for path in paths], self.expected_files()
        assert len(found) == len(expected)
        for one, other in zip(found[:-1], expected[:-1], strict=True):
            assert one == other
        if found and self.last_is_exact:
            assert found[-1] == expected[-1]
        elif found:
            # What was cut from is timed to the second: the last entry says no more of its record's store time.
            assert found[-1][:8] + found[-1][16:] == expected[-1][:8] + expected[-1][16:]
        state = self.index.state
        assert state == (IndexState(int(paths[-1].name), len(self.last_file_keys()) + 1) if paths else IndexState())

    def last_file_keys(self) -> list[Any]:
        room = self.entries - 1
        return self.keys[(len(self.keys) - 1) // room * room :] if self.keys else []

    def remaining(self) -> list[Any]:
        return self.keys[self.expired * (self.entries - 1) :]

    # -- steps

    def put(self) -> None:
        dice = self.dice
        new = []
        for _ in range(dice.choice((1, 1, 2, 5, 30))):
            self.physical_offset += dice.randrange(1, 300)
            # Times stand still, jump, and in RocketMQ's stores run back.
            self.time_ms = max(
                1, self.time_ms + dice.choice((0, 1, 999, 1000, 50_000, 7_000_000, -1, -2500, -4_000_000))
            )
            for _ in range(dice.choice((1, 1, 2, 4))):
                new.append(
                    self.plain.Key(dice.choice((0, 1, 2, 3, 7, 8, 2**31 - 1)), self.physical_offset, self.time_ms)
                )
        known = self.keys[-dice.randrange(12) :] if self.remaining() and dice.random() < 0.3 else []
        if known:  # a range that is dispatched once more begins with a record, and all of that one's keys
            known = [key for key in self.remaining() if key.physical_offset >= known[0].physical_offset]
        self.index.put(self.plain.key_entries_of(known + new))
        self.keys += new
        self.last_is_exact = True

    def flush(self) -> None:
        state = self.index.flush()
        assert state == self.index.state
        self.flushed.append((state, len(self.keys)))
        self.check_bytes()

    def close(self) -> None:
        self.flush()
        self.index.close()
        self.index = self.open()
        self.check_bytes()

    def kill(self) -> None:
        """Without a flush, and back to the last one."""
        self.index.close()
        self.index = self.open()
        self._rewind(self.flushed[-1])

    def rewind(self) -> None:
        self.flush()
        self._rewind(self.dice.choice(self.flushed))

    def _rewind(self, to: tuple[IndexState, int]) -> None:
        state, count = to
        if self.dice.random() < 0.5:
            self.index.close()
            self.index = self.open()
        assert self.index.rewind(state, self.keys[count - 1].time_ms if count else None)
        del self.keys[count:]
        if not count:
            self.expired = 0
        self.last_is_exact = True
        self._forget_flushes()
        self.check_bytes()

    def truncate(self) -> None:
        self.flush()
        keys = self.remaining()
        low = keys[0].physical_offset if keys else 0
        cut = self.dice.choice((low, low + 1, self.physical_offset, self.physical_offset + 1))
        if self.dice.random() < 0.7:
            cut = self.dice.randint(low, self.physical_offset + 1)
        assert self.index.truncate(cut)
        before = len(self.keys)
        self.keys = [key for key in self.keys if key.physical_offset < cut]
        if not self.remaining():
            self.keys, self.expired = [], 0
        whole_files = len(self.keys) % (self.entries - 1) == 0
        self.last_is_exact = whole_files or (self.last_is_exact and len(self.keys) == before)
        self._forget_flushes()
        self.check_bytes()

    def _forget_flushes(self) -> None:
        """Those of states that are gone; what there is now is durable."""
        self.flushed = [(state, count) for state, count in self.flushed if count < len(self.keys)]
        self.flushed.append((self.index.state, len(self.keys)))

    def expire(self) -> None:
        self.flush()
        keys = self.remaining()
        if not keys:
            return
        room = self.entries - 1
        files = [keys[i : i + room] for i in range(0, len(keys), room)]
        least = self.dice.choice(files)[-1].physical_offset + self.dice.choice((-50, 0, 1))
        gone = 0
        while gone < len(files) - 1 and files[gone][-1].physical_offset < least:
            gone += 1
        assert len(self.index.expire(least)) == gone
        self.expired += gone
        self.flushed = [(s, c) for s, c in self.flushed if c > self.expired * room or c == len(self.keys)]
        self.check_bytes()

    def query(self) -> None:
        dice = self.dice
        keys = self.remaining()
        hash_ = dice.choice((0, 1, 2, 3, 7, 8, 9, 2**31 - 1))
        of_hash = [key for key in reversed(keys) if key.hash == hash_]
        everything = list(dict.fromkeys(key.physical_offset for key in of_hash))
        assert list(self.index.candidates(hash_)) == everything
        begin = dice.choice((0, BEGIN_MS, self.time_ms, self.time_ms - dice.randrange(10_000_000)))
        end = dice.choice((None, self.time_ms, begin + dice.randrange(10_000_000)))
        wanted = [
            key.physical_offset
            for key in of_hash
            # A file's times are those of its first and its last record: others may lie an hour outside.
            if begin <= key.time_ms and (end is None or key.time_ms <= end)
        ]
        found = list(self.index.candidates(hash_, begin, end))
        assert found == [offset for offset in everything if offset in set(found)]
        assert set(wanted) <= set(found) or self.ran_back_far()

    def ran_back_far(self) -> bool:
        """Whether times ran back by more than the hour that is allowed for."""
        highest = 0
        for key in self.remaining():
            if key.time_ms < highest - 3_600_000:
                return True
            highest = max(highest, key.time_ms)
        return False


@pytest.mark.ci
@settings(max_examples=300, deadline=None)
@given(
    slots=st.integers(1, 9),
    entries=st.integers(2, 40),
    kernel=st.sampled_from(native.available()),
    steps=st.lists(st.sampled_from(STEPS), min_size=4, max_size=25),
    seed=st.integers(0, 2**32),
)
def test_as_a_plain_writer(
    slots: int,
    entries: int,
    kernel: str,
    steps: list[str],
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("index")
    disk = PowerDisk(folder, keeps_notes=False)  # whose syncs take no time
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "link_keys", import_module(native.MODULES[kernel], native.__name__).link_keys)
        patch.setattr(native, "set_heads", import_module(native.MODULES[kernel], native.__name__).set_heads)
        life = Life(disk, folder, slots, entries, random.Random(seed))
        for step in steps:
            getattr(life, step)()
        life.close()
        life.query()
        for check in check_index(life.index, 1 << 40):
            assert check.problems == []
        life.index.close()
