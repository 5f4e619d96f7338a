"""What a log that is at rest has ready for the next burst of appends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, Message, Store, StoreSettings
from flightlog.store.disk.disk import MappedPart
from flightlog.store.segments.segment import DEEP_SIZE, FOLIO_SIZE
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, ManualClock

MIB = 1 << 20
BODY = bytes(64 << 10)
WaitUntil = Callable[[Callable[[], object]], None]


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def wait_until() -> WaitUntil:
    return process.wait_until


def settings(**changes: Any) -> StoreSettings:
    usual: dict[str, Any] = {"queue_file_entries": 1000, "flush_interval_ms": 3_600_000, "index_slots": 1000}
    return StoreSettings(**usual | changes)


def put(store: Store, count: int) -> None:
    for _ in range(count):
        store.put(Message("t", BODY))


@contextmanager
def one_burst(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Appends within it never pause for so long that the log counts as at rest, however slow the machine is."""
    with monkeypatch.context() as patch:
        patch.setattr(inside.prepare_service(store), "_rest", lambda: None)
        yield


def test_at_rest_as_much_is_prepared_as_the_last_burst_took(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    """Not for a few messages, and no more than the machine allows."""
    with flightlog.open(tmp_path, settings(), clock=clock) as store:
        inside.allow_for_burst(store, 96 * MIB)  # on a machine of any size
        put(store, 1)
        clock.at_ms += 10_000
        assert inside.prepare_service(store).settled(process.LIMIT_S)
        assert inside.active_segment(store).populated < inside.log(store).end + 2 * MIB
        with one_burst(store, monkeypatch):
            put(store, 80 * 16)  # 80 MiB
        store.flush()
        clock.at_ms += 10_000_000  # long ago: what the log grows by in a moment is nothing
        assert inside.prepare_service(store).settled(process.LIMIT_S)
        end = inside.log(store).end
        assert end + 80 * MIB <= inside.active_segment(store).populated <= end + 80 * MIB + 2 * FOLIO_SIZE
        assert inside.expects_bulk(store)
        populated = inside.active_segment(store).populated
        put(store, 1)
        assert inside.prepare_service(store).settled(process.LIMIT_S)
        assert inside.active_segment(store).populated <= populated + MIB
        with one_burst(store, monkeypatch):
            put(store, 100 * 16)
        clock.at_ms += 10_000_000
        assert inside.prepare_service(store).settled(process.LIMIT_S)
        end = inside.log(store).end
        assert end + 95 * MIB <= inside.active_segment(store).populated <= end + 96 * MIB + FOLIO_SIZE, (
            "as much as it may be at most"
        )
    assert_clean(tmp_path)


def test_a_log_that_came_to_rest_is_prepared_unasked(
    tmp_path: Path, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, settings()) as store:
        inside.allow_for_burst(store, 64 * MIB)
        put(store, 1)
        assert inside.prepare_service(store).settled(process.LIMIT_S)
        with one_burst(store, monkeypatch):
            put(store, 40 * 16)
        wait_until(lambda: inside.active_segment(store).populated >= inside.log(store).end + 40 * MIB)
        store.put(Message("t", b"small"))
    assert_clean(tmp_path)


@pytest.mark.parametrize("changes", [{"flush_mode": FlushMode.SYNC}, {"prepare_ahead_size": MIB}])
def test_no_burst_is_prepared_for_under_sync_flush_or_beyond_what_was_asked_for(
    changes: dict[str, Any], tmp_path: Path, clock: ManualClock, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, settings(**changes), clock=clock) as store:
        put(store, 1)
        assert inside.prepare_service(store).settled(process.LIMIT_S)
        put(store, 20 * 16)
        assert inside.prepare_service(store).settled(process.LIMIT_S)
        assert not inside.log(store).prepare_for_burst()
        assert inside.active_segment(store).populated <= inside.log(store).end + 64 * MIB + FOLIO_SIZE
    assert_clean(tmp_path)


def test_a_burst_is_not_prepared_for_on_a_disk_that_fills_up(
    tmp_path: Path, disk: FaultyDisk, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, settings(), clock=clock, disk=disk) as store:
        inside.allow_for_burst(store, 100 * MIB)
        put(store, 1)
        assert inside.prepare_service(store).settled(process.LIMIT_S)
        with one_burst(store, monkeypatch):
            put(store, 100 * 16)
            monkeypatch.setattr(disk, "free_size", lambda path: 64 * MIB)
        assert inside.prepare_service(store).settled(process.LIMIT_S)
        assert inside.active_segment(store).populated <= inside.log(store).end + 64 * MIB + FOLIO_SIZE
        monkeypatch.undo()
    assert_clean(tmp_path)


def test_a_sync_of_a_few_bytes_leaves_what_is_prepared_far_ahead_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, settings()) as store:
        put(store, 1)
        store.flush()
        assert inside.prepare_service(store).settled(process.LIMIT_S)
        segment, parts = inside.active_segment(store), list[MappedPart | None]()
        real = segment.write_file.sync

        def sync(part: MappedPart | None = None) -> None:
            parts.append(part)
            real(part)

        monkeypatch.setattr(segment.write_file, "sync", sync)
        for populated in (segment.populated, inside.log(store).end + DEEP_SIZE + MIB):
            segment.populated = populated
            store.put(Message("t", b"small"))
            store.flush()
        monkeypatch.undo()
        assert len(parts) == 2 and parts[0] is None
        assert parts[1] is not None and parts[1].stop == inside.log(store).end
    assert_clean(tmp_path)


def test_preparing_ends_where_blocks_end_before_what_is_wished_for(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean
) -> None:
    """While the clock stands still a log seems to grow without end: as much is wished for as there may be at most."""
    with flightlog.open(tmp_path, settings(allocate_step_size=1 * MIB), clock=clock) as store:
        for _ in range(8):
            put(store, 16)
            assert inside.prepare_service(store).settled(process.LIMIT_S)
    assert assert_clean(tmp_path).is_clean
