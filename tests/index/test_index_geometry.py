"""How many slots and entries a file has, found out from the file."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flightlog.index.key.index_file import HEADER, IndexGeometry
from flightlog.index.key.index_geometry import file_geometry, find_index_geometry, usual_geometry
from flightlog.store.disk.disk import RealDisk
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import plain_index

BEGIN_MS = 1_700_000_000_000
NAMES = tuple(f"2023111422132000{i}" for i in range(10))


def found(path: Path, raw: bytes | bytearray) -> IndexGeometry | None:
    path.write_bytes(raw)
    file = RealDisk().open(path)
    try:
        return file_geometry(file)
    finally:
        file.close()


@settings(max_examples=300, deadline=None)
@given(
    slots=st.integers(1, 400),
    entries=st.integers(8, 400),
    ratio=st.sampled_from([None, 1, 4]),
    fill=st.floats(0, 1),
    first_offset=st.sampled_from([0, 1000]),
    seed=st.integers(0, 2**32),
)
def test_of_any_file(
    slots: int,
    entries: int,
    ratio: int | None,
    fill: float,
    first_offset: int,
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    dice = random.Random(seed)
    entries = max(8, slots * ratio) if ratio else entries
    count = max(6, round(fill * (entries - 1)))
    hashes = [dice.randrange(2**31) for _ in range(dice.choice((3, 1000)))]
    keys = [plain_index.Key(dice.choice(hashes), first_offset + i // 2 * 100, BEGIN_MS) for i in range(count)]
    [file] = plain_index.PlainIndex(slots, entries, keys).files
    assert found(tmp_path_factory.mktemp("geometry") / "file", file) == IndexGeometry(slots, entries)


def test_the_usual_one_of_a_length() -> None:
    assert usual_geometry(420_000_040) == IndexGeometry()
    assert usual_geometry(8440) == IndexGeometry(100, 400)
    assert usual_geometry(8441) is usual_geometry(40) is usual_geometry(0) is None


def test_files_without_entries_tell_nothing(tmp_path: Path) -> None:
    assert found(tmp_path / "file", bytes(8440)) is None
    assert found(tmp_path / "file", HEADER.pack(5, 5, 9, 9, 0, 1) + bytes(8400)) is None
    assert found(tmp_path / "file", b"") is None
    assert found(tmp_path / "file", b"short") is None
    # Entries of a writer that has not flushed: the header does not know them.
    [file] = plain_index.PlainIndex(100, 400, [plain_index.Key(7, 100, BEGIN_MS)]).files
    assert found(tmp_path / "file", bytes(440) + file[440:]) is None


def test_garbage_has_none(tmp_path: Path) -> None:
    dice = random.Random(1)
    for _ in range(50):
        assert found(tmp_path / "file", dice.randbytes(8440)) is None
    assert found(tmp_path / "file", HEADER.pack(1, 1, 1, 1, 5, 6) + bytes(8400)) is None
    assert found(tmp_path / "file", HEADER.pack(1, 1, 1, 1, 5, 6) + b"\xff" * 8400) is None


def test_a_key_with_the_hash_zero_of_the_first_record(tmp_path: Path) -> None:
    """Its entry is all zeros, like the one before it that is never used."""
    keys = [plain_index.Key(0, 0, BEGIN_MS), plain_index.Key(77, 0, BEGIN_MS), plain_index.Key(12_345, 300, BEGIN_MS)]
    [file] = plain_index.PlainIndex(33, 50, keys).files
    assert found(tmp_path / "file", file) == IndexGeometry(33, 50)


def test_the_first_file_that_tells_is_asked(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    assert find_index_geometry(RealDisk(), tmp_path) is None
    folder.mkdir()
    keys = [plain_index.Key(i * 977, i * 100, BEGIN_MS) for i in range(9)]
    [file] = plain_index.PlainIndex(33, 50, keys).files
    (folder / NAMES[0]).write_bytes(b"")
    (folder / NAMES[1]).write_bytes(bytes(len(file)))
    (folder / "notes").write_bytes(file)
    (folder / NAMES[2]).mkdir()
    assert find_index_geometry(RealDisk(), tmp_path) is None
    (folder / NAMES[3]).write_bytes(file[:-7])
    assert find_index_geometry(RealDisk(), tmp_path) is None
    (folder / NAMES[4]).write_bytes(file)
    assert find_index_geometry(RealDisk(), tmp_path) == IndexGeometry(33, 50)


def test_the_usual_one_is_found_with_a_handful_of_reads(tmp_path: Path) -> None:
    keys = [plain_index.Key(i * 977, i * 100, BEGIN_MS) for i in range(3000)]
    [file] = plain_index.PlainIndex(1000, 4000, keys).files
    (tmp_path / "index").mkdir()
    path = tmp_path / "index" / NAMES[0]
    path.write_bytes(file)
    disk = FaultyDisk()
    assert find_index_geometry(disk, tmp_path) == IndexGeometry(1000, 4000)
    assert disk.count("read") == 5


@pytest.mark.parametrize(
    ("slot", "head"),
    [
        pytest.param(5, 9, id="an entry that is not there yet"),
        pytest.param(5, -1, id="less than none"),
        pytest.param(5, 4, id="an entry of another slot"),
    ],
)
def test_slots_that_contradict_the_entries(slot: int, head: int, tmp_path: Path) -> None:
    """Both ends of the file are where this geometry has them, and still it is none."""
    keys = [plain_index.Key(i, 100 * i, BEGIN_MS) for i in range(1, 9)]
    [file] = plain_index.PlainIndex(33, 50, keys).files
    assert found(tmp_path / "file", file) == IndexGeometry(33, 50)
    file[40 + 4 * slot : 44 + 4 * slot] = head.to_bytes(4, "big", signed=True)
    assert found(tmp_path / "file", file) is None


def test_a_header_alone_before_a_large_hole_tells_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(HEADER.pack(1, 1, 1, 1, 5, 6))
    os.truncate(path, 8 << 20)
    opened = RealDisk().open(path)
    assert file_geometry(opened) is None
    opened.close()


def test_a_large_file_with_holes(tmp_path: Path) -> None:
    """A file of 120 MB, nearly all of it holes, with an unusual ratio."""
    slots, entries = 1_000_000, 5_800_000
    path = tmp_path / "file"
    keys = [plain_index.Key(dice * 123_457 % 2**31, dice * 100, BEGIN_MS) for dice in range(1, 6)]
    with open(path, "wb") as file:
        file.truncate(40 + 4 * slots + 20 * entries)
        file.write(HEADER.pack(BEGIN_MS, BEGIN_MS, 100, 500, 5, 6))
        for number, key in enumerate(keys, 1):
            os.pwrite(file.fileno(), number.to_bytes(4, "big"), 40 + 4 * (key.hash % slots))
            entry = plain_index.ENTRY.pack(key.hash, key.physical_offset, 0, 0)
            os.pwrite(file.fileno(), entry, 40 + 4 * slots + 20 * number)
    opened = RealDisk().open(path)
    assert file_geometry(opened) == IndexGeometry(slots, entries)
    opened.close()
