"""Bringing an index file back: to what it was, or not at all and with not a byte changed."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from flightlog.index.key.index_file import IndexGeometry, IndexState
from flightlog.index.key.key_index import KeyIndex
from flightlog.store.disk.disk import RealDisk
from flightlog.tests.support import plain_index

GEOMETRY = IndexGeometry(5, 20)
BEGIN_MS = 1_700_000_000_000
NAME = 20231114221320000
COUNT = 10
KEPT = 8
"""The next entry's number of what is gone back to."""


def some_keys(count: int = COUNT) -> list[Any]:
    """Keys with a hash each; two of every ten share a slot."""
    return [plain_index.Key(i, 100 * i, BEGIN_MS + 777 * i) for i in range(count)]


def index_at(root: Path, geometry: IndexGeometry = GEOMETRY) -> KeyIndex:
    index = KeyIndex(RealDisk(), root, geometry, plain_index.StillClock())
    index.load()
    return index


def file_of(root: Path) -> Path:
    [path] = (root / "index").iterdir()
    return path


def expected(count: int, geometry: IndexGeometry = GEOMETRY) -> bytes:
    [file] = plain_index.PlainIndex(geometry.slots, geometry.entries, some_keys(count)).files
    return bytes(file)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / str(NAME)).write_bytes(expected(COUNT))
    return tmp_path


def hash_at(number: int) -> int:
    return GEOMETRY.entry_position(number)


def previous_at(number: int) -> int:
    return GEOMETRY.entry_position(number) + 16


@pytest.mark.parametrize(
    ("position", "value", "next_entry"),
    [
        pytest.param(GEOMETRY.slot_position(0), -1, KEPT, id="a slot below zero"),
        pytest.param(GEOMETRY.slot_position(0), 20, KEPT, id="a slot behind the last entry"),
        pytest.param(GEOMETRY.slot_position(0), 9, KEPT, id="a slot with another one's entry"),
        pytest.param(GEOMETRY.slot_position(1), 2, KEPT, id="a slot that has forgotten the last entry that stays"),
        pytest.param(hash_at(9), -1, KEPT, id="an entry that goes with a hash below zero"),
        pytest.param(previous_at(9), -1, KEPT, id="an entry that goes and follows nothing"),
        pytest.param(previous_at(9), 8, KEPT, id="an entry that goes and follows one that goes, of another slot"),
        pytest.param(hash_at(7), -5, KEPT, id="the last entry that stays has a hash below zero"),
        pytest.param(hash_at(1) + 8, 50, KEPT, id="the first entry is of another record than the header says"),
        pytest.param(32, 4, COUNT + 1, id="another count of slots than was flushed"),
        pytest.param(32, 5, COUNT + 2, id="entries that it never had"),
    ],
)
def test_what_contradicts_itself_is_left_as_it_is(position: int, value: int, next_entry: int, written: Path) -> None:
    path = file_of(written)
    raw = bytearray(path.read_bytes())
    struct.pack_into(">i", raw, position, value)
    path.write_bytes(raw)
    index = index_at(written)
    assert [file.number for file in index.files] == [NAME]
    assert not index.rewind(IndexState(NAME, next_entry))
    index.close()
    assert path.read_bytes() == raw


def test_the_same_file_without_damage_goes_back(written: Path) -> None:
    index = index_at(written)
    assert index.rewind(IndexState(NAME, KEPT), some_keys()[KEPT - 2].time_ms)
    assert index.state == IndexState(NAME, KEPT)
    index.close()
    assert file_of(written).read_bytes() == expected(KEPT - 1)


def test_what_was_flushed_last_keeps_its_time_to_the_millisecond(tmp_path: Path) -> None:
    """Without the record's store time a rewind takes it from the header, if that is the one of this flush."""
    index = index_at(tmp_path)
    index.put(plain_index.key_entries_of(some_keys()[:6]))
    state = index.flush()
    index.put(plain_index.key_entries_of(some_keys()))
    index.close()  # killed: four entries lie behind those that the header knows
    index = index_at(tmp_path)
    assert index.rewind(state)
    index.close()
    assert file_of(tmp_path).read_bytes() == expected(6)


def test_a_file_that_was_flushed_since_knows_the_time_to_the_second(written: Path) -> None:
    index = index_at(written)
    assert index.rewind(IndexState(NAME, KEPT))
    end_ms = index.headers[NAME].end_timestamp_ms
    assert end_ms == BEGIN_MS + 6 * 777 // 1000 * 1000
    index.close()
    index = index_at(written)
    assert index.rewind(IndexState(NAME, 2)) and index.headers[NAME].end_timestamp_ms == BEGIN_MS
    index.close()


def test_back_to_where_a_file_had_no_entries_removes_it(written: Path) -> None:
    index = index_at(written)
    assert index.rewind(IndexState(NAME, 1))
    assert index.state == IndexState() and not list((written / "index").iterdir())
    index.put(plain_index.key_entries_of(some_keys()))
    index.flush()
    index.close()
    assert file_of(written).read_bytes() == expected(COUNT)


def test_keys_of_a_life_that_never_flushed_are_put_over(tmp_path: Path) -> None:
    """Its entries are in the file, its slots are a hole: to the next life the file is an empty one."""
    geometry = IndexGeometry(5000, 20)
    for _ in range(2):
        index = index_at(tmp_path, geometry)
        assert index.last_physical_offset is None
        index.put(plain_index.key_entries_of(some_keys()))
        assert list(index.candidates(3)) == [300]
        index.close()
    assert file_of(tmp_path).read_bytes()[: geometry.entries_position] == bytes(geometry.entries_position)
    index = index_at(tmp_path, geometry)
    index.put(plain_index.key_entries_of(some_keys()))
    index.flush()
    index.close()
    assert file_of(tmp_path).read_bytes() == expected(COUNT, geometry)


def test_a_file_that_is_one_hole_is_an_empty_one(tmp_path: Path) -> None:
    """A writer died when it had given the file its length."""
    geometry = IndexGeometry(5000, 20)
    (tmp_path / "index").mkdir()
    with (tmp_path / "index" / str(NAME)).open("wb") as file:
        file.truncate(geometry.file_size)
    index = index_at(tmp_path, geometry)
    index.put(plain_index.key_entries_of(some_keys()))
    index.flush()
    index.close()
    assert file_of(tmp_path).read_bytes() == expected(COUNT, geometry)
