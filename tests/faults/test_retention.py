"""Retention on disks that fail, lose power, or run full: what is removed goes in an order that harms nobody."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlightlogError, FlushMode, Message, Store, StoreSettings
from flightlog.store.errors import DiskFullError, StorePoisonedError
from flightlog.testing import kill
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside, mounts

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import AssertClean, InChild

NEVER_MS = 3_600_000
SETTINGS = StoreSettings(
    segment_size=4096,
    queue_file_entries=5,
    index_slots=5,
    index_entries=8,
    allocate_step_size=4096,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    index_flush_interval_ms=NEVER_MS,
    clean_batch_count=3,
)
COUNT = 24


def fill(store: Store) -> None:
    """Six segments, two queues of three files, four index files; all but the last three messages are flushed."""
    for i in range(COUNT):
        store.put(Message("t", b"%03d" % i + bytes(700), queue_id=i % 2, keys=f"k-{i}"))
        if i == COUNT - 4:
            store.flush()
            inside.maintenance(store).flush_index()
            inside.maintenance(store).flush_queues()


def check(store: Store, *, at_least: int) -> int:
    """What is there is one stretch of what was put, in both queues, by key too; returns how many messages."""
    found = sorted(int(m.body[:3]) for key in store.queues() for m in store.read(*key))
    assert found == list(range(found[0], found[-1] + 1)) and found[-1] >= at_least
    for i in range(COUNT):
        assert [int(m.body[:3]) for m in store.query("t", f"k-{i}").messages] == ([i] if i in found else [])
    for queue_id in (0, 1):
        first, end = store.queues()["t", queue_id]
        assert first == (found[0] + 1 - queue_id) // 2 and end - first == len(list(store.read("t", queue_id)))
    return len(found)


@pytest.mark.ci
@pytest.mark.parametrize("passes", [True, False], ids=["once", "for good"])
def test_any_operation_of_a_round_may_fail(
    passes: bool, tmp_path: Path, new_disk: Callable[[], FaultyDisk], assert_clean: AssertClean
) -> None:
    nth = failed = 0
    while True:
        path, disk = tmp_path / f"store-{nth}", new_disk()
        with flightlog.open(path, SETTINGS, disk=disk) as store:
            fill(store)
            fault = disk.fail("*", path.name, errno.EIO, skip=nth, times=1 if passes else None)
            with suppress(FlightlogError):
                store.clean_up(0)
            failed += bool(fault.hits)
            disk.heal()
            if inside.log(store).poison is None:
                store.clean_up(0)
                assert len(inside.log(store).reader.segments) <= 3 and inside.log(store).poison is None
                assert check(store, at_least=COUNT - 1) < COUNT
                assert store.verify().is_clean
            else:
                with pytest.raises(StorePoisonedError):
                    store.clean_up(0)
        if not fault.hits:
            break
        with flightlog.open(path, SETTINGS) as store:
            check(store, at_least=COUNT - 1)
            store.clean_up(0)
            assert store.put(Message("t", b"099")).queue_offset == COUNT // 2
        assert_clean(path)
        nth += 1
    print(f"{nth} operations, {failed} failed")
    assert nth > 12


@pytest.mark.ci
@pytest.mark.parametrize("ending", ["killed", "cut"])
def test_a_round_may_end_anywhere(ending: str, tmp_path: Path, assert_clean: AssertClean) -> None:
    """By the death of the process, or by a power cut that keeps any part of what was not synced."""
    operations = 0
    while True:
        disk: PowerDisk = PowerDisk(tmp_path / f"store-{operations}", keeps_notes=ending == "cut")
        store = flightlog.open(disk.root, SETTINGS, disk=disk)
        fill(store)
        store.flush()
        end = inside.log(store).end
        disk.die_after = operations
        died = False
        try:
            store.clean_up(0)
        except Died:
            died = True
        kill(store)
        if ending == "cut":
            disk.cut(random.Random(operations))
        else:
            disk.kill()
        store = flightlog.open(disk.root, SETTINGS, disk=disk)
        assert inside.log(store).end == end
        check(store, at_least=COUNT - 1)
        assert store.verify().is_clean
        store.clean_up(0)
        assert check(store, at_least=COUNT - 1) < COUNT
        store.put(Message("t", b"099"))
        assert store.verify().is_clean
        store.close()
        assert_clean(disk.root)
        if not died:
            break
        operations += 1
    print(f"{ending}: {operations} operations")
    assert operations > 8


@pytest.mark.parametrize("seed", range(5))
def test_a_queue_whose_records_are_all_gone_goes_on_with_new_offsets_after_a_power_cut(
    seed: int, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """What had read up to offset 3 would pass over another message of offset 2."""
    disk: PowerDisk = PowerDisk(tmp_path / "store")
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    for i in range(3):
        store.put(Message("rare", b"%d" % i))
    for _ in range(12):
        store.put(Message("t", bytes(700)))
    store.flush()
    assert store.queues()["rare", 0] == (0, 3)
    assert store.clean_up(0).min_physical_offset > 0
    kill(store)
    disk.cut(random.Random(seed), chance=seed / 8)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert store.queues()["rare", 0] == (3, 3)
        assert store.put(Message("rare", b"3")).queue_offset == 3
    assert_clean(disk.root)


@pytest.mark.parametrize("gone", [[1], [0, 2], [1, 2]])
def test_queue_files_that_came_back_out_of_order_are_made_anew(
    gone: list[int], tmp_path: Path, assert_clean: AssertClean
) -> None:
    """As a file system might leave them that does not keep the order of removals."""
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        fill(store)
        bounds = store.queues()
    for number in gone:
        (tmp_path / "store" / "consumequeue" / "t" / "0" / f"{number * 100:020d}").unlink()
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        assert store.queues() == bounds
        check(store, at_least=COUNT - 1)
    assert_clean(tmp_path / "store")


@pytest.mark.ci
@pytest.mark.parametrize("mode", FlushMode)
def test_retention_makes_room_on_a_full_file_system(
    mode: FlushMode, tmp_path: Path, assert_clean: AssertClean, in_child: InChild
) -> None:
    """Filled until it refuses, then retention removes the oldest, and it takes messages again: by itself."""
    mounts.needs_root()
    settings = StoreSettings(
        segment_size=256 << 10,
        queue_file_entries=500,
        index_slots=100,
        index_entries=1000,
        allocate_step_size=128 << 10,
        flush_mode=mode,
        flush_interval_ms=2,
        queue_flush_interval_ms=4,
        retention_hours=72,
        clean_interval_ms=NEVER_MS,
        clean_batch_count=4,
    )
    body = bytes(range(256)) * 64

    def put_until_refused(store: Store, put: list[int]) -> str:
        for _ in range(100_000):
            message = Message("t", b"%06d" % put[0] + body, keys=f"k-{put[0]}")
            try:
                result = store.put(message)
            except DiskFullError:
                store.queues()  # more is kept free for messages that are not in their queues yet
                try:
                    result = store.put(message)
                except DiskFullError as e:
                    return str(e)
            assert result.queue_offset == put[0], "nothing is lost and nothing stands twice"
            put[0] += 1
        raise AssertionError("the disk never ran full")

    def check_all(store: Store, put: int) -> None:
        first, end = store.queues()["t", 0]
        assert end == put
        assert [m.body[:6] for m in store.read("t")] == [b"%06d" % i for i in range(first, end)]

    def fill_and_free(place: Path) -> None:
        put = [0]
        with flightlog.open(place / "store", settings) as store:
            for _ in range(3):
                refused = put_until_refused(store, put)
                check_all(store, put[0])
                before = store.queues()["t", 0][0]
                # No time and no hour has come: it is the disk's ratio that makes room.
                report = inside.maintenance(store).clean_up(72)
                assert report.used_ratio is not None and report.used_ratio > 85, refused
                assert len(report.segments) == 4 and store.queues()["t", 0][0] > before
                for _ in range(30):  # down to where puts are taken again, whatever the ratio was
                    if inside.maintenance(store).clean_up(72).segments == []:
                        break
                store.put(Message("t", b"%06d" % put[0] + body))
                put[0] += 1
                check_all(store, put[0])
            assert store.verify().is_clean
        with flightlog.open(place / "store") as store:
            check_all(store, put[0])
        assert_clean(place / "store")

    disk = mounts.Ext4(tmp_path, 24 << 20)
    disk.make()
    with disk as place:
        in_child(lambda: fill_and_free(place))
