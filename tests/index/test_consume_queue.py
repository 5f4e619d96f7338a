"""A consume queue on disk: files of fixed length, an end that only moves after its entries, zeros behind it."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flightlog.index.queue.consume_queue import ConsumeQueue
from flightlog.index.queue.queue_sync import Unsynced
from flightlog.index.queue.queue_unit import FILLER, UNIT_DTYPE, decode_units
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import FileGoneError, SegmentLengthError
from flightlog.testing.faulty_disk import FaultyDisk

ENTRIES = 10


def units(*places: int) -> Any:
    """Entries of records at these physical offsets."""
    return np.array([(place, 100, place * 3) for place in places], UNIT_DTYPE)


def queue_at(folder: Path, *, thorough: bool = True, entries: int = ENTRIES) -> ConsumeQueue:
    queue = ConsumeQueue(RealDisk(), folder, entries)
    queue.load(thorough=thorough)
    return queue


def places(queue: ConsumeQueue) -> list[int]:
    found: list[int] = queue.units(queue.min_index, queue.end - queue.min_index)["physical_offset"].tolist()
    return found


def names(folder: Path) -> list[int]:
    return [int(path.name) for path in sorted(folder.iterdir())]


def test_a_queue_without_files(tmp_path: Path) -> None:
    queue = queue_at(tmp_path / "t" / "0")
    assert (queue.min_index, queue.end, len(queue.units(0, 5))) == (0, 0, 0)
    assert (queue.first_at_or_after(0), queue.filler_count()) == (0, 0)
    queue.truncate(0)
    queue.set_min_offset(100)
    queue.put(0, units())
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("thorough", [True, False])
def test_files_roll(thorough: bool, tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    for i in range(35):
        queue.put(i, units(i * 100))
        assert queue.end == i + 1
    assert names(tmp_path) == [0, 200, 400, 600]
    assert {path.stat().st_size for path in tmp_path.iterdir()} == {200}
    again = queue_at(tmp_path, thorough=thorough)
    assert (again.min_index, again.end) == (0, 35)
    assert places(again) == [i * 100 for i in range(35)]
    assert again.units(8, 4).tolist() == [(i * 100, 100, i * 300) for i in range(8, 12)]
    assert len(again.units(35, 10)) == 5 and not again.units(35, 10)["size"].any()
    assert len(again.units(40, 10)) == 0 and len(again.units(30, 0)) == 0


def test_one_put_over_many_files(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, units(*range(0, 4200, 100)))
    assert names(tmp_path) == [0, 200, 400, 600, 800]
    assert places(queue_at(tmp_path)) == list(range(0, 4200, 100))


@pytest.mark.parametrize("thorough", [True, False])
@pytest.mark.parametrize("full", [10, 20, 40])
def test_an_end_at_the_edge_of_a_file(full: int, thorough: bool, tmp_path: Path) -> None:
    queue_at(tmp_path).put(0, units(*range(full)))
    again = queue_at(tmp_path, thorough=thorough)
    assert again.end == full
    again.put(full, units(5000))
    assert queue_at(tmp_path, thorough=thorough).end == full + 1


def test_a_queue_that_starts_above_zero(tmp_path: Path) -> None:
    """As RocketMQ: the file that holds the first entry, with filler before it."""
    queue = queue_at(tmp_path, entries=50)
    queue.put(137, units(9000))
    assert names(tmp_path) == [2000]
    assert (queue.min_index, queue.end, queue.filler_count()) == (137, 138, 37)
    assert (tmp_path / f"{2000:020d}").read_bytes()[: 38 * 20] == FILLER * 37 + units(9000).tobytes()
    for thorough in (True, False):
        again = queue_at(tmp_path, entries=50, thorough=thorough)
        assert (again.min_index, again.end) == (137, 138)


def test_a_hole_becomes_filler(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, units(1, 2, 3))
    queue.put(25, units(4))
    assert queue.end == 26
    assert queue.units(3, 22).tobytes() == FILLER * 22
    queue.put(3, units(*range(10, 32)))
    assert places(queue_at(tmp_path)) == [1, 2, 3, *range(10, 32), 4]


def test_a_put_over_entries_keeps_those_behind(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, units(*range(20)))
    queue.put(5, units(500, 501))
    assert queue.end == 20
    assert places(queue) == [0, 1, 2, 3, 4, 500, 501, *range(7, 20)]


def test_a_put_before_the_first_entry(tmp_path: Path) -> None:
    """A log that turned out to hold older messages than the queue did: they are in the queue afterwards."""
    queue = queue_at(tmp_path)
    queue.put(25, units(2500))
    assert queue.min_index == 25
    queue.put(22, units(2200, 2300, 2400))
    assert (queue.min_index, queue.end, places(queue)) == (22, 26, [2200, 2300, 2400, 2500])
    again = queue_at(tmp_path)
    assert (again.min_index, again.end, places(again)) == (22, 26, [2200, 2300, 2400, 2500])


def test_a_put_before_the_first_file(tmp_path: Path) -> None:
    """Its file is not there: the queue begins anew, and whoever dispatches older messages goes on to the newer ones."""
    queue = queue_at(tmp_path)
    queue.put(25, units(2500))
    queue.put(3, units(*range(300, 400, 50)))
    assert (queue.min_index, queue.end, places(queue)) == (3, 5, [300, 350])
    queue.put(5, units(*range(500, 2600, 100)))
    assert places(queue) == [300, 350, *range(500, 2600, 100)]
    again = queue_at(tmp_path)
    assert (again.min_index, again.end) == (3, 26)
    assert places(again) == places(queue)


@pytest.mark.parametrize("end", [0, 1, 9, 10, 11, 25, 34, 35, 100])
def test_truncation_leaves_nothing_behind(end: int, tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, units(*range(100, 135)))
    queue.truncate(end)
    kept = min(end, 35)
    assert queue.end == kept
    files = names(tmp_path)
    assert files == [i * 200 for i in range(-(-kept // ENTRIES))]
    raw = b"".join((tmp_path / f"{name:020d}").read_bytes() for name in files)
    assert raw == units(*range(100, 100 + kept)).tobytes().ljust(len(raw), b"\0")
    for thorough in (True, False):
        assert queue_at(tmp_path, thorough=thorough).end == kept


def test_truncation_of_a_queue_that_starts_above_zero(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(25, units(2500, 2600))
    queue.truncate(25)
    assert (queue.min_index, queue.end) == (25, 25)
    queue.put(25, units(7000))
    assert places(queue_at(tmp_path)) == [7000]


def test_expired_entries_are_skipped_and_offsets_kept(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, units(*range(0, 3500, 100)))
    queue.set_min_offset(1450)
    assert (queue.min_index, queue.end) == (15, 35)
    queue.set_min_offset(1400)
    assert queue.min_index == 15
    queue.set_min_offset(99_999)
    assert (queue.min_index, queue.end) == (35, 35)
    queue.put(35, units(99_999))
    assert (queue.min_index, places(queue)) == (35, [99_999])


def test_first_at_or_after(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(25, units(*range(2500, 3500, 100)))
    found = [queue.first_at_or_after(place) for place in (0, 2500, 2501, 2600, 3400, 3401, 9999)]
    assert found == [25, 25, 26, 26, 34, 35, 35]


def test_a_file_of_the_wrong_length(tmp_path: Path) -> None:
    queue_at(tmp_path).put(0, units(*range(25)))
    path = tmp_path / f"{200:020d}"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SegmentLengthError) as raised:
        queue_at(tmp_path)
    assert (raised.value.path, raised.value.found, raised.value.expected) == (path, 199, 200)


def test_what_a_killed_writer_may_leave(tmp_path: Path) -> None:
    """An empty file, made and not yet given its length; strange names are none of our business."""
    queue_at(tmp_path).put(0, units(*range(10)))
    (tmp_path / f"{200:020d}").write_bytes(b"")
    (tmp_path / "notes").write_bytes(b"x")
    (tmp_path / f"{400:020d}").mkdir()
    for thorough in (True, False):
        queue = queue_at(tmp_path, thorough=thorough)
        assert (queue.min_index, queue.end) == (0, 10)
    queue.put(10, units(77))
    assert places(queue_at(tmp_path))[-1] == 77


@pytest.mark.parametrize("thorough", [True, False])
def test_an_empty_file_hides_none_that_is_listed_behind_it(thorough: bool, tmp_path: Path) -> None:
    queue_at(tmp_path).put(20, units(*range(20, 40)))
    (tmp_path / f"{0:020d}").write_bytes(b"")
    queue = queue_at(tmp_path, thorough=thorough)
    assert (queue.min_index, queue.end) == (20, 40)


def test_what_lies_behind_a_missing_file_is_not_reached(tmp_path: Path) -> None:
    queue_at(tmp_path).put(0, units(*range(40)))
    (tmp_path / f"{400:020d}").unlink()
    for thorough in (True, False):
        queue = queue_at(tmp_path, thorough=thorough)
        assert queue.end == 20
    queue.put(20, units(*range(20, 40)))
    assert places(queue_at(tmp_path)) == list(range(40))


@pytest.mark.parametrize("zeroed_from", [0, 3, 12, 25, 39, 41, 55])
def test_the_thorough_end_is_before_the_first_zero_however_far_back(zeroed_from: int, tmp_path: Path) -> None:
    """A lost power may cost several files of a queue their entries."""
    queue_at(tmp_path).put(0, units(*range(1, 61)))
    raw = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))[: zeroed_from * 20].ljust(1200, b"\0")
    for path in tmp_path.iterdir():
        path.write_bytes(raw[int(path.name) : int(path.name) + 200])
    assert queue_at(tmp_path).end == zeroed_from


@pytest.mark.parametrize("number", [0, 1])
def test_a_hole_in_the_last_files_ends_the_queue(number: int, tmp_path: Path) -> None:
    """It lies in the file before the last one."""
    queue_at(tmp_path).put(0, units(*range(1, 10 * number + 21)))
    path = tmp_path / f"{200 * number:020d}"
    path.write_bytes(path.read_bytes()[:100] + bytes(20) + path.read_bytes()[120:])
    assert queue_at(tmp_path).end == 10 * number + 5


def test_a_file_that_vanishes_under_a_reader(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, units(*range(30)))
    (tmp_path / f"{200:020d}").unlink()
    assert queue.units(8, 5)["physical_offset"].tolist() == [8, 9]
    assert len(queue.units(10, 5)) == 0
    assert queue.units(20, 5)["physical_offset"].tolist() == [20, 21, 22, 23, 24]


def test_written_files_are_named_once_for_syncing(tmp_path: Path) -> None:
    unsynced = Unsynced()
    queue = ConsumeQueue(RealDisk(), tmp_path, ENTRIES, unsynced=unsynced)
    queue.put(0, units(*range(15)))
    taken = unsynced.take()
    assert taken.files == {tmp_path / f"{0:020d}", tmp_path / f"{200:020d}"}
    assert tmp_path in taken.folders
    assert unsynced.take() == Unsynced()
    queue.put(15, units(15))
    assert unsynced.take() == Unsynced({tmp_path / f"{200:020d}"})
    queue.truncate(5)
    assert unsynced.take() == Unsynced({tmp_path / f"{0:020d}"})


def test_an_end_in_a_file_without_holes(tmp_path: Path) -> None:
    """All its zeros are written: it is found by a search, not by where nothing is."""
    queue = queue_at(tmp_path, entries=1000)
    queue.put(0, units(*range(1, 301)))
    path = tmp_path / f"{0:020d}"
    path.write_bytes(path.read_bytes())
    for thorough in (True, False):
        again = queue_at(tmp_path, entries=1000, thorough=thorough)
        assert (again.min_index, again.end, places(again)) == (0, 300, [*range(1, 301)])


@pytest.mark.parametrize("thorough", [True, False])
@pytest.mark.parametrize("empty", [1, 2])
def test_files_without_entries_behind_the_end(empty: int, thorough: bool, tmp_path: Path) -> None:
    """A writer died when it had given a file its length, or RocketMQ made one ahead."""
    queue_at(tmp_path).put(0, units(*range(1, 21)))
    for number in range(2, 2 + empty):
        with (tmp_path / f"{number * 200:020d}").open("wb") as file:
            file.truncate(200)
    queue = queue_at(tmp_path, thorough=thorough)
    assert (queue.min_index, queue.end) == (0, 20)
    queue.put(20, units(77))
    assert places(queue_at(tmp_path, thorough=thorough))[-1] == 77


@pytest.mark.parametrize("thorough", [True, False])
@pytest.mark.parametrize("files", [1, 2])
def test_files_are_listed_anew_where_one_of_them_goes_meanwhile(files: int, thorough: bool, tmp_path: Path) -> None:
    """Its start must not be taken for the queue's end. One that stays in the list and cannot be opened is told."""
    queue_at(tmp_path).put(0, units(*range(1, files * ENTRIES + 1)))
    disk = FaultyDisk()
    fault = disk.fail("open", f"{(files - 1) * 200:020d}", errno.ENOENT, times=1)
    queue = ConsumeQueue(disk, tmp_path, ENTRIES)
    queue.load(thorough=thorough)
    assert (fault.hits, queue.end, places(queue)) == (1, files * ENTRIES, [*range(1, files * ENTRIES + 1)])
    disk.fail("open", f"{(files - 1) * 200:020d}", errno.ENOENT)
    with pytest.raises(FileGoneError):
        ConsumeQueue(disk, tmp_path, ENTRIES).load(thorough=thorough)


def test_old_files_go_and_the_last_one_stays(tmp_path: Path) -> None:
    unsynced = Unsynced()
    queue = ConsumeQueue(RealDisk(), tmp_path, ENTRIES, unsynced=unsynced)
    queue.put(0, units(*range(0, 3500, 100)))
    queue.set_min_offset(1999)
    (tmp_path / f"{0:020d}").unlink()  # somebody was faster
    assert queue.expire() == [tmp_path / f"{0:020d}", tmp_path / f"{200:020d}"]
    assert names(tmp_path) == [400, 600] and queue.expire() == []
    assert unsynced.take().files == {tmp_path / f"{400:020d}", tmp_path / f"{600:020d}"}, "no sync of what is gone"
    assert (queue.min_index, queue.end, places(queue)) == (20, 35, [*range(2000, 3500, 100)])
    queue.set_min_offset(99_999)
    assert queue.expire() == [tmp_path / f"{400:020d}"]
    assert names(tmp_path) == [600]
    queue.put(35, units(3500))
    assert queue_at(tmp_path).end == 36


def test_a_removed_queue_is_gone_but_for_what_is_not_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "t" / "0"
    queue = queue_at(folder)
    queue.put(0, units(*range(25)))
    (folder / "folder").mkdir()
    queue.remove_all()
    assert (queue.min_index, queue.end, len(queue.units(0, 5))) == (0, 0, 0)
    assert [path.name for path in folder.iterdir()] == ["folder"]
    (folder / "folder").rmdir()
    queue.remove_all()
    assert not folder.exists()


def test_a_queue_begins_anew_where_the_next_put_is(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put(0, units(*range(25)))
    queue.restart()
    assert (queue.min_index, queue.end, names(tmp_path)) == (0, 0, [])
    queue.put(47, units(9000))
    assert (queue.min_index, queue.end, names(tmp_path)) == (47, 48, [800])
    again = queue_at(tmp_path)
    assert (again.min_index, places(again)) == (47, [9000])


def test_what_is_written_again_goes_on_to_where_the_files_end(tmp_path: Path) -> None:
    """A file that has gone under it ends it: what stands behind cannot be reached by position."""
    unsynced = Unsynced()
    queue_at(tmp_path).put(0, units(*range(100, 135)))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    queue = ConsumeQueue(RealDisk(), tmp_path, ENTRIES, unsynced=unsynced)
    queue.load(thorough=True)
    queue.write_again(15)
    taken = unsynced.take()
    assert taken.files == {tmp_path / f"{name:020d}" for name in (200, 400, 600)}
    assert tmp_path in taken.folders, "their maker died before it had synced the names"
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / f"{200:020d}").unlink()
    queue.write_again(15)
    assert (queue.end, names(tmp_path)) == (35, [0, 400, 600])


Step = tuple[str, int, int]


@settings(max_examples=60, deadline=None)
@given(
    entries=st.integers(1, 12),
    thorough=st.booleans(),
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "truncate", "reload"]), st.integers(0, 40), st.integers(0, 30)), max_size=12
    ),
)
def test_as_a_list(entries: int, thorough: bool, steps: list[Step], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever is put, truncated and loaded again, the queue is the list that a reader would expect."""
    folder = tmp_path_factory.mktemp("queue")
    queue = queue_at(folder, entries=entries)
    model: list[int] = []
    filler = int(decode_units(FILLER)["physical_offset"][0])
    for number, (step, at, count) in enumerate(steps):
        if step == "put" and count:
            if not model:
                at = 0
            new = list(range(1000 * number, 1000 * number + count))
            model += [filler] * (at - len(model))
            model[at : at + count] = new
            queue.put(at, units(*new))
        elif step == "truncate" and at < len(model):
            del model[at:]
            queue.truncate(at)
        elif step == "reload" and not (model and 0 in model):
            queue = queue_at(folder, entries=entries, thorough=thorough)
        assert queue.end == len(model)
        assert queue.units(0, len(model))["physical_offset"].tolist() == model
    raw = b"".join(path.read_bytes() for path in sorted(folder.iterdir())) if folder.exists() else b""
    assert not raw[len(model) * 20 :].strip(b"\0")
