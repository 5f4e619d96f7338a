"""What a look at every entry, chain, slot and header finds, and how it says so."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from flightlog.index.key import index_reader
from flightlog.index.key.index_check import IndexFileCheck, check_file, check_index
from flightlog.index.key.index_file import HEADER, IndexGeometry
from flightlog.index.key.index_folder import IndexFolder
from flightlog.store.disk.disk import RealDisk
from flightlog.tests.support import plain_index

GEOMETRY = IndexGeometry(10, 40)
BEGIN_MS = 1_700_000_000_000
FIRST = "20231114221320000"


@pytest.fixture(params=[3, 65_536], ids=["small pieces", "one piece"], autouse=True)
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_reader, "PIECE_ENTRIES", request.param)


def sound(count: int = 60) -> list[bytearray]:
    keys = [plain_index.Key(i * 7919 % 23, i // 2 * 100, BEGIN_MS + i * 1000) for i in range(count)]
    files: list[bytearray] = plain_index.PlainIndex(GEOMETRY.slots, GEOMETRY.entries, keys).files
    return files


def checks(root: Path, files: list[bytearray], log_end: int | None = 100_000, **how: Any) -> list[IndexFileCheck]:
    (root / "index").mkdir(exist_ok=True)
    for i, file in enumerate(files):
        (root / "index" / str(int(FIRST) + i)).write_bytes(file)
    index = IndexFolder(RealDisk(), root, GEOMETRY)
    index.load()
    assert len(index.files) == len(files)
    return list(check_index(index, log_end, **how))


def problems(root: Path, files: list[bytearray], log_end: int | None = 100_000, **how: Any) -> list[list[str]]:
    return [check.problems for check in checks(root, files, log_end, **how)]


def entry_at(number: int, field: int) -> int:
    """Where a field of an entry lies: 0 hash, 1 physical offset, 2 time, 3 previous."""
    return GEOMETRY.entry_position(number) + (0, 4, 12, 16)[field]


def test_sound_files(tmp_path: Path) -> None:
    assert problems(tmp_path, sound()) == [[], []]
    assert [check.duplicates for check in checks(tmp_path, sound())] == [0, 0]


def test_the_end_of_the_log(tmp_path: Path) -> None:
    text = "entry {}: physical offset 2900, expected one before the log's end at 2900"
    found = checks(tmp_path, sound(), 2900)
    assert [check.behind for check in found] == [[], [text.format(20), text.format(21)]]
    assert [check.problems for check in found] == [[], []], "nothing else is wrong with them"
    assert problems(tmp_path, sound(), None) == [[], []]


def test_offsets_that_descend(tmp_path: Path) -> None:
    files = sound()
    struct.pack_into(">q", files[0], entry_at(11, 1), 300)
    assert problems(tmp_path, files) == [["entry 11: physical offset 300 after 400, expected ascending ones"], []]


def test_a_file_that_begins_before_the_last_one_ended(tmp_path: Path) -> None:
    files = sound()
    files[1] = plain_index.PlainIndex(10, 40, [plain_index.Key(5, 1800, BEGIN_MS)]).files[0]
    found = problems(tmp_path, files)
    assert found[1][0] == "entry 1: physical offset 1800 after 1900, expected ascending ones"


def test_chains_and_slots(tmp_path: Path) -> None:
    files = sound()
    before = struct.unpack_from(">i", files[0], entry_at(30, 3))[0]
    struct.pack_into(">i", files[0], entry_at(30, 3), 2)
    slot = struct.unpack_from(">i", files[0], 40 + 4 * 6)[0]
    struct.pack_into(">i", files[0], 40 + 4 * 6, 1)
    assert problems(tmp_path, files) == [
        [f"entry 30: previous entry 2, expected {before}", f"slot 6: newest entry 1, expected {slot}"],
        [],
    ]


def test_a_hash_that_was_changed_shows_in_chains_and_slots(tmp_path: Path) -> None:
    files = sound()
    struct.pack_into(">i", files[0], entry_at(20, 0), -5)
    [found, _] = problems(tmp_path, files)
    assert "entry 20: hash -5, expected none below zero" in found
    assert any("previous entry" in text for text in found)


def test_headers(tmp_path: Path) -> None:
    files = sound()
    begin_ms, end_ms, begin, end, slots, number = HEADER.unpack_from(files[1])
    HEADER.pack_into(files[1], 0, begin_ms, end_ms, begin - 1, end, slots - 1, number)
    assert problems(tmp_path, files)[1] == [
        f"the first entry has physical offset {begin}, the header says {begin - 1}",
        f"the header counts {slots - 1} used slots, expected {slots}",
    ]


def test_the_first_time_of_a_file_is_that_since_the_last_one(tmp_path: Path) -> None:
    files = sound()
    assert struct.unpack_from(">i", files[1], entry_at(1, 2))[0] == 1
    struct.pack_into(">i", files[1], entry_at(1, 2), 0)
    struct.pack_into(">i", files[1], entry_at(5, 2), -1)
    assert sorted(problems(tmp_path, files)[1]) == [
        "entry 1: time difference 0, expected 1",
        "entry 5: time difference -1, expected none below zero",
    ]


def test_keys_that_stand_twice_are_counted(tmp_path: Path) -> None:
    keys = [
        plain_index.Key(1, 0, BEGIN_MS),
        plain_index.Key(2, 0, BEGIN_MS),
        plain_index.Key(1, 0, BEGIN_MS),
        plain_index.Key(3, 0, BEGIN_MS),
    ]
    keys += [plain_index.Key(1, 100, BEGIN_MS), plain_index.Key(2, 100, BEGIN_MS)] * 19
    keys += [plain_index.Key(1, 200, BEGIN_MS)]
    found = checks(tmp_path, plain_index.PlainIndex(10, 40, keys).files)
    assert [check.problems for check in found] == [[], []]
    assert [check.duplicates for check in found] == [1 + 33, 3]


def test_a_writer_within_a_flush(tmp_path: Path) -> None:
    """Slots are written before the header is: only at rest are they to say the same."""
    older, newer = sound(20)[0], sound(30)[0]
    mixed = older[:40] + newer[40:]
    assert any("slot" in text for text in problems(tmp_path, [mixed])[0])
    assert problems(tmp_path, [mixed], at_rest=False) == [[]]
    struct.pack_into(">i", mixed, 40 + 4 * 6, 3)  # an older one is none of a flush
    assert problems(tmp_path, [mixed], at_rest=False) == [["slot 6: newest entry 3, expected 15"]]


def test_many_problems_of_a_kind_are_counted(tmp_path: Path) -> None:
    index_reader.PIECE_ENTRIES = 65_536
    files = sound()[:1]
    for number in range(10, 30):
        struct.pack_into(">i", files[0], entry_at(number, 3), 39)
    [found] = problems(tmp_path, files)
    assert len(found) == 4 and found[3] == "… and 17 more of that kind"


def test_a_file_that_goes(tmp_path: Path) -> None:
    checks(tmp_path, sound())
    index = IndexFolder(RealDisk(), tmp_path, GEOMETRY)
    index.load()
    index.files[0].path.unlink()
    assert [check.path for check in check_index(index, None)] == [index.files[1].path]
    with pytest.raises(FileNotFoundError):
        check_file(index.files[0], None)
