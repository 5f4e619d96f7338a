"""Index files with anything in them: whoever reads them ends, within the file, and with no error but ours."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flightlog.index.key.index_check import check_index
from flightlog.index.key.index_file import IndexGeometry, IndexState
from flightlog.index.key.index_folder import IndexFolder
from flightlog.index.key.index_geometry import find_index_geometry
from flightlog.index.key.key_index import KeyIndex
from flightlog.store.disk.disk import MappedPart, RealDisk, RealFile
from flightlog.tests.support import plain_index

GEOMETRY = IndexGeometry(7, 28)
HASHES = (0, 1, 2, 3, 7, 8, 2**31 - 1)
BEGIN_MS = 1_700_000_000_000


class WatchedFile(RealFile):
    """Counts reads, and holds them to what a file of its length has."""

    def __init__(self, disk: WatchedDisk, file: RealFile, writable: bool) -> None:
        super().__init__(file.path, os.dup(file.descriptor), writable)
        file.close()
        self._disk = disk

    def read(self, position: int, size: int) -> bytes:
        self._disk.reads += 1
        assert position >= 0 and size >= 0
        assert position + size <= max(self.size(), 40), f"[{position}, {position + size}) of {self.size()} bytes"
        return super().read(position, size)

    def write(self, position: int, data: bytes | memoryview) -> None:
        assert position >= 0 and position + len(data) <= GEOMETRY.file_size
        super().write(position, data)

    def sync(self, part: MappedPart | None = None) -> None:
        """Not worth the time here."""


class WatchedDisk(RealDisk):
    reads = 0

    def sync_folder(self, path: Path) -> None:
        """As above."""

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> WatchedFile:
        return WatchedFile(self, super().open(path, writable=writable, create=create), writable)


def sound_files(dice: random.Random) -> list[bytearray]:
    keys = [
        plain_index.Key(dice.choice(HASHES), 10 * (i // 2), BEGIN_MS + dice.randrange(5_000_000))
        for i in range(dice.choice((5, 40, 70)))
    ]
    files: list[bytearray] = plain_index.PlainIndex(GEOMETRY.slots, GEOMETRY.entries, keys).files
    return files


def damage(files: list[bytearray], dice: random.Random) -> None:
    for _ in range(dice.choice((1, 1, 3, 20))):
        file = dice.choice(files)
        what = dice.randrange(7)
        at = dice.randrange(0, max(len(file) - 4, 1))
        if what == 0 and file:
            file[dice.randrange(len(file))] ^= 1 << dice.randrange(8)
        elif what == 1 and len(file) >= 8:  # a number of an entry, somewhere
            struct.pack_into(">i", file, at // 4 * 4, dice.choice((-1, 0, 1, 5, 27, 28, 29, 2**31 - 1, -(2**31))))
        elif what == 2:  # a chain
            number = dice.randrange(1, 28)
            if len(file) == GEOMETRY.file_size:
                struct.pack_into(">i", file, GEOMETRY.entry_position(number) + 16, dice.randrange(-3, 40))
        elif what == 3:
            file[:40] = dice.randbytes(40)
        elif what == 4:
            file[at : at + 200] = bytes(len(file[at : at + 200]))
        elif what == 5:
            file[:] = dice.randbytes(len(file))
        elif dice.random() < 0.3:
            del file[at:]


def read_everything(index: IndexFolder) -> None:
    for hash_ in HASHES:
        for begin, end in ((0, None), (BEGIN_MS, BEGIN_MS + 1_000_000), (BEGIN_MS + 9_000_000, None), (0, 5)):
            found = list(index.candidates(hash_, begin, end))
            assert len(found) <= len(index.files) * GEOMETRY.entries
            assert all(offset >= 0 for offset in found)
    for offset in (0, 55, 1 << 62):
        assert sum(len(piece) for piece in index.entries(offset)) <= len(index.files) * GEOMETRY.entries


@pytest.mark.ci
@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_damage(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    dice = random.Random(seed)
    root = tmp_path_factory.mktemp("hostile")
    (root / "index").mkdir()
    files = sound_files(dice)
    damage(files, dice)
    names = [20231114221320000 + i for i in range(len(files))]
    for name, file in zip(names, files, strict=True):
        (root / "index" / str(name)).write_bytes(file)

    disk = WatchedDisk()
    index = IndexFolder(disk, root, GEOMETRY)
    index.load()
    assert len(index.files) + len(index.unreadable) + len(index.begun) == len(files)
    read_everything(index)
    for _ in check_index(index, 500):
        pass
    find_index_geometry(disk, root)
    assert disk.reads < 100_000

    writer = KeyIndex(disk, root, GEOMETRY, plain_index.StillClock())
    writer.load()
    keys = [plain_index.Key(dice.choice(HASHES), 10_000 + i, BEGIN_MS) for i in range(40)]
    what = dice.randrange(4)
    is_right = True
    if what == 0:
        is_right = writer.rewind(IndexState(dice.choice(names), dice.randrange(0, 40)))
    elif what == 1:
        is_right = writer.truncate(dice.randrange(400))
    elif what == 2:
        writer.expire(dice.randrange(400))
    if not is_right:
        writer.clear()
    if writer.last_physical_offset is None or writer.last_physical_offset < 10_000:
        writer.put(plain_index.key_entries_of(keys))
        for key in keys:  # what is put is found, whatever else is there
            assert key.physical_offset in list(writer.candidates(key.hash))
        writer.flush()
    writer.close()
    again = IndexFolder(disk, root, GEOMETRY)
    again.load()
    read_everything(again)
    writer.load()
    writer.clear()
    assert not list((root / "index").iterdir())


def write(folder: Path, name: str, raw: bytes | bytearray) -> Path:
    (folder / "index").mkdir(exist_ok=True)
    (folder / "index" / name).write_bytes(raw)
    return folder / "index" / name


def one_file(keys: list[tuple[int, int]]) -> bytearray:
    """A file with these hashes and physical offsets."""
    made: Any = plain_index.PlainIndex(
        GEOMETRY.slots, GEOMETRY.entries, [plain_index.Key(h, o, BEGIN_MS) for h, o in keys]
    )
    file: bytearray = made.files[0]
    return file


@pytest.mark.parametrize("previous", [3, 4, 27, 28, 99, -1, 2**31 - 1])
def test_a_chain_that_does_not_lead_back(previous: int, tmp_path: Path) -> None:
    """To itself, to a newer entry, out of the file: it ends there."""
    file = one_file([(7, 100), (7, 200), (7, 300), (7, 400)])
    struct.pack_into(">i", file, GEOMETRY.entry_position(3) + 16, previous)
    write(tmp_path, "20231114221320000", file)
    index = IndexFolder(WatchedDisk(), tmp_path, GEOMETRY)
    index.load()
    assert list(index.candidates(7)) == [400, 300]
    [check] = check_index(index, 1000)
    assert check.problems == [f"entry 3: previous entry {previous}, expected 2"]


def test_a_chain_that_leaves_its_slot(tmp_path: Path) -> None:
    file = one_file([(7, 100), (8, 200), (7, 300)])
    struct.pack_into(">i", file, GEOMETRY.entry_position(3) + 16, 2)
    struct.pack_into(">i", file, GEOMETRY.entry_position(2) + 16, 1)
    write(tmp_path, "20231114221320000", file)
    index = IndexFolder(WatchedDisk(), tmp_path, GEOMETRY)
    index.load()
    assert list(index.candidates(7)) == [300]
    assert list(index.candidates(8)) == [200]  # and not the one behind it, which is of another slot again


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = bytes(one_file([(7, 100), (8, 200)]))
    names = [f"2023111422132000{i}" for i in range(10)]
    write(tmp_path, names[0], file)
    write(tmp_path, names[1], file[:-1])
    write(tmp_path, names[2], b"\xff" * len(file))
    write(tmp_path, names[3], struct.pack(">qqqqii", 1, 1, 100, 200, 2, 29) + file[40:])
    write(tmp_path, names[4], struct.pack(">qqqqii", 1, 1, 100, 999, 2, 3) + file[40:])
    write(tmp_path, names[5], b"")
    write(tmp_path, "20231399221320000", file)
    write(tmp_path, "notes", b"x")
    (tmp_path / "index" / names[6]).mkdir()
    index = KeyIndex(RealDisk(), tmp_path, GEOMETRY, plain_index.StillClock(0))
    index.load()
    assert [str(f.number) for f in index.files] == [names[0]]
    assert list(index.candidates(7)) == [100]
    problems = {u.path.name: u.problem for u in index.unreadable}
    assert list(problems) == [*names[1:5], "20231399221320000"]
    assert "707" in problems[names[1]] or "bytes long" in problems[names[1]]
    assert "next entry" in problems[names[3]]
    assert "physical offset 999; found one of 200" in problems[names[4]]
    assert str(tmp_path / "index" / names[1]) in str(index.unreadable[0])
    assert [path.name for path in index.begun] == [names[5]]
    assert sorted(path.name for path in index.strays) == [names[6], "notes"]
    assert not index.rewind(IndexState(int(names[5]), 2)), "not after a file that cannot be used"
    index.clear()
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == [names[6], "notes"]


def test_a_new_file_is_named_after_every_other_one(tmp_path: Path) -> None:
    write(tmp_path, "20991114221320000", b"cut off")
    index = KeyIndex(RealDisk(), tmp_path, GEOMETRY, plain_index.StillClock())
    index.load()
    index.put(plain_index.key_entries_of([plain_index.Key(7, 100, BEGIN_MS)]))
    assert [path.name for path in sorted((tmp_path / "index").iterdir())] == ["20991114221320000", "20991114221320001"]


def test_a_file_that_goes_under_a_reader_and_under_a_writer(tmp_path: Path) -> None:
    from flightlog.store.errors import DiskError

    index = KeyIndex(RealDisk(), tmp_path, GEOMETRY, plain_index.StillClock())
    index.load()
    index.put(plain_index.key_entries_of([plain_index.Key(7, 100 * i, BEGIN_MS) for i in range(60)]))
    index.flush()
    reader = IndexFolder(RealDisk(), tmp_path, GEOMETRY)
    reader.load()
    sorted((tmp_path / "index").iterdir())[1].unlink()
    # Whoever reads beside another process takes it for expired. Whoever writes knows that it is not.
    assert list(reader.candidates(7)) == [*range(5900, 5300, -100), *range(2600, -100, -100)]
    with pytest.raises(DiskError, match="gone although its store is open"):
        list(index.candidates(7))
    sorted((tmp_path / "index").iterdir())[-1].unlink()
    index.put(plain_index.key_entries_of([plain_index.Key(7, 6000, BEGIN_MS)]))
    with pytest.raises(DiskError, match="gone although its store is open"):
        index.flush()
