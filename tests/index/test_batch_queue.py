"""A batch queue on disk: 46 bytes a batch, to readers a queue of messages like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flightlog.index.queue import batch_queue
from flightlog.index.queue.batch_queue import ASK_THE_RECORD, BatchQueue
from flightlog.index.queue.batch_unit import BATCH_UNIT_DTYPE, BATCH_UNIT_SIZE, NOT_COMPACTED
from flightlog.index.queue.queue_sync import Unsynced
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import SegmentLengthError

ENTRIES = 4
FILE_SIZE = ENTRIES * BATCH_UNIT_SIZE


def batches(first: int, stop: int, *, moved: int = 0) -> Any:
    """Batch i: three messages from queue offset 3 i on, in a record of 300 bytes at 1000 i."""
    rows = [(1000 * i + moved, 300, 7, 5, 3 * i, 3, NOT_COMPACTED, 0) for i in range(first, stop)]
    return np.array(rows, BATCH_UNIT_DTYPE)


def queue_at(folder: Path, unsynced: Unsynced | None = None, *, in_memory: bool = False) -> BatchQueue:
    queue = BatchQueue(RealDisk(), folder, ENTRIES, unsynced or Unsynced(), in_memory=in_memory)
    queue.load()
    return queue


def path_of(folder: Path, number: int) -> Path:
    return folder / f"{number * FILE_SIZE:020d}"


def names(folder: Path) -> list[int]:
    return [int(path.name) // FILE_SIZE for path in sorted(folder.iterdir())]


def whole(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten batches in three files."""
    queue = queue_at(tmp_path / "t" / "0")
    queue.put_batches(batches(0, 10))
    return tmp_path / "t" / "0"


@pytest.mark.parametrize("read_size", [BATCH_UNIT_SIZE, 2 * BATCH_UNIT_SIZE, 1 << 20])
def test_what_was_put_is_loaded(read_size: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is read at once."""
    monkeypatch.setattr(batch_queue, "READ_SIZE", read_size)
    for in_memory in (False, True):
        queue = queue_at(folder, in_memory=in_memory)
        assert (queue.min_index, queue.end, len(queue.batches)) == (0, 30, 10)
        assert (queue.batches == batches(0, 10)).all()
    assert whole(folder) == batches(0, 10).tobytes().ljust(3 * FILE_SIZE, b"\0")


def test_a_queue_without_batches(tmp_path: Path) -> None:
    queue = queue_at(tmp_path / "none")
    assert (queue.min_index, queue.end, queue.filler_count()) == (0, 0, 0)
    assert len(queue.units(0, 5)) == 0 and queue.first_at_or_after(0) == queue.next_listed(7) == 0
    queue.write_again(0)
    assert not (tmp_path / "none").exists()


def test_messages_by_queue_offset(folder: Path) -> None:
    queue = queue_at(folder)
    units = queue.units(2, 5)
    assert units["physical_offset"].tolist() == [0, 1000, 1000, 1000, 2000]
    assert set(units["size"].tolist()) == {300} and set(units["tags_code"].tolist()) == {ASK_THE_RECORD}
    assert len(queue.units(28, 100)) == 2 and len(queue.units(30, 5)) == 0 and len(queue.units(99, 5)) == 0
    assert [queue.first_at_or_after(at) for at in (0, 1, 1000, 9000, 9001)] == [0, 3, 3, 27, 30]
    assert [queue.next_file_index(index) for index in (0, 11, 12, 24, 29)] == [12, 12, 24, 30, 30]


def test_a_gap_between_batches_holds_no_message(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    queue.put_batches(batches(0, 2))
    queue.put_batches(batches(4, 5))
    assert queue.units(4, 10)["size"].tolist() == [300, 300, 0, 0, 0, 0, 0, 0, 300, 300]
    assert [queue.next_listed(index) for index in (0, 5, 6, 11, 12, 14, 15, 99)] == [0, 5, 12, 12, 12, 14, 15, 15]
    assert queue_at(tmp_path).end == 15


def test_what_is_no_file_of_it_is_passed_over(folder: Path) -> None:
    (folder / "notes").write_bytes(b"x")
    path_of(folder, 3).write_bytes(b"")
    path_of(folder, 4).mkdir()
    assert queue_at(folder).end == 30
    path_of(folder, 2).write_bytes(b"cut off")
    with pytest.raises(SegmentLengthError) as raised:
        queue_at(folder)
    assert (raised.value.path, raised.value.found, raised.value.expected) == (path_of(folder, 2), 7, FILE_SIZE)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_what_lies_behind_a_missing_file_is_put_again(missing: int, folder: Path) -> None:
    before = whole(folder)
    path_of(folder, missing).unlink()
    queue = queue_at(folder)
    there = range(4, 10) if missing == 0 else range(4 * missing)
    assert (queue.min_index, queue.end) == (3 * there.start, 3 * there.stop)
    assert (queue.batches == batches(there.start, there.stop)).all()
    if missing:
        assert len(queue.put_batches(batches(0, 10))) == 10 - there.stop
        assert whole(folder) == before


@pytest.mark.parametrize("entry", [0, 3, 4, 9])
def test_garbage_ends_the_queue(entry: int, folder: Path) -> None:
    """A whole file before it counts, however many files come behind it."""
    path = path_of(folder, entry // ENTRIES)
    raw = bytearray(path.read_bytes())
    at = entry % ENTRIES * BATCH_UNIT_SIZE
    raw[at : at + BATCH_UNIT_SIZE] = b"\xff" * BATCH_UNIT_SIZE
    path.write_bytes(raw)
    queue = queue_at(folder)
    assert queue.end == 3 * entry and len(queue.batches) == entry


@pytest.mark.parametrize("end", [0, 1, 3, 11, 12, 14, 24, 29, 30])
def test_truncation_leaves_nothing_behind(end: int, folder: Path) -> None:
    """A batch that reaches beyond the new end goes as a whole."""
    unsynced = Unsynced()
    queue = queue_at(folder, unsynced)
    queue.truncate(end)
    kept = end // 3
    assert (queue.end, len(queue.batches)) == (3 * kept, kept)
    assert names(folder) == [*range(-(-kept // ENTRIES))]
    assert whole(folder) == batches(0, kept).tobytes().ljust(-(-kept // ENTRIES) * FILE_SIZE, b"\0")
    assert unsynced.take().files == ({path_of(folder, kept // ENTRIES)} if kept % ENTRIES and kept < 10 else set())
    queue.put_batches(batches(0, 10))
    assert (queue_at(folder).batches == batches(0, 10)).all()


def test_batches_of_other_records_replace_those_that_are_there(folder: Path) -> None:
    queue = queue_at(folder)
    assert len(queue.put_batches(batches(3, 7))) == 0, "they are there already"
    assert len(queue.put_batches(batches(5, 8, moved=1))) == 3
    assert (queue.end, len(queue.batches)) == (24, 8)
    assert whole(folder) == batches(0, 5).tobytes() + batches(5, 8, moved=1).tobytes()


def test_a_view_changes_nothing_on_disk(folder: Path) -> None:
    before = whole(folder)
    view = queue_at(folder, in_memory=True)
    view.put_batches(batches(5, 20, moved=1))
    assert view.end == 60 and view.units(59, 1)["physical_offset"].tolist() == [19_001]
    view.truncate(4)
    assert (view.end, len(view.batches)) == (3, 1)
    view.skip_removed()
    assert whole(folder) == before


def test_old_files_go_and_the_last_one_stays(folder: Path) -> None:
    unsynced = Unsynced()
    queue = queue_at(folder, unsynced)
    queue.put_batches(batches(10, 12))
    queue.set_min_offset(7500)
    assert (queue.min_index, queue.end) == (24, 36)
    path_of(folder, 0).unlink()  # somebody was faster
    assert queue.expire() == [path_of(folder, 0), path_of(folder, 1)]
    assert names(folder) == [2] and queue.expire() == []
    assert unsynced.take().files == {path_of(folder, 2)}
    assert queue.units(24, 2)["physical_offset"].tolist() == [8000, 8000]
    assert [queue.first_at_or_after(at) for at in (0, 9000, 99_999)] == [24, 27, 36]
    queue.set_min_offset(99_999)
    assert queue.expire() == [] and names(folder) == [2]
    queue.put_batches(batches(12, 14))
    assert names(folder) == [2, 3]
    again = queue_at(folder)
    assert (again.min_index, again.end) == (24, 42) and (again.batches == batches(8, 14)).all()


def test_a_removed_queue_is_gone_but_for_what_is_not_its_own(folder: Path) -> None:
    queue = queue_at(folder)
    (folder / "folder").mkdir()
    queue.remove_all()
    assert (queue.min_index, queue.end, len(queue.units(0, 5))) == (0, 0, 0)
    assert [path.name for path in folder.iterdir()] == ["folder"]
    (folder / "folder").rmdir()
    queue.remove_all()
    assert not folder.exists()
    queue.put_batches(batches(0, 2))
    assert queue_at(folder).end == 6


@pytest.mark.parametrize("index", [0, 13, 27, 30, 99])
def test_what_a_dead_writer_left_is_written_again(index: int, folder: Path) -> None:
    """As it is, and the files' names synced with it: all from the batch on that begins at or behind the index."""
    unsynced = Unsynced()
    queue = queue_at(folder, unsynced)
    before = whole(folder)
    queue.write_again(index)
    assert whole(folder) == before
    taken = unsynced.take()
    first = -(-index // 3) // ENTRIES
    assert taken.files == ({path_of(folder, number) for number in range(first, 3)} if index < 28 else set())
    assert (folder in taken.folders) == (index < 28)
