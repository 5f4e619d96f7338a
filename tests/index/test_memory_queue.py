"""A queue whose missing end is kept in memory: for a reader it is as if the entries had been put on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flightlog.index.queue.consume_queue import ConsumeQueue
from flightlog.index.queue.memory_queue import MemoryQueue
from flightlog.index.queue.queue_unit import FILLER, UNIT_DTYPE, decode_units
from flightlog.store.disk.disk import RealDisk, RealFile
from flightlog.store.disk.disk_errors import disk_errors

ENTRIES = 10


def units(*places: int) -> Any:
    return np.array([(place, 100, place * 3) for place in places], UNIT_DTYPE)


def on_disk(folder: Path, start: int = 0, places: range = range(0)) -> ConsumeQueue:
    writer = ConsumeQueue(RealDisk(), folder, ENTRIES)
    writer.put(start, units(*places))
    queue = ConsumeQueue(RealDisk(), folder, ENTRIES)
    queue.load(thorough=True)
    return queue


def places(queue: MemoryQueue) -> list[int]:
    found: list[int] = queue.units(queue.min_index, queue.end - queue.min_index)["physical_offset"].tolist()
    return found


@pytest.fixture
def frozen(tmp_path: Path) -> Any:
    """Entries 0..24 on disk, and proof at the end that nothing there was changed."""
    queue = on_disk(tmp_path, 0, range(25))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    yield queue
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_only_what_is_on_disk(frozen: ConsumeQueue) -> None:
    queue = MemoryQueue(frozen)
    assert (queue.min_index, queue.end, places(queue)) == (0, 25, list(range(25)))
    assert len(queue.units(25, 5)) == 0 and len(queue.units(30, 5)) == 0


def test_entries_go_on_in_memory(frozen: ConsumeQueue) -> None:
    queue = MemoryQueue(frozen)
    for i in range(25, 200):
        queue.put(i, units(i))
    assert (queue.end, places(queue)) == (200, list(range(200)))
    assert queue.units(23, 4)["physical_offset"].tolist() == [23, 24, 25, 26]
    assert queue.units(23, 4).dtype == UNIT_DTYPE
    assert [queue.first_at_or_after(i) for i in (0, 24, 25, 26, 199, 200)] == [0, 24, 25, 26, 199, 200]


def test_wrong_entries_are_replaced_in_memory(frozen: ConsumeQueue) -> None:
    queue = MemoryQueue(frozen)
    queue.put(20, units(*range(120, 130)))
    assert places(queue) == [*range(20), *range(120, 130)]
    queue.put(25, units(7))
    assert places(queue) == [*range(20), *range(120, 125), 7]
    queue.put(3, units(1000))
    assert places(queue) == [0, 1, 2, 1000]


def test_truncation_is_in_memory(frozen: ConsumeQueue) -> None:
    queue = MemoryQueue(frozen)
    queue.put(25, units(25, 26))
    queue.truncate(26)
    assert places(queue) == list(range(26))
    queue.truncate(12)
    assert (queue.end, places(queue)) == (12, list(range(12)))
    assert [queue.first_at_or_after(i) for i in (11, 12, 20)] == [11, 12, 12], "what is on disk behind it is forgotten"
    queue.put(12, units(99))
    assert places(queue) == [*range(12), 99]
    queue.truncate(0)
    assert (queue.min_index, queue.end) == (0, 0)


def test_expired_entries(frozen: ConsumeQueue) -> None:
    queue = MemoryQueue(frozen)
    queue.put(25, units(*range(25, 40)))
    for offset, first in ((0, 0), (10, 10), (24, 24), (25, 25), (33, 33), (40, 40)):
        queue.set_min_offset(offset)
        assert (queue.min_index, queue.end) == (first, 40)


def test_expired_entries_of_a_queue_whose_end_is_wrong_on_disk(frozen: ConsumeQueue) -> None:
    """Entries behind the wrong one must not be looked at, though the disk has them."""
    queue = MemoryQueue(frozen)
    queue.put(5, units(*range(500, 510)))
    queue.set_min_offset(20)
    assert (queue.min_index, places(queue)) == (5, list(range(500, 510)))


def test_a_queue_that_the_disk_does_not_know(tmp_path: Path) -> None:
    queue = MemoryQueue(on_disk(tmp_path / "none"))
    queue.put(137, units(9))
    queue.put(138, units(10))
    assert (queue.min_index, queue.end, places(queue)) == (137, 139, [9, 10])


def test_older_entries_than_the_disk_has(tmp_path: Path) -> None:
    """A queue of whose files only the last is left, under a log that holds everything."""
    queue = MemoryQueue(on_disk(tmp_path, 25, range(2500, 2510)))
    assert (queue.min_index, queue.end) == (25, 35)
    queue.put(0, units(*range(100, 120)))
    assert (queue.min_index, queue.end, places(queue)) == (0, 20, list(range(100, 120)))
    queue.put(20, units(*range(200, 220)))
    assert places(queue) == [*range(100, 120), *range(200, 220)]


def test_a_hole_becomes_filler(frozen: ConsumeQueue) -> None:
    queue = MemoryQueue(frozen)
    queue.put(30, units(300))
    assert queue.end == 31
    assert queue.units(25, 5).tobytes() == FILLER * 5


def test_a_queue_begins_anew_in_memory(frozen: ConsumeQueue) -> None:
    queue = MemoryQueue(frozen)
    queue.put(25, units(25, 26))
    queue.put(27, units())
    assert queue.end == 27 and queue.seen_last is None
    queue.restart()
    assert (queue.min_index, queue.end, len(queue.units(0, 30))) == (0, 0, 0)
    queue.put(47, units(9000))
    assert (queue.min_index, queue.end, places(queue)) == (47, 48, [9000])


def test_no_entries_change_nothing(frozen: ConsumeQueue) -> None:
    queue = MemoryQueue(frozen)
    seen = queue.seen_last
    queue.put(3, units())
    assert (queue.end, places(queue), queue.seen_last) == (25, list(range(25)), seen) and seen is not None


def test_the_file_behind_an_entry(frozen: ConsumeQueue) -> None:
    assert [MemoryQueue(frozen).next_file_index(index) for index in (0, 9, 10, 24)] == [10, 10, 20, 30]


Step = tuple[str, int, int]


@settings(max_examples=60, deadline=None)
@given(
    known=st.integers(0, 25),
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "truncate"]), st.integers(0, 40), st.integers(0, 30)), max_size=12
    ),
)
def test_as_a_list(known: int, steps: list[Step], tmp_path_factory: pytest.TempPathFactory) -> None:
    queue = MemoryQueue(on_disk(tmp_path_factory.mktemp("queue"), 0, range(known)))
    model = list(range(known))
    filler = int(decode_units(FILLER)["physical_offset"][0])
    for number, (step, at, count) in enumerate(steps, 1):
        if step == "put" and count:
            if not model:
                at = 0
            new = list(range(1000 * number, 1000 * number + count))
            model = [*model[:at], *[filler] * (at - len(model)), *new]
            queue.put(at, units(*new))
        elif step == "truncate" and at < len(model):
            del model[at:]
            queue.truncate(at)
        assert (queue.min_index, queue.end) == (0, len(model))
        assert queue.units(0, len(model))["physical_offset"].tolist() == model


def test_files_that_the_writer_removed_since_are_no_entries(tmp_path: Path) -> None:
    """Nor do the entries behind them move up."""
    queue = MemoryQueue(on_disk(tmp_path, 0, range(25)))
    queue.put(25, units(*range(25, 40)))
    for number in (0, 1):
        (tmp_path / f"{number * ENTRIES * 20:020d}").unlink()
    assert len(queue.units(5, 30)) == 0
    assert queue.units(20, 10)["physical_offset"].tolist() == list(range(20, 30))
    queue.skip_removed()
    assert (queue.min_index, places(queue)) == (20, list(range(20, 40)))
    (tmp_path / f"{2 * ENTRIES * 20:020d}").unlink()
    queue.skip_removed()
    assert queue.min_index == 20, "all are gone: that is none of retention's"
    (tmp_path / f"{3 * ENTRIES * 20:020d}").touch()  # the writer goes on
    queue.skip_removed()
    assert (queue.min_index, places(queue)) == (25, list(range(25, 40)))
    assert len(queue.units(20, 20)) == 0 and queue.units(25, 3)["physical_offset"].tolist() == [25, 26, 27]


class RemovingFile(RealFile):
    """Tells its disk of every use."""

    def __init__(self, disk: RemovingDisk, path: Path) -> None:
        super().__init__(path, os.open(path, os.O_RDONLY), False)
        self._disk = disk

    def has_name(self) -> bool:
        self._disk.meet()
        return super().has_name()


class RemovingDisk(RealDisk):
    """Removes two files at the n-th use of one: a writer that cleans up in the middle of a view's look."""

    def __init__(self, folder: Path, nth: int) -> None:
        self._folder, self.left = folder, nth

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        self.meet()
        with disk_errors(path, "opening it"):
            return RemovingFile(self, path)

    def meet(self) -> None:
        self.left -= 1
        if self.left == 0:
            for old in sorted(self._folder.iterdir())[:2]:
                old.unlink()


@pytest.mark.parametrize("nth", range(1, 12))
@pytest.mark.parametrize("start", [20, 23, 38, 45, 50])
def test_files_that_go_while_the_start_is_looked_for(start: int, nth: int, tmp_path: Path) -> None:
    on_disk(tmp_path, 0, range(45))
    disk = RemovingDisk(tmp_path, 0)
    below = ConsumeQueue(disk, tmp_path, ENTRIES)
    below.load(thorough=True)
    queue = MemoryQueue(below)
    queue.put(45, units(*range(45, 50)))
    disk.left = nth
    queue.set_min_offset(start)
    assert queue.min_index == start and places(queue) == list(range(start, 50))
