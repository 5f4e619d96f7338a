"""A disk that runs full, at every place where room is asked for: a named error, reads go on, and nothing is lost."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, StoreSettings
from flightlog.engine.services.retention import Retention
from flightlog.store.errors import DiskFullError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import Acknowledged, AssertClean

SEGMENT_SIZE = 16 << 10


def settings(mode: FlushMode = FlushMode.ASYNC, **changes: int) -> StoreSettings:
    sizes: dict[str, Any] = {
        "segment_size": SEGMENT_SIZE,
        "queue_file_entries": 50,
        "allocate_step_size": 4096,
        "sync_flush_timeout_ms": 240_000,
    } | changes
    return StoreSettings(flush_mode=mode, flush_interval_ms=5, queue_flush_interval_ms=10, **sizes)


def put_until_full(store: flightlog.Store, acknowledged: Acknowledged) -> DiskFullError:
    for _ in range(2000):
        try:
            acknowledged.put(store, acknowledged.message())
        except DiskFullError as e:
            return e
    raise AssertionError("the disk never ran full")


@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("operation", ["allocate", "create", "resize"])
def test_no_room_for_the_log(
    operation: str,
    mode: FlushMode,
    kernel: str,
    tmp_path: Path,
    disk: FaultyDisk,
    acknowledged: Acknowledged,
    assert_clean: AssertClean,
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, settings(mode), disk=disk) as store:
        acknowledged.put(store, acknowledged.message())
        disk.fail(operation, "commitlog/", errno.ENOSPC, skip=3)
        error = put_until_full(store, acknowledged)
        for part in ("commitlog", "no room for", "No space left", "reads go on", "free space", "put again"):
            assert part in str(error)
        stored = len(acknowledged.bodies)
        assert acknowledged.check(store) == stored, "something of the refused message was stored"
        for _ in range(3):
            with pytest.raises(DiskFullError):
                store.put(acknowledged.message())
        disk.heal()
        for _ in range(200):
            acknowledged.put(store, acknowledged.message())
        assert acknowledged.check(store) == stored + 200
    assert assert_clean(path).records == stored + 200


def test_a_step_ahead_that_has_no_room_is_taken_smaller(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, settings(segment_size=16 << 20, allocate_step_size=8 << 20), disk=disk) as store:
        disk.fail("allocate", "commitlog/", errno.ENOSPC, times=1)
        acknowledged.put(store, acknowledged.message())
        acknowledged.put(store, acknowledged.message())
    assert assert_clean(path).records == 2


@pytest.mark.parametrize("mode", FlushMode)
def test_a_batch_is_stored_up_to_the_message_that_had_no_room(
    mode: FlushMode, tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, settings(mode), disk=disk) as store:
        disk.fail("create", "commitlog/", errno.ENOSPC, skip=2)
        messages = tuple(acknowledged.message() for _ in range(500))
        with pytest.raises(DiskFullError) as caught:
            store.put_many(messages)
        results = caught.value.results
        assert 100 < len(results) < 500
        acknowledged.note(results, messages)
        assert acknowledged.check(store) == len(results)
        if mode is FlushMode.SYNC:
            last = results[-1]
            assert inside.log(store).flushed >= last.physical_offset + last.size, "acknowledged before it was synced"
        disk.heal()
        acknowledged.put(store, *messages[len(results) :])
        assert acknowledged.check(store) == 500
    assert assert_clean(path).records == 500


@pytest.mark.parametrize("mode", FlushMode)
def test_a_put_of_many_refused_before_its_second_part_tells_the_results_of_the_first(
    mode: FlushMode,
    kernel: str,
    tmp_path: Path,
    acknowledged: Acknowledged,
    assert_clean: AssertClean,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The results were lost where the disk was found to be full between two parts: the caller put them again."""

    def refuse() -> None:
        raise DiskFullError(tmp_path, 1, "no room")

    with flightlog.open(tmp_path / "store", settings(mode)) as store:
        acknowledged.put(store, acknowledged.message())
        monkeypatch.setattr(Retention, "is_disk_full", True)
        monkeypatch.setattr(inside.maintenance(store).retention, "refuse_puts", refuse)
        messages = tuple(acknowledged.message() for _ in range(2000))
        with pytest.raises(DiskFullError) as caught:
            store.put_many(messages)
        results = caught.value.results
        assert 0 < len(results) == store.queue_bounds("orders", 0)[1] - 1 < 2000
        acknowledged.note(results, messages)
        monkeypatch.undo()
        acknowledged.put(store, *messages[len(results) :])
    assert assert_clean(tmp_path / "store").records == 2001


@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("operation", ["write", "create", "resize", "make_folder"])
def test_no_room_for_queue_entries(
    operation: str,
    mode: FlushMode,
    tmp_path: Path,
    disk: FaultyDisk,
    acknowledged: Acknowledged,
    assert_clean: AssertClean,
) -> None:
    """Messages wait in the log; what is dispatched can be read; puts are refused until the entries have room."""
    path = tmp_path / "store"
    with flightlog.open(path, settings(mode), disk=disk) as store:
        for i in range(10):
            acknowledged.put(store, acknowledged.message(queue_id=i % 2))
        assert acknowledged.check(store) == 10
        disk.fail(operation, "consumequeue/", errno.ENOSPC)
        refused, deadline = False, time.monotonic() + 240
        while time.monotonic() < deadline:
            try:  # past the end of a queue file, and with a queue that has none yet
                acknowledged.put(store, acknowledged.message(queue_id=len(acknowledged.bodies) % 3))
            except DiskFullError as e:
                assert "consumequeue" in str(e) and "free space" in str(e)
                refused = True
                break
            time.sleep(0.001)
        assert refused, "puts went on though their messages could not be read"
        for queue_id in range(2):
            assert len(list(store.read("orders", queue_id))) >= 5
            assert store.get("orders", queue_id, 0).messages
        disk.heal()
        acknowledged.put(store, acknowledged.message())
        assert acknowledged.check(store) == len(acknowledged.bodies)
    assert assert_clean(path).records == len(acknowledged.bodies)


def test_a_store_that_stays_full_closes_with_an_error_and_loses_nothing(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    # No round of the service comes in between: it would refuse the second put.
    store = flightlog.open(path, replace(settings(), flush_interval_ms=3_600_000), disk=disk)
    acknowledged.put(store, acknowledged.message())
    disk.fail("write", "consumequeue/", errno.ENOSPC)
    acknowledged.put(store, acknowledged.message())
    with pytest.raises(DiskFullError, match="consumequeue"):
        store.close()
    store.close()
    with flightlog.open_read_only(path) as view:
        assert acknowledged.check(view) == 2
    with pytest.raises(DiskFullError, match="consumequeue"):
        flightlog.open(path, disk=disk)
    disk.heal()
    with flightlog.open(path, disk=disk) as store:
        assert acknowledged.check(store) == 2
    assert assert_clean(path).records == 2


def test_no_room_for_the_checkpoint(
    tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, settings(), disk=disk) as store:
        fault = disk.fail("write", "store/checkpoint", errno.ENOSPC)
        deadline = time.monotonic() + 240
        while not fault.hits and time.monotonic() < deadline:
            acknowledged.put(store, acknowledged.message())
            time.sleep(0.002)
        assert fault.hits
        acknowledged.put(store, acknowledged.message())
        assert acknowledged.check(store) == len(acknowledged.bodies)
        with pytest.raises(DiskFullError, match="store/checkpoint"):
            store.close()
    disk.heal()
    with flightlog.open(path, disk=disk) as store:
        acknowledged.put(store, acknowledged.message())
        assert acknowledged.check(store) == len(acknowledged.bodies)
    assert assert_clean(path).records == len(acknowledged.bodies)


@pytest.mark.parametrize("operation", ["create", "write", "make_folder"])
def test_no_room_for_seals_is_no_harm(
    operation: str, tmp_path: Path, disk: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, settings(), disk=disk) as store:
        fault = disk.fail(operation, "store/flightlog/seals", errno.ENOSPC)
        deadline = time.monotonic() + 240
        while not fault.hits and time.monotonic() < deadline:
            acknowledged.put(store, acknowledged.message())
        for _ in range(100):
            acknowledged.put(store, acknowledged.message())
    assert fault.hits
    assert assert_clean(path).sealed_segments == 0
    assert not list((path / "flightlog").glob("seals/*")), "a half-written seal was left behind"
    disk.heal()
    with flightlog.open(path, disk=disk) as store:
        assert acknowledged.check(store) == len(acknowledged.bodies)
        acknowledged.put(store, acknowledged.message())
    report = assert_clean(path)
    assert report.records == len(acknowledged.bodies)
    assert report.sealed_segments == report.segments - 1


Place = tuple[str, str]
OPENING: list[Place] = [
    ("make_folder", "store/commitlog"),
    ("create", "store/abort"),
    ("write", "store/abort"),
    ("create", "store/checkpoint"),
    ("write", "store/checkpoint"),
    ("make_folder", "store/flightlog"),
    ("create", "store/flightlog/progress"),
    ("allocate", "store/flightlog/progress"),
    ("write", "store/flightlog/progress"),
]


@pytest.mark.parametrize("place", OPENING, ids=" ".join)
@pytest.mark.parametrize("was", ["new", "closed", "killed"])
def test_no_room_while_opening(
    place: Place,
    was: str,
    tmp_path: Path,
    disk: FaultyDisk,
    acknowledged: Acknowledged,
    assert_clean: AssertClean,
    leave_as_killed: Callable[[flightlog.Store], None],
) -> None:
    path = tmp_path / "store"
    if was != "new":
        store = flightlog.open(path, settings())
        acknowledged.put(store, acknowledged.message(), acknowledged.message())
        leave_as_killed(store) if was == "killed" else store.close()
    fault = disk.fail(*place, errno.ENOSPC)
    try:
        flightlog.open(path, settings(), disk=disk).close()
    except DiskFullError as e:
        assert place[1] in str(e) and "free space" in str(e)
    else:
        assert not fault.hits
    if was != "new":
        with flightlog.open_read_only(path) as view:
            assert acknowledged.check(view) == 2
    disk.heal()
    with flightlog.open(path, settings(), disk=disk) as store:
        assert acknowledged.check(store) == len(acknowledged.bodies)
        acknowledged.put(store, acknowledged.message())
    assert assert_clean(path).records == len(acknowledged.bodies)


def test_no_room_to_keep_a_torn_tail(
    tmp_path: Path,
    disk: FaultyDisk,
    acknowledged: Acknowledged,
    assert_clean: AssertClean,
    leave_as_killed: Callable[[flightlog.Store], None],
) -> None:
    """What is cut is kept first; where it cannot be kept, nothing is cut."""
    path = tmp_path / "store"
    store = flightlog.open(path, settings())
    acknowledged.put(store, acknowledged.message(), acknowledged.message())
    end = inside.log(store).end
    leave_as_killed(store)
    with open(path / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(end)
        file.write(b"torn" * 30)
    disk.fail("write", "cut-", errno.ENOSPC)
    for _ in range(2):
        with pytest.raises(DiskFullError, match=r"cut-0+\d+.*free space"):
            flightlog.open(path, disk=disk)
    disk.heal()
    with flightlog.open(path, disk=disk) as store:
        assert "torn tail" in " ".join(store.recovery_report.cut)
        assert acknowledged.check(store) == 2
        acknowledged.put(store, acknowledged.message())
    kept = [file.read_bytes() for file in (path / "flightlog").glob("cut-*")]
    assert b"torn" * 30 in kept
    assert assert_clean(path).records == 3


@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("operation", ["create", "allocate"])
def test_columns_are_stored_up_to_the_row_that_had_no_room(
    operation: str, mode: FlushMode, kernel: str, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    bodies = [b"%d" % i for i in range(500)]
    stored = []
    for name in ("messages", "columns"):
        with flightlog.open(tmp_path / name, settings(mode), disk=disk) as store:
            disk.fail(operation, "commitlog/", errno.ENOSPC, skip=2)
            with pytest.raises(DiskFullError) as caught:
                if name == "columns":
                    store.append_columns("t", {"body": bodies})
                else:
                    store.put_many([flightlog.Message("t", body) for body in bodies])
            found = caught.value.appended
            stored.append(len(caught.value.results) if found is None else len(found))
            assert [message.body for message in store.read("t")] == bodies[: stored[-1]]
            if mode is FlushMode.SYNC:
                assert inside.log(store).flushed == inside.log(store).end
            disk.heal()
            assert store.append_columns("t", {"body": bodies[stored[-1] :]}).queue_offsets[0] == stored[-1]
            assert [message.body for message in store.read("t")] == bodies
        assert assert_clean(tmp_path / name).records == 500
    assert 100 < stored[0] == stored[1] < 500, "the rows before the refused one are those that puts would have stored"
