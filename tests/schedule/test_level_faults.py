"""A disk that runs full or fails under deliveries and under the file that says how far they are."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.schedule.delay_level import FULL_DISK_RETRY_MS, RETRY_MS
from flightlog.store.errors import StorePoisonedError
from flightlog.testing.clock import ManualClock
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.schedule.conftest import Bodies, ByHand

AssertClean = Callable[[Path], None]
FILE = "config/delayOffset.json"
OPERATIONS = ["create", "write", "resize", "sync", "rename", "sync_folder"]


def settings(mode: FlushMode = FlushMode.ASYNC) -> StoreSettings:
    return StoreSettings(
        segment_size=65536, queue_file_entries=100, index_slots=100, index_entries=400, delay_levels="1s",
        flush_mode=mode, flush_interval_ms=3_600_000, allocate_step_size=4096, prepare_ahead_size=0,
    )  # fmt: skip


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_was_not_written_down_is_written_later(
    operation: str,
    error: int,
    tmp_path: Path,
    clock: ManualClock,
    disk: FaultyDisk,
    caplog: pytest.LogCaptureFixture,
    assert_clean: AssertClean,
    by_hand: ByHand,
    bodies: Bodies,
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, settings(), disk=disk, clock=clock) as store:
        run = by_hand(store)
        store.put(Message("t", b"0", delay_level=1))
        clock.advance(1000)
        run()
        inside.delay_service(store).save()
        store.put(Message("t", b"1", delay_level=1))
        clock.advance(1000)
        run()
        fault = disk.fail(operation, "config" if operation == "sync_folder" else FILE, error)
        with caplog.at_level(logging.WARNING, "flightlog.schedule"):
            inside.delay_service(store).save()
            inside.delay_service(store).save()
        assert fault.hits == 2 and caplog.text.count("was not written") == 1, "told once, tried each time"
        store.put(Message("t", b"2", delay_level=1))
        clock.advance(1000)
        run()
        assert bodies(store) == [b"0", b"1", b"2"]
        disk.heal()
        inside.delay_service(store).save()
        assert not inside.delay_levels(store).is_unsaved
    with flightlog.open(path, settings(), disk=disk, clock=clock) as store:
        by_hand(store)()
        assert bodies(store) == [b"0", b"1", b"2"]
    assert_clean(path)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_store_whose_close_cannot_write_it_down_closes_cleanly_and_delivers_again(
    operation: str,
    tmp_path: Path,
    clock: ManualClock,
    disk: FaultyDisk,
    assert_clean: AssertClean,
    by_hand: ByHand,
    bodies: Bodies,
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, settings(), disk=disk, clock=clock) as store:
        run = by_hand(store)
        store.create_topic("t", 4)
        store.put(Message("t", b"0", delay_level=1))
        clock.advance(1000)
        run()
        disk.fail(operation, "config" if operation == "sync_folder" else FILE, errno.ENOSPC)
    disk.heal()
    assert not (path / "abort").exists()
    with flightlog.open(path, settings(), disk=disk, clock=clock) as store:
        by_hand(store)()
        # A rename whose folder was not synced is seen all the same, as long as the power stays.
        assert bodies(store) == [b"0"] * (1 if operation == "sync_folder" else 2)
    assert_clean(path)


@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_half_way_holds_deliveries_up_skips_none_and_repeats_none(
    error: int,
    mode: FlushMode,
    tmp_path: Path,
    clock: ManualClock,
    disk: FaultyDisk,
    assert_clean: AssertClean,
    by_hand: ByHand,
    bodies: Bodies,
) -> None:
    path = tmp_path / "store"
    retry_ms = FULL_DISK_RETRY_MS if error == errno.ENOSPC else RETRY_MS
    with flightlog.open(path, settings(mode), disk=disk, clock=clock) as store:
        run = by_hand(store)
        wanted = [b"%d" % i + bytes(800) for i in range(60)]
        store.put_many(Message("t", body, delay_level=1) for body in wanted)
        clock.advance(1000)
        fault = disk.fail("allocate", "commitlog/", error)
        for _ in range(5):
            run()
            clock.advance(retry_ms)
        found = bodies(store)
        assert fault.hits and 0 < len(found) < 60 and found == wanted[: len(found)]
        assert store.statistics().delays[0].pending == 60 - len(found)
        disk.heal()
        for _ in range(5):
            run()
            clock.advance(retry_ms)
        assert bodies(store) == wanted, "each once, none skipped"
    assert_clean(path)


def test_a_failed_sync_ends_deliveries_and_acknowledges_none(
    tmp_path: Path, clock: ManualClock, disk: FaultyDisk, assert_clean: AssertClean, by_hand: ByHand, bodies: Bodies
) -> None:
    path = tmp_path / "store"
    store = flightlog.open(path, settings(FlushMode.SYNC), disk=disk, clock=clock)
    run = by_hand(store)
    store.put_many(Message("t", b"%d" % i, delay_level=1) for i in range(3))
    clock.advance(1000)
    disk.fail("sync", "/commitlog/", errno.EIO)
    run()
    state = store.statistics().delays[0]
    assert (state.pending, state.delivered) == (3, 0) and bodies(store) == []
    clock.advance(10_000)
    with pytest.raises(StorePoisonedError):
        run()
    store.close()
    disk.heal()
    with flightlog.open(path, settings(FlushMode.SYNC), disk=disk, clock=clock) as store:
        by_hand(store)()
        assert set(bodies(store)) == {b"0", b"1", b"2"}
    assert_clean(path)


def test_a_queue_that_cannot_be_read_is_tried_again(
    tmp_path: Path,
    clock: ManualClock,
    disk: FaultyDisk,
    caplog: pytest.LogCaptureFixture,
    assert_clean: AssertClean,
    by_hand: ByHand,
    bodies: Bodies,
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, settings(), disk=disk, clock=clock) as store:
        run = by_hand(store)
        store.put(Message("t", b"0", delay_level=1))
        clock.advance(1000)
        inside.dispatcher(store).catch_up()
        disk.fail("read", "SCHEDULE_TOPIC_XXXX", errno.EIO)
        with caplog.at_level(logging.WARNING, "flightlog.schedule"):
            run()
        assert "nothing is delivered from queue offset 0" in caplog.text
        disk.heal()
        clock.advance(10_000)
        run()
        assert bodies(store) == [b"0"]
    assert_clean(path)
