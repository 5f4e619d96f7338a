"""Which files in `commitlog/` are the log, and which make no sense there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import DamagedStoreError, SegmentLengthError, StrayFileError
from flightlog.store.segments.log_files import LogFiles, list_log_files
from flightlog.store.segments.segment import segment_base, segment_name

SIZE = 8192
MakeLog = Callable[..., Path]


@pytest.fixture
def make_log(tmp_path: Path) -> MakeLog:
    """`make_log({0: 8192, 8192: 8192})`: segments by their base, with their lengths."""

    def make(sizes: dict[int, int]) -> Path:
        folder = tmp_path / "commitlog"
        folder.mkdir()
        for base, size in sizes.items():
            (folder / segment_name(base)).write_bytes(bytes(size))
        return folder

    return make


def listed(folder: Path, *, tolerant: bool = False) -> LogFiles:
    return list_log_files(RealDisk(), folder, tolerant=tolerant)


@pytest.mark.parametrize(
    ("base", "name"),
    [(0, "0" * 20), (1 << 30, "00000000001073741824"), (1 << 31, "00000000002147483648")],
)
def test_names(base: int, name: str) -> None:
    assert segment_name(base) == name
    assert segment_base(name) == base


@pytest.mark.parametrize("name", ["", "0" * 19, "0" * 21, "0" * 19 + "x", "-" + "0" * 19, "٠" * 20, "0" * 17 + ".db"])
def test_what_is_no_name(name: str) -> None:
    assert segment_base(name) is None


def test_no_folder_and_an_empty_one(tmp_path: Path) -> None:
    for tolerant in (False, True):
        assert listed(tmp_path / "commitlog", tolerant=tolerant).bases == []
        assert listed(tmp_path, tolerant=tolerant).segment_size is None


def test_a_sound_log(make_log: MakeLog) -> None:
    folder = make_log({0: SIZE, SIZE: SIZE, 2 * SIZE: SIZE})
    for tolerant in (False, True):
        files = listed(folder, tolerant=tolerant)
        assert (files.bases, files.segment_size, files.notes) == ([0, SIZE, 2 * SIZE], SIZE, [])
    assert files.path(SIZE) == folder / segment_name(SIZE)


def test_a_log_whose_first_segments_expired(make_log: MakeLog) -> None:
    assert listed(make_log({3 * SIZE: SIZE, 4 * SIZE: SIZE})).bases == [3 * SIZE, 4 * SIZE]


def test_an_empty_last_file_was_being_created(make_log: MakeLog) -> None:
    files = listed(make_log({0: SIZE, SIZE: 0}))
    assert (files.bases, files.segment_size) == ([0], SIZE)


def test_an_empty_first_file_was_being_created(make_log: MakeLog) -> None:
    files = listed(make_log({0: 0}))
    assert (files.bases, files.segment_size) == ([], None)


def test_folders_are_left_alone(make_log: MakeLog) -> None:
    folder = make_log({0: SIZE})
    (folder / "copies").mkdir()
    assert listed(folder).bases == [0]


@pytest.mark.parametrize("name", ["notes.txt", "0" * 19, ".00000000000000000000.swp"])
def test_a_stray_file(name: str, make_log: MakeLog) -> None:
    folder = make_log({0: SIZE, SIZE: SIZE})
    (folder / name).write_bytes(b"x")
    with pytest.raises(StrayFileError, match="Move it out") as raised:
        listed(folder)
    assert raised.value.path == folder / name
    files = listed(folder, tolerant=True)
    assert files.bases == [0, SIZE] and name in files.notes[0]


@pytest.mark.parametrize(
    ("sizes", "wrong", "length"),
    [
        ({0: SIZE, SIZE: SIZE - 1, 2 * SIZE: SIZE}, SIZE, SIZE - 1),
        ({0: 100, SIZE: SIZE, 2 * SIZE: SIZE}, 0, 100),
        ({0: SIZE, SIZE: SIZE, 2 * SIZE: 2 * SIZE}, 2 * SIZE, 2 * SIZE),
        ({0: 0, SIZE: SIZE, 2 * SIZE: SIZE}, 0, 0),  # empty last files alone are forgiven
        ({0: SIZE, SIZE: 4096}, SIZE, 4096),  # two lengths, one each: the distance of the names decides
        ({0: 4096, SIZE: SIZE}, 0, 4096),
    ],
)
def test_a_segment_of_the_wrong_length(sizes: dict[int, int], wrong: int, length: int, make_log: MakeLog) -> None:
    folder = make_log(sizes)
    with pytest.raises(SegmentLengthError) as raised:
        listed(folder)
    assert (raised.value.path, raised.value.found, raised.value.expected) == (
        folder / segment_name(wrong),
        length,
        SIZE,
    )
    files = listed(folder, tolerant=True)
    assert files.segment_size == SIZE and wrong not in files.bases
    assert set(sizes) - {wrong} == set(files.bases)
    assert any(segment_name(wrong) in note and str(length) in note for note in files.notes)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_empty_last_files_are_forgiven(count: int, make_log: MakeLog) -> None:
    folder = make_log({0: SIZE, SIZE: SIZE} | {number * SIZE: 0 for number in range(2, 2 + count)})
    for tolerant in (False, True):
        files = listed(folder, tolerant=tolerant)
        assert (files.bases, files.segment_size, files.notes) == ([0, SIZE], SIZE, [])
        assert files.empty == [folder / segment_name(number * SIZE) for number in range(2, 2 + count)]


def test_a_missing_segment(make_log: MakeLog) -> None:
    folder = make_log({0: SIZE, SIZE: SIZE, 3 * SIZE: SIZE})
    with pytest.raises(DamagedStoreError, match=segment_name(2 * SIZE)):
        listed(folder)
    files = listed(folder, tolerant=True)
    assert files.bases == [0, SIZE, 3 * SIZE] and segment_name(2 * SIZE) in files.notes[0]


def test_a_name_between_two_segments(make_log: MakeLog) -> None:
    folder = make_log({0: SIZE, SIZE: SIZE, SIZE + 100: SIZE, 2 * SIZE: SIZE})
    with pytest.raises(SegmentLengthError):
        listed(folder)
    assert listed(folder, tolerant=True).bases == [0, SIZE, 2 * SIZE]
