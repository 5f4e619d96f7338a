"""Index files that go, or are cut, between two looks of whoever reads or writes them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from flightlog.index.key.index_check import check_index
from flightlog.index.key.index_file import IndexGeometry
from flightlog.index.key.index_folder import IndexFolder
from flightlog.index.key.index_geometry import find_index_geometry
from flightlog.index.key.key_index import KeyIndex
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import IndexFileGoneError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import plain_index

GEOMETRY = IndexGeometry(7, 28)
A_FILE = GEOMETRY.entries - 1
BEGIN_MS = 1_700_000_000_000
NAMES = [f"2023111422132000{i}" for i in range(3)]


@pytest.fixture
def keys() -> list[Any]:
    """Keys of one hash, in three files: 27, 27, and 6."""
    return [plain_index.Key(7, 100 * i, BEGIN_MS + 1000 * i) for i in range(60)]


@pytest.fixture
def root(keys: list[Any], tmp_path: Path) -> Path:
    (tmp_path / "index").mkdir()
    files = plain_index.PlainIndex(GEOMETRY.slots, GEOMETRY.entries, keys).files
    for name, file in zip(NAMES, files, strict=True):
        (tmp_path / "index" / name).write_bytes(file)
    return tmp_path


def offsets(index: IndexFolder) -> list[int]:
    return [int(offset) for piece in index.entries() for offset in piece["physical_offset"]]


def loaded(index: IndexFolder) -> IndexFolder:
    index.load()
    return index


def test_a_file_that_goes_while_the_folder_is_loaded(root: Path) -> None:
    disk = FaultyDisk()
    disk.fail("open", NAMES[1], errno.ENOENT)
    index = loaded(IndexFolder(disk, root, GEOMETRY))
    assert [str(file.number) for file in index.files] == [NAMES[0], NAMES[2]]
    assert not index.unreadable and not index.strays and not index.begun


def test_a_file_that_has_gone_is_passed_over(root: Path) -> None:
    index = loaded(IndexFolder(RealDisk(), root, GEOMETRY))
    (root / "index" / NAMES[1]).unlink()
    assert offsets(index) == [*range(0, 2700, 100), *range(5400, 6000, 100)]
    assert [check.path.name for check in check_index(index, 6000)] == [NAMES[0], NAMES[2]]
    assert index.last_physical_offset == 5900


def test_a_file_that_goes_is_not_asked_for_the_geometry(root: Path) -> None:
    disk = FaultyDisk()
    fault = disk.fail("open", NAMES[0], errno.ENOENT)
    assert find_index_geometry(disk, root) == GEOMETRY
    assert fault.hits == 1


@pytest.mark.parametrize("kept", [0, 1, 20, 26])
def test_a_file_that_is_cut_while_it_is_open_ends_there(kept: int, keys: list[Any], root: Path) -> None:
    index = loaded(IndexFolder(RealDisk(), root, GEOMETRY))
    os.truncate(root / "index" / NAMES[1], GEOMETRY.entry_position(1 + kept))
    there = [key.physical_offset for key in keys]
    assert offsets(index) == [*there[: A_FILE + kept], *there[2 * A_FILE :]]
    # The newest entry of the file is beyond the cut, and it alone leads to the others.
    assert list(index.candidates(7)) == [*reversed(there[2 * A_FILE :]), *reversed(there[:A_FILE])]
    assert list(index.candidates(7, below=2700)) == [*reversed(there[:A_FILE])]


def test_a_check_tells_of_a_file_that_changed_since_it_was_loaded(root: Path) -> None:
    index = loaded(IndexFolder(RealDisk(), root, GEOMETRY))
    os.truncate(root / "index" / NAMES[0], GEOMETRY.file_size - 1)
    (root / "index" / NAMES[1]).write_bytes(b"\x7f" * GEOMETRY.file_size)
    found = [check.problems for check in check_index(index, 6000)]
    assert found[0] == [f"it is {GEOMETRY.file_size - 1} bytes long, expected {GEOMETRY.file_size}"]
    assert len(found[1]) == 1 and "as the next entry, expected 1 to 28" in found[1][0]
    assert len(found) == 3


def test_a_file_that_is_cut_within_its_slots_has_no_chain(root: Path) -> None:
    index = loaded(IndexFolder(RealDisk(), root, GEOMETRY))
    for name in NAMES:
        os.truncate(root / "index" / name, 42)
    assert list(index.candidates(7)) == [] == offsets(index)
    os.truncate(root / "index" / NAMES[0], 5)
    assert list(index.candidates(7, BEGIN_MS, BEGIN_MS + 1)) == []


def test_a_writer_is_told_that_its_file_has_gone(keys: list[Any], root: Path) -> None:
    index = KeyIndex(RealDisk(), root, GEOMETRY, plain_index.StillClock())
    index.load()
    index.check_files()
    (root / "index" / NAMES[2]).unlink()
    with pytest.raises(IndexFileGoneError, match=NAMES[2]):
        index.check_files()
    with pytest.raises(IndexFileGoneError, match=NAMES[2]):
        index.put(plain_index.key_entries_of([plain_index.Key(7, 6000, BEGIN_MS)]))
    index.close()
    assert not (root / "index" / NAMES[2]).exists(), "nobody made it again, without its entries"


def test_a_folder_without_entries_knows_no_record(root: Path) -> None:
    for name in NAMES:
        (root / "index" / name).write_bytes(bytes(GEOMETRY.file_size))
    index = loaded(IndexFolder(RealDisk(), root, GEOMETRY))
    assert len(index.files) == 3 and index.last_physical_offset is None


@pytest.mark.usefixtures("kernel")
def test_records_without_a_store_time(tmp_path: Path) -> None:
    """A file that begins at time 0 has no beginning to count from: as RocketMQ, each entry says 0 until the next
    one."""
    keys = [plain_index.Key(i, 100 * i, 0 if i < 4 else BEGIN_MS + 5000 * i) for i in range(40)]
    index = KeyIndex(RealDisk(), tmp_path, GEOMETRY, plain_index.StillClock())
    index.load()
    index.put(plain_index.key_entries_of(keys))
    index.flush()
    index.close()
    found = [path.read_bytes() for path in sorted((tmp_path / "index").iterdir())]
    assert found == [bytes(file) for file in plain_index.PlainIndex(GEOMETRY.slots, GEOMETRY.entries, keys).files]
