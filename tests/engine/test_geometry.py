"""A store keeps the sizes that it was made with, before any file of it shows them."""

from __future__ import annotations

import errno
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.index.key.index_file import HEADER_SIZE
from flightlog.store.errors import ConfigFileError, FlightlogError, GeometryMismatchError, InvalidSettingsError
from flightlog.testing import kill
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import PowerDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SIZES: dict[str, Any] = {
    "segment_size": 65536,
    "queue_file_entries": 50,
    "index_slots": 100,
    "index_entries": 333,
    "queue_extension_file_size": 512,
}
MADE = StoreSettings(queue_extension=True, **SIZES)
OTHER: dict[str, Any] = {
    "segment_size": 131072,
    "queue_file_entries": 70,
    "index_slots": 101,
    "index_entries": 334,
    "queue_extension_file_size": 1024,
}
MESSAGE = Message("t", b"x", tags="a", keys="k")
NOTE = Path("flightlog", "geometry.json")


@pytest.fixture
def path(tmp_path: Path, kernel: str) -> Path:
    """A store that was made and closed, and is empty."""
    flightlog.open(tmp_path / "store", MADE).close()
    return tmp_path / "store"


def only_size(folder: Path) -> int:
    (size,) = {file.stat().st_size for file in folder.rglob("*") if file.is_file()}
    return size


def shown(path: Path) -> dict[str, int]:
    """The sizes as the lengths of files tell them, and the index's as it would be opened."""
    index = only_size(path / "index")
    with flightlog.open(path) as store:
        slots, entries = index_geometry(store)
    assert index == HEADER_SIZE + 4 * slots + 20 * entries
    return {
        "segment_size": only_size(path / "commitlog"),
        "queue_file_entries": only_size(path / "consumequeue") // 20,
        "index_slots": slots,
        "index_entries": entries,
        "queue_extension_file_size": only_size(path / "consumequeue_ext"),
    }


def index_geometry(store: Store) -> tuple[int, int]:
    index = inside.dispatcher(store).index
    assert index is not None
    return index.geometry.slots, index.geometry.entries


def noted(path: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads((path / NOTE).read_text())
    return found


def test_the_note_byte_by_byte(path: Path) -> None:
    assert (path / NOTE).read_bytes() == (
        b'{\n\t"segmentSize":65536,\n\t"queueFileEntries":50,\n\t"indexSlots":100,\n\t"indexEntries":333,\n\t'
        b'"queueExtensionFileSize":512\n}'
    )
    plain = path.parent / "plain"
    flightlog.open(plain, StoreSettings(key_index=False)).close()
    assert noted(plain) == {"segmentSize": 1 << 30, "queueFileEntries": 300_000}


@pytest.mark.parametrize("opened_between", [0, 2])
def test_an_empty_store_keeps_what_it_was_made_with(opened_between: int, path: Path, assert_clean: AssertClean) -> None:
    for _ in range(opened_between):
        flightlog.open(path).close()
        assert_clean(path)
    with flightlog.open(path) as store:
        store.put(MESSAGE)
    assert shown(path) == SIZES
    assert_clean(path)


@pytest.mark.parametrize("setting", SIZES)
def test_another_size_for_an_empty_store_replaces_the_note(setting: str, path: Path, assert_clean: AssertClean) -> None:
    changed = SIZES | {setting: OTHER[setting]}
    flightlog.open(path, StoreSettings(**{setting: OTHER[setting]})).close()
    with flightlog.open(path) as store:
        store.put(MESSAGE)
    assert shown(path) == changed
    assert list(noted(path).values()) == list(changed.values())
    assert_clean(path)


def forget_files(path: Path, setting: str) -> None:
    """Derived files alone may go: they are made again. The log shows the size of segments by itself."""
    for name in {
        "segment_size": [],
        "queue_file_entries": ["consumequeue"],
        "index_slots": ["index"],
        "index_entries": ["index"],
        "queue_extension_file_size": ["consumequeue", "consumequeue_ext"],
    }[setting]:
        shutil.rmtree(path / name)


@pytest.mark.parametrize("setting", SIZES)
def test_another_size_for_a_store_with_messages_is_refused(setting: str, path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(path) as store:
        store.put(MESSAGE)
    forget_files(path, setting)
    before = noted(path)
    with pytest.raises(GeometryMismatchError) as caught:
        flightlog.open(path, StoreSettings(**{setting: OTHER[setting]}))
    assert (caught.value.setting, caught.value.wanted, caught.value.found) == (setting, OTHER[setting], SIZES[setting])
    where = "the files here have" if setting == "segment_size" else "the store was made with"
    for text in (f"{setting} was set to {OTHER[setting]}, but {where} {SIZES[setting]}", f"Leave {setting} unset"):
        assert text in str(caught.value)
    assert (str(path / NOTE) in str(caught.value)) == (setting != "segment_size")
    assert noted(path) == before
    flightlog.open(path).close()
    assert shown(path) == SIZES
    assert_clean(path)


def test_files_win_over_the_note(path: Path, assert_clean: AssertClean) -> None:
    """Another program may have written since, with sizes of its own."""
    with flightlog.open(path) as store:
        store.put(MESSAGE)
    others = json.dumps(dict(zip(noted(path), OTHER.values(), strict=True)))
    (path / NOTE).write_text(others)
    with flightlog.open(path, MADE) as store:
        store.put_many([MESSAGE] * 200)
    assert shown(path) == SIZES
    assert (path / NOTE).read_text() == others
    assert_clean(path)


def test_without_an_index_and_extensions_their_sizes_stay_open(tmp_path: Path, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small(key_index=False)) as store:
        store.put(MESSAGE)
    assert noted(path) == {"segmentSize": 1 << 20, "queueFileEntries": 1000}
    settings = StoreSettings(index_slots=7, index_entries=40, queue_extension=True, queue_extension_file_size=512)
    with flightlog.open(path, settings) as store:
        store.put(MESSAGE)
        assert index_geometry(store) == (7, 40)
    assert only_size(path / "consumequeue_ext") == 512
    assert_clean(path)


def test_an_index_file_that_was_never_flushed_has_what_the_note_says(
    path: Path, copy_as_killed: Callable[[Path, Path], Path], assert_clean: AssertClean
) -> None:
    """It tells no more than its length, which would fit another pair, too."""
    killed = path.parent / "killed"
    slots, entries = 100 + 5 * 13, 333 - 13
    assert HEADER_SIZE + 4 * slots + 20 * entries == HEADER_SIZE + 4 * 100 + 20 * 333
    flightlog.open(path, StoreSettings(index_slots=slots, index_entries=entries)).close()
    with flightlog.open(path) as store:
        store.put(MESSAGE)
        store.query("t", "k")
        copy_as_killed(path, killed)
    assert list((killed / "index").iterdir())
    with flightlog.open(killed) as store:
        assert index_geometry(store) == (slots, entries)
    assert_clean(killed)


def test_a_lost_note(path: Path, assert_clean: AssertClean) -> None:
    (path / NOTE).unlink()
    flightlog.open(path, replace(MADE, segment_size=OTHER["segment_size"])).close()
    assert noted(path)["segmentSize"] == OTHER["segment_size"]
    with flightlog.open(path) as store:
        store.put(MESSAGE)
    for note in path.glob(f"{NOTE}*"):
        note.unlink()
    with flightlog.open(path) as store:
        store.put(MESSAGE)
    assert shown(path) == SIZES | {"segment_size": OTHER["segment_size"]}
    assert not (path / NOTE).exists(), "what such a store was made with is not known"
    assert_clean(path)


def test_a_store_with_messages_and_no_note_takes_any_size_that_no_file_shows(
    path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(path) as store:
        store.put(replace(MESSAGE, keys=()))
    (path / NOTE).unlink()
    with flightlog.open(path, StoreSettings(index_slots=7, index_entries=40)) as store:
        store.put(MESSAGE)
        assert index_geometry(store) == (7, 40)
    assert not (path / NOTE).exists()
    assert_clean(path)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"segmentSize":"65536"}',
        b'{"segmentSize":7}',
        b'{"segmentSize":true}',
        b'{"queueFileEntries":0}',
        b'{"indexSlots":100000000,"indexEntries":100000000}',
        b'{"queueExtensionFileSize":-1}',
    ],
)
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_damaged_note_is_named(is_empty: bool, content: bytes, path: Path, assert_clean: AssertClean) -> None:
    if not is_empty:
        with flightlog.open(path) as store:
            store.put(MESSAGE)
    (path / NOTE).write_bytes(content)
    with pytest.raises(ConfigFileError, match=r"geometry\.json: found .*Restore .*delete it") as caught:
        flightlog.open(path)
    assert caught.value.path == path / NOTE
    with flightlog.open_read_only(path) as view:
        assert len(list(view.read("t"))) == (not is_empty)
    (path / NOTE).unlink()
    flightlog.open(path, MADE).close()
    with flightlog.open(path) as store:
        store.put(MESSAGE)
    assert shown(path) == SIZES
    assert_clean(path)


def test_a_note_and_a_setting_that_make_no_sense_together(path: Path) -> None:
    flightlog.open(path, StoreSettings(index_slots=100_000_000)).close()
    with pytest.raises(InvalidSettingsError, match="index_slots=100000000 and index_entries=100000000"):
        flightlog.open(path, StoreSettings(index_entries=100_000_000))
    flightlog.open(path, StoreSettings(index_slots=100, index_entries=333)).close()
    assert noted(path)["indexEntries"] == 333


def test_every_failure_while_a_store_is_made_leaves_its_note_or_none(tmp_path: Path, assert_clean: AssertClean) -> None:
    nth = whole = 0
    while True:
        path, disk = tmp_path / f"store-{nth}", FaultyDisk()
        fault = disk.fail("*", path.name, errno.EIO, skip=nth)
        try:
            flightlog.open(path, MADE, disk=disk).close()
        except FlightlogError:
            assert fault.hits
        if not fault.hits:
            break
        has_note = (path / NOTE).exists()
        with flightlog.open(path) as store:
            assert inside.log(store).segment_size == (65536 if has_note else 1 << 30)
        assert_clean(path)
        whole += has_note
        nth += 1
    assert 0 < whole < nth


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("puts", [False, True])
def test_a_power_cut_behind_the_opening_leaves_the_note(
    puts: bool, seed: int, tmp_path: Path, assert_clean: AssertClean
) -> None:
    disk = PowerDisk(tmp_path / "store")
    store = flightlog.open(disk.root, MADE, disk=disk)
    if puts:
        store.put(MESSAGE)
    kill(store)
    disk.cut(random.Random(seed), chance=seed % 2 / 2)
    with flightlog.open(disk.root, disk=disk) as store:
        store.put(MESSAGE)
    assert shown(disk.root) == SIZES
    assert_clean(disk.root)


def test_a_writer_killed_before_its_first_put(
    path: Path, copy_as_killed: Callable[[Path, Path], Path], assert_clean: AssertClean
) -> None:
    killed = path.parent / "killed"
    made = path.parent / "made"
    with flightlog.open(made, MADE):
        copy_as_killed(made, killed)
    with flightlog.open(killed) as store:
        store.put(MESSAGE)
    assert shown(killed) == SIZES
    assert_clean(killed)


@pytest.mark.parametrize("name", ["rollover", "abort", "cqext"])
def test_stores_of_rocketmq_get_no_note(
    name: str, golden_copy: Callable[[str], Path], assert_clean: AssertClean
) -> None:
    path = golden_copy(name) / "store"
    with flightlog.open(path, StoreSettings(accept_future_store_time=True)) as store:
        store.put(MESSAGE)
    assert not (path / NOTE).exists()
    assert_clean(path)


def test_views_of_an_empty_store_follow_it(path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open_read_only(path) as view:
        assert view.queues() == {} and view.verify().is_clean
        with flightlog.open(path) as store:
            store.put_many([MESSAGE] * 60)
            view.refresh()
            assert len(list(view.read("t"))) == 60
            assert [segment.size for segment in view.segments] == [65536]
    assert_clean(path)
