"""A disk that fails under the key index: no query answers less than there is, and nothing is lost for good."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlightlogError, FlushMode
from flightlog.engine.open.shutdown_state import LastWriter
from flightlog.store.errors import DiskError, DiskFullError, StorePoisonedError, SyncFailedError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, keyed

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

INDEX = "store/index"


def listed(store: flightlog.Store) -> list[int]:
    """The numbers of the messages that stand in queues."""
    return sorted(keyed.number_of(message) for key in store.queues() for message in store.read(*key))


def expected_in_queues(count: int) -> list[int]:
    return [i for i in range(count) if keyed.sys_flag(i) == 0]


@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("operation", ["make_folder", "create", "resize", "write"])
def test_no_room_for_keys(
    operation: str, mode: FlushMode, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    """Puts are refused, queues go on, and a query raises rather than answer without what it cannot know."""
    with flightlog.open(tmp_path / "store", keyed.settings(flush_mode=mode), disk=disk) as store:
        count = 0 if operation == "make_folder" else 20
        store.put_many(keyed.messages(0, count))
        keyed.check(store, count)
        disk.fail(operation, INDEX, errno.ENOSPC)
        with pytest.raises(DiskFullError, match="index"):
            while count < 200:
                store.put(keyed.message(count))
                count += 1
                assert listed(store) == expected_in_queues(count), "queues wait for the index"
        for ask in (
            lambda: store.query("t0", "u0"),
            lambda: store.was_stored("u0"),
            lambda: store.put(keyed.message(0)),
        ):
            with pytest.raises(DiskFullError, match="index"):
                ask()
        assert listed(store) == expected_in_queues(count)
        with flightlog.open_read_only(tmp_path / "store") as view:
            keyed.check(view, count)
        disk.heal()
        keyed.check(store, count)
        store.put_many(keyed.messages(count, count + 20))
        keyed.check(store, count + 20)
    assert assert_clean(tmp_path / "store").index_entries == keyed.key_count(count + 20)


@pytest.mark.parametrize("slots", [3, 8, 10, 33, 700])
def test_no_room_between_the_slots_and_the_header(
    slots: int,
    tmp_path: Path,
    disk: FaultyDisk,
    copy_as_killed: Callable[[Path, Path], Path],
    assert_clean: AssertClean,
) -> None:
    """The file then has slots of two flushes: what it says of its geometry, which need not be the usual one, is still
    enough."""
    size = 40 + 4 * slots + 20 * 40
    with flightlog.open(tmp_path / "store", keyed.settings(index_slots=slots, index_entries=40), disk=disk) as store:
        store.put_many(keyed.messages(0, 4))
        keyed.flush_index(store)
        store.put_many(keyed.messages(4, 12))
        store.queues()
        [file] = (tmp_path / "store" / "index").iterdir()
        header, rest = file.read_bytes()[:40], file.read_bytes()[40:]
        disk.fail("write", INDEX, errno.ENOSPC, skip=1)  # the slots lie in one page
        with pytest.raises(DiskFullError, match="index"):
            inside.maintenance(store).flush_index()
        assert file.read_bytes()[16:40] == header[16:] and file.read_bytes()[40:] != rest
        killed = copy_as_killed(tmp_path / "store", tmp_path / "killed")
        with flightlog.open_read_only(tmp_path / "store") as view:
            assert view.verify().findings == []
        disk.heal()
    assert_clean(tmp_path / "store")
    with flightlog.open_read_only(killed) as view:
        keyed.check(view, 12)
        assert view.verify().findings == []
    with flightlog.open(killed) as store:
        store.put_many(keyed.messages(12, 40))
        keyed.check(store, 40)
    assert {file.stat().st_size for file in (killed / "index").iterdir()} == {size}
    assert assert_clean(killed).index_entries == keyed.key_count(40)


@pytest.mark.parametrize("what", ["entries", "slots"])
def test_a_close_without_room_for_the_index_is_a_clean_one(
    what: str, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    store = flightlog.open(path, keyed.settings(), disk=disk)
    store.put_many(keyed.messages(0, 20))
    keyed.flush_index(store)
    store.put_many(keyed.messages(20, 40))
    if what == "slots":
        store.queues()  # the entries have found room
    disk.fail("write", INDEX, errno.ENOSPC)
    store.close()
    assert not (path / "abort").exists()
    with flightlog.open_read_only(path) as view:
        assert view.shutdown_state.last_writer is LastWriter.FLIGHTLOG_CLOSED
        keyed.check(view, 40)
    with pytest.raises(DiskFullError, match="index"):
        flightlog.open(path, disk=disk)
    disk.heal()
    with flightlog.open(path, disk=disk) as store:
        assert store.recovery_report.keys_put == keyed.key_count(40) - keyed.key_count(20)
        keyed.check(store, 40)
    assert_clean(path)


@pytest.mark.parametrize("how", ["roll", "flush"])
def test_a_failed_sync_of_an_index_file_poisons(
    how: str, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    changes = {"flush_interval_ms": 2, "index_flush_interval_ms": 2} if how == "flush" else {}
    store = flightlog.open(path, keyed.settings(**changes), disk=disk)
    disk.fail("sync", INDEX, errno.EIO)
    store.put_many(keyed.messages(0, 30))
    if how == "roll":
        with pytest.raises(SyncFailedError):
            store.query("t0", "u0")
    deadline = time.monotonic() + 60
    with pytest.raises(StorePoisonedError, match="Input/output error"):
        while time.monotonic() < deadline:
            store.put(keyed.message(30))
            time.sleep(0.002)
    count = store.verify().records
    disk.heal()
    syncs = disk.count("sync", INDEX)
    assert len(listed(store)) >= len(expected_in_queues(30)), "reads go on"
    with pytest.raises(StorePoisonedError):
        store.put(keyed.message(31))
    if how == "roll":
        with pytest.raises(SyncFailedError):
            store.query("t0", "u0")
    store.close()
    assert disk.count("sync", INDEX) == syncs, "a failed sync was tried again"
    assert (path / "abort").exists()
    with flightlog.open(path) as store:
        assert store.verify().records == count
        assert keyed.query(store, "t0", "u0") == [0] and keyed.query(store, "t0", "g2")[-1] == 2
        for i in range(30):
            if keyed.is_keyed(i) and keyed.sys_flag(i) != keyed.ROLLBACK:
                assert keyed.query(store, keyed.TOPICS[i % 2], f"u{i}") == [i]
    assert_clean(path)


@pytest.mark.parametrize("operation", ["write", "create", "resize"])
def test_an_index_that_cannot_be_written_poisons(
    operation: str, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    store = flightlog.open(path, keyed.settings(), disk=disk)
    store.put_many(keyed.messages(0, 20))
    keyed.check(store, 20)
    disk.fail(operation, INDEX, errno.EIO)
    store.put_many(keyed.messages(20, 40))
    assert listed(store) == expected_in_queues(40)
    for _ in range(2):
        with pytest.raises(DiskError, match="Input/output error"):
            store.query("t0", "u0")
        with pytest.raises(StorePoisonedError):
            store.put(keyed.message(40))
    store.close()
    disk.heal()
    with flightlog.open(path) as store:
        keyed.check(store, 40)
    assert_clean(path)


class Witness:
    """Puts and queries that may fail; an answer that comes must be right."""

    def __init__(self) -> None:
        self._keyed = keyed
        self.count = 0
        self.errors: list[FlightlogError] = []

    def tolerate(self, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except FlightlogError as e:
            assert len(str(e)) > 40 and "/" in str(e)
            self.errors.append(e)
            return None

    def live(self, store: flightlog.Store) -> None:
        keyed = self._keyed
        for i in range(9):
            if self.tolerate(lambda: store.put(keyed.message(self.count))) is not None:
                self.count += 1
            group = self.tolerate(lambda: keyed.query(store, "t0", "g0"))
            if group is not None:
                assert (
                    group == [n for n in reversed(range(self.count)) if n % 4 == 0 and keyed.is_keyed(n)][: len(group)]
                )
                assert len(group) == sum(n % 4 == 0 and keyed.is_keyed(n) for n in range(self.count))
            if i % 3 == 2:
                self.tolerate(lambda: keyed.flush_index(store))


@pytest.mark.ci
@pytest.mark.parametrize("passes", [True, False], ids=["once", "for good"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_any_operation_on_the_index_may_fail(
    error: int, passes: bool, tmp_path: Path, scale: Scale, assert_clean: AssertClean
) -> None:
    nth = failed = 0
    while True:
        disk: FaultyDisk = FaultyDisk()
        fault = disk.fail("*", f"{nth}/store/index", error, skip=nth, times=1 if passes else None)
        path, witness = tmp_path / str(nth) / "store", Witness()
        path.parent.mkdir()
        store = flightlog.open(path, keyed.settings(), disk=disk)  # there is no index yet that could fail
        witness.live(store)
        witness.tolerate(store.close)
        assert store.is_closed
        hits = fault.hits
        disk.heal()
        if hits == 0:
            break
        failed += bool(witness.errors)
        with flightlog.open(path, keyed.settings()) as store:
            assert store.verify().records == witness.count
            keyed.check(store, witness.count)
        assert assert_clean(path).oddities == []
        nth += scale.pick(ci=2, full=1)
    assert nth > 45 and failed > 15
