"""An index at work: what is put again, flush rounds, a disk that says no, and interrupts."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flightlog.index.key.index_file import IndexGeometry, IndexState
from flightlog.index.key.index_folder import IndexFolder
from flightlog.index.key.key_index import KeyIndex
from flightlog.store import native
from flightlog.store.disk.disk import Disk, RealDisk
from flightlog.store.errors import DiskFullError, SyncFailedError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import PowerDisk
from flightlog.tests.support import plain_index
from flightlog.tests.support.interrupts import InterruptAt

SMALL = IndexGeometry(5, 20)
BEGIN_MS = 1_700_000_000_000


@pytest.fixture(params=["c", "pure"])
def either_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """By the kernel, and by its reference."""
    if request.param not in native.available():
        pytest.skip("the C kernel is not built here")
    before = native.NAME
    native.use(request.param)
    yield
    native.use(before)


def index_at(root: Path, geometry: IndexGeometry = SMALL, disk: Disk | None = None) -> KeyIndex:
    index = KeyIndex(disk or RealDisk(), root, geometry, plain_index.StillClock())
    index.load()
    return index


def some_keys(start: int, stop: int) -> list[Any]:
    """Keys start, start + 1, …: two a record, seven hashes."""
    return [plain_index.Key(i * 3 % 7, i // 2 * 100, BEGIN_MS + i * 900) for i in range(start, stop)]


def files(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]


def expected(keys: list[Any], geometry: IndexGeometry = SMALL) -> list[bytes]:
    return [bytes(file) for file in plain_index.PlainIndex(geometry.slots, geometry.entries, keys).files]


# -- writing


def test_an_index_without_files(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    assert index.state == IndexState() == index.flush()
    assert list(index.candidates(7)) == list(index.entries()) == []
    assert (index.last_physical_offset, index.full_timestamp_ms, index.expire(99)) == (None, 0, [])
    assert index.truncate(0) and index.rewind(IndexState())
    index.clear()
    index.put(plain_index.key_entries_of([]))
    index.close()
    assert not (tmp_path / "index").exists(), "a file comes with the first key"
    assert not index.rewind(IndexState(20231114221320000, 5))


def test_a_put_is_found_before_it_is_flushed(tmp_path: Path) -> None:
    index, reader = index_at(tmp_path), IndexFolder(RealDisk(), tmp_path, SMALL)
    keys = some_keys(0, 50)
    for at in range(0, 50, 2):
        index.put(plain_index.key_entries_of(keys[at : at + 2]))
        for key in keys[at : at + 2]:
            assert next(index.candidates(key.hash)) == key.physical_offset
    # A reader in another process knows the two full files, and of the third what was flushed: nothing.
    reader.load()
    assert reader.last_physical_offset == keys[37].physical_offset
    index.flush()
    reader.load()
    assert reader.last_physical_offset == keys[-1].physical_offset
    index.close()


def test_the_order_and_the_parts_of_entries(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    keys = some_keys(0, 50)
    index.put(plain_index.key_entries_of(keys))
    for start in (0, 100, 950, 1000, 2400, 2500):
        found = [pair for piece in index.entries(start) for pair in piece[["key_hash", "physical_offset"]].tolist()]
        assert found == [(key.hash, key.physical_offset) for key in keys if key.physical_offset >= start]
    index.close()


def test_the_word_for_the_checkpoint_names_full_and_synced_files(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    keys = some_keys(0, 60)
    index.put(plain_index.key_entries_of(keys[:18]))
    index.flush()
    assert index.full_timestamp_ms == 0
    index.put(plain_index.key_entries_of(keys[18:20]))  # the second is in the next file: two keys of one record
    assert index.full_timestamp_ms == keys[18].time_ms
    index.put(plain_index.key_entries_of(keys[20:38]))
    assert index.full_timestamp_ms == keys[18].time_ms, "full, and not flushed yet"
    index.flush()
    assert index.full_timestamp_ms == keys[37].time_ms
    index.close()
    assert index_at(tmp_path).full_timestamp_ms == keys[37].time_ms


@pytest.mark.usefixtures("either_way")
def test_putting_a_range_again_changes_nothing(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    keys = some_keys(0, 70)
    for stop in range(0, 71, 2):
        index.put(plain_index.key_entries_of(keys[max(0, stop - 14) : stop]))
        if stop % 5 == 0:
            index.flush()
            index.close()
            index = index_at(tmp_path)
    index.flush()
    assert files(tmp_path) == expected(keys)
    index.close()


def test_a_record_with_more_keys_than_files_have_room(tmp_path: Path) -> None:
    keys = [plain_index.Key(i % 7, 500, BEGIN_MS) for i in range(70)]
    index = index_at(tmp_path)
    index.put(plain_index.key_entries_of(keys[:30]))
    index.flush()
    index.close()
    index = index_at(tmp_path)  # it counts the record's keys over two files
    index.put(plain_index.key_entries_of(keys))
    index.flush()
    assert files(tmp_path) == expected(keys)
    assert list(index.candidates(3)) == [500]
    index.close()


def test_an_empty_file_that_rocketmq_left_is_used(tmp_path: Path) -> None:
    """It makes one with the first message, whether that has keys or not."""
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "20231114221320000").write_bytes(bytes(SMALL.file_size))
    index = index_at(tmp_path)
    index.put(plain_index.key_entries_of(some_keys(0, 30)))
    index.flush()
    index.close()
    assert files(tmp_path) == expected(some_keys(0, 30))


def test_garbage_in_slots_counts_as_empty(tmp_path: Path) -> None:
    """As RocketMQ takes it: a put does not link to an entry that is not there."""
    index = index_at(tmp_path)
    index.put(plain_index.key_entries_of([plain_index.Key(1, 0, BEGIN_MS), plain_index.Key(2, 100, BEGIN_MS)]))
    index.flush()
    index.close()
    [path] = (tmp_path / "index").iterdir()
    raw = bytearray(path.read_bytes())
    raw[40 + 4 * 1 : 40 + 4 * 3] = (17).to_bytes(4, "big") + b"\xff\xff\xff\xff"
    path.write_bytes(raw)
    index = index_at(tmp_path)
    index.put(plain_index.key_entries_of([plain_index.Key(1, 200, BEGIN_MS), plain_index.Key(2, 300, BEGIN_MS)]))
    [piece] = index.entries(200)
    assert piece["previous"].tolist() == [0, 0]
    index.close()


# -- flush rounds


def test_rounds_that_overtake_each_other(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    keys = some_keys(0, 60)
    rounds = []
    for stop in (4, 10, 18, 30, 60):
        index.put(plain_index.key_entries_of(keys[max(0, stop - 30) : stop]))
        rounds.append(index.prepare_flush())
    states = [flush_round.state for flush_round in rounds]
    assert states == sorted(states) and len({state.file for state in states}) == 3
    for flush_round in reversed(rounds):
        flush_round.write()
        flush_round.write()
    assert files(tmp_path) == expected(keys)
    index.close()


def test_a_round_does_not_take_what_comes_after_it(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    keys = some_keys(0, 16)
    index.put(plain_index.key_entries_of(keys[:6]))
    flush_round = index.prepare_flush()
    index.put(plain_index.key_entries_of(keys[6:]))
    flush_round.write()
    [found], [wanted] = files(tmp_path), expected(keys[:6])
    slots_end = SMALL.entries_position
    assert found[:slots_end] == wanted[:slots_end], "header and slots are those of the round"
    index.close()
    index = index_at(tmp_path)
    assert index.rewind(flush_round.state, keys[5].time_ms)
    assert files(tmp_path) == [wanted]
    index.close()


def test_a_flush_writes_the_pages_that_changed(tmp_path: Path) -> None:
    disk = FaultyDisk()
    index = index_at(tmp_path, IndexGeometry(100_000, 1000), disk)
    index.put(plain_index.key_entries_of([plain_index.Key(i * 10, i, BEGIN_MS) for i in range(100)]))
    index.flush()
    before = disk.count("write")
    index.flush()
    assert disk.count("write") == before, "nothing to write"
    index.put(plain_index.key_entries_of([plain_index.Key(77_777, 1000, BEGIN_MS)]))
    assert [len(raw) for _, raw in index.prepare_flush().runs] == [4096]
    index.flush()
    assert disk.count("write") == before + 3, "an entry, a page, and the header"
    index.close()


# -- a disk that says no


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("operation", ["write", "create", "resize"])
@pytest.mark.parametrize("skip", range(12))
def test_no_room(operation: str, skip: int, tmp_path: Path) -> None:
    """Whatever fails is taken up again by putting the same keys again, and none is there twice."""
    disk = FaultyDisk()
    index = index_at(tmp_path, disk=disk)
    keys = some_keys(0, 80)
    fault = disk.fail(operation, "index", errno.ENOSPC, skip=skip, times=2)
    failures = 0
    for stop in range(10, 81, 10):
        while True:
            try:
                index.put(plain_index.key_entries_of(keys[stop - 10 : stop]))
                index.flush()
                break
            except DiskFullError:
                failures += 1
        found = {o for h in range(7) for o in index.candidates(h)}
        assert found == {key.physical_offset for key in keys[:stop]}
    assert failures == fault.hits
    assert files(tmp_path) == expected(keys)
    index.close()


def test_a_sync_that_fails(tmp_path: Path) -> None:
    disk = FaultyDisk()
    index = index_at(tmp_path, disk=disk)
    keys = some_keys(0, 30)
    index.put(plain_index.key_entries_of(keys[:10]))
    state = index.flush()
    index.put(plain_index.key_entries_of(keys[10:18]))
    disk.fail("sync", "index", errno.EIO)
    with pytest.raises(SyncFailedError):
        index.flush()
    with pytest.raises(SyncFailedError):
        index.put(plain_index.key_entries_of(keys[18:]))  # the file is full: it is flushed first
    index.close()
    disk.heal()
    index = index_at(tmp_path, disk=disk)
    assert index.rewind(state, keys[9].time_ms)
    assert files(tmp_path) == expected(keys[:10])
    index.close()


@pytest.mark.ci
@pytest.mark.parametrize("either_way", ["c", "pure"], indirect=True)
@pytest.mark.usefixtures("either_way")
def test_interrupted_anywhere(tmp_path: Path) -> None:
    """After a KeyboardInterrupt at any point of a put that fills one file and begins the next, the same put is done
    again, and everything is there once."""
    interrupt_at, disk = InterruptAt, PowerDisk(tmp_path, keeps_notes=False)
    keys = some_keys(0, 22)
    nth, fired = 1, True
    while fired:
        root = tmp_path / str(nth)
        index = index_at(root, disk=disk)
        index.put(plain_index.key_entries_of(keys[:16]))
        index.flush()
        with interrupt_at(nth) as point:
            index.put(plain_index.key_entries_of(keys[16:]))
        fired = point.fired
        if nth % 2:
            index.flush()
        index.put(plain_index.key_entries_of(keys[16:]))
        for hash_ in range(7):
            wanted = [key.physical_offset for key in reversed(keys) if key.hash == hash_]
            assert list(index.candidates(hash_)) == list(dict.fromkeys(wanted)), point.place
        index.flush()
        index.close()
        assert files(root) == expected(keys), point.place
        shutil.rmtree(root)
        nth += 1
    assert nth > 100
