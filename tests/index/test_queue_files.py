"""Queue files that are kept open: how many, how long, and that nobody reads one that is no more."""

from __future__ import annotations

import errno
import os
import random
import threading
from pathlib import Path

import numpy as np
import pytest

from flightlog.index.queue.queue_files import MOST_OPEN_FILES, QueueFiles
from flightlog.index.queue.queue_table import QueueTable
from flightlog.index.queue.queue_unit import UNIT_DTYPE, Units
from flightlog.store.disk.disk import RealDisk, RealFile
from flightlog.store.errors import FileGoneError, TooManyFilesError
from flightlog.testing.faulty_disk import FaultyDisk

FEW = 4


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


def made(folder: Path, count: int) -> list[Path]:
    """Files that each hold their own number."""
    paths = [folder / str(number) for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(b"%04d" % number)
    return paths


def read(files: QueueFiles, path: Path) -> bytes:
    return files.get(path).read(0, 4)


def units(*places: int) -> Units:
    return np.array([(place, 100, 0) for place in places], UNIT_DTYPE)


def table_at(root: Path, disk: RealDisk, *, queues: int = 1, entries: int = 25) -> QueueTable:
    table = QueueTable(disk, root, 10, in_memory=False)
    for queue_id in range(queues):
        table.get_or_create(("t", queue_id)).put(0, units(*range(entries)))
    return table


def names_open(root: Path) -> set[str]:
    """The files below a folder that this process has open, as Linux names them: with a note behind one that is gone."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue
        if target.startswith(f"{root}{os.sep}") and "consumequeue" in target:
            found.add(target[len(str(root)) + 1 :])
    return found


def test_a_file_in_use_is_opened_once(disk: FaultyDisk, tmp_path: Path) -> None:
    table = table_at(tmp_path, disk)
    queue = table.get_or_create(("t", 0))
    opened = disk.count("open") + disk.count("create")
    for index in range(20):
        assert queue.units(index, 1)["physical_offset"].tolist() == [index]
        queue.put(25 + index, units(25 + index))
    assert disk.count("open") + disk.count("create") == opened + 2, "two more files, and no second time"


def test_no_more_are_open_than_may_be_and_those_in_use_stay(disk: FaultyDisk, tmp_path: Path) -> None:
    paths, files = made(tmp_path, 3 * FEW), QueueFiles(disk, FEW)
    for number, path in enumerate(paths):
        for hot in paths[:2]:
            read(files, hot)
        assert read(files, path) == b"%04d" % number
        assert len(files) <= FEW
    assert [disk.count("open", str(hot)) for hot in paths[2:]] == [1] * (len(paths) - 2)
    assert disk.counts["open", str(paths[0])] == disk.counts["open", str(paths[1])] == 1


def test_all_in_use_and_one_goes_all_the_same(tmp_path: Path) -> None:
    paths, files = made(tmp_path, FEW + 1), QueueFiles(RealDisk(), FEW)
    for path in paths[:FEW] * 2:
        read(files, path)
    assert read(files, paths[FEW]) == b"%04d" % FEW and len(files) == FEW


def test_thousands_of_queues_have_few_files_open(tmp_path: Path) -> None:
    table = table_at(tmp_path, RealDisk(), queues=2000, entries=1)
    assert len(table.files) == len(names_open(tmp_path)) == MOST_OPEN_FILES
    assert [queue.units(0, 1)["physical_offset"].tolist() for queue in table.values()] == [[0]] * 2000
    table.close()
    assert not names_open(tmp_path)


def test_whoever_writes_gets_one_that_can_be_written(disk: FaultyDisk, tmp_path: Path) -> None:
    [path] = made(tmp_path, 1)
    files = QueueFiles(disk)
    files.get(path).read(0, 4)
    files.get(path, writable=True).write(0, b"new!")
    assert read(files, path) == b"new!"
    assert (len(files), disk.count("open")) == (1, 2)


def test_a_file_that_somebody_removed_or_replaced(tmp_path: Path) -> None:
    path, other = made(tmp_path, 2)
    files = QueueFiles(RealDisk())
    assert read(files, path) == b"0000"
    other.rename(path)
    assert read(files, path) == b"0001"
    path.unlink()
    with pytest.raises(FileGoneError):
        files.get(path)
    assert len(files) == 0, "nothing keeps its room on the disk"


def test_a_file_that_goes_while_it_is_opened_is_not_kept(tmp_path: Path) -> None:
    """Whoever has removed it has looked for it before it was here."""
    [path] = made(tmp_path, 1)

    class Removing(RealDisk):
        def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
            file = super().open(path, writable=writable, create=create)
            path.unlink()
            files.forget(path)
            return file

    files = QueueFiles(Removing())
    assert read(files, path) == b"0000" and len(files) == 0


def test_what_is_kept_open_is_given_up_where_descriptors_are_short(disk: FaultyDisk, tmp_path: Path) -> None:
    paths, files = made(tmp_path, 3), QueueFiles(disk)
    read(files, paths[0])
    read(files, paths[1])
    disk.fail("open", "", errno.EMFILE, times=1)
    assert read(files, paths[2]) == b"0002" and len(files) == 1
    disk.fail("open", "", errno.EMFILE)
    with pytest.raises(TooManyFilesError):
        read(files, paths[0])
    assert len(files) == 0
    disk.heal()
    assert read(files, paths[0]) == b"0000"


@pytest.mark.parametrize("how", ["retention", "truncation", "anew", "deletion"])
def test_files_that_are_removed_are_let_go_of(how: str, tmp_path: Path) -> None:
    table = table_at(tmp_path, RealDisk())
    queue = next(queue for _, queue in table.on_disk())
    assert len(names_open(tmp_path)) == 3
    if how == "retention":
        queue.set_min_offset(21)
        queue.expire()
    elif how == "truncation":
        queue.truncate(5)
    elif how == "anew":
        queue.restart()
    else:
        table.drop_topic("t")
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("0*") if path.is_file()}
    assert len(left) == {"retention": 1, "truncation": 1}.get(how, 0)
    assert names_open(tmp_path) == left
    table.get_or_create(("t", 0)).put(25, units(7000))
    assert table.get_or_create(("t", 0)).units(25, 1)["physical_offset"].tolist() == [7000]


def test_a_view_sees_that_a_file_was_removed_or_replaced(tmp_path: Path) -> None:
    table_at(tmp_path, RealDisk()).close()
    table = QueueTable(RealDisk(), tmp_path, 10, in_memory=True)
    table.load(thorough=True)
    [queue] = table.values()
    folder = tmp_path / "consumequeue" / "t" / "0"
    assert len(queue.units(0, 25)) == 25
    new = tmp_path / "new"
    new.write_bytes(units(*range(500, 510)).tobytes())
    new.rename(folder / f"{200:020d}")
    assert queue.units(9, 2)["physical_offset"].tolist() == [9, 500]
    (folder / f"{0:020d}").unlink()
    assert len(queue.units(0, 5)) == 0
    queue.skip_removed()
    assert (queue.min_index, len(names_open(tmp_path))) == (10, 2)
    table.close()
    assert queue.units(20, 5)["physical_offset"].tolist() == [20, 21, 22, 23, 24], "one who is still at it"
    assert not names_open(tmp_path), "and nothing is kept"


def test_many_threads_and_files_that_come_and_go(tmp_path: Path) -> None:
    """Whatever a reader is given is what stands below that name now, or did a moment ago."""
    paths, files = made(tmp_path, 3 * FEW), QueueFiles(RealDisk(), FEW)
    wrong: list[BaseException | bytes] = []
    is_over = threading.Event()

    def look(seed: int) -> None:
        dice = random.Random(seed)
        try:
            while not is_over.is_set():
                number = dice.randrange(len(paths))
                try:
                    data = read(files, paths[number])
                except FileNotFoundError:
                    continue
                if data not in (b"%04d" % number, b"%04d" % (9000 + number)):
                    wrong.append(data)
        except BaseException as e:
            wrong.append(e)

    readers = [threading.Thread(target=look, args=(seed,)) for seed in range(4)]
    for reader in readers:
        reader.start()
    try:
        for step in range(300):
            number = step % len(paths)
            paths[number].unlink()
            files.forget(paths[number])
            new = files.get(tmp_path / "new", writable=True, create=True)
            new.write(0, b"%04d" % (9000 + number))
            (tmp_path / "new").rename(paths[number])
            files.forget(tmp_path / "new")
    finally:
        is_over.set()
        for reader in readers:
            reader.join()
    assert not wrong
    assert [read(files, path) for path in paths] == [b"%04d" % (9000 + number) for number in range(len(paths))]
